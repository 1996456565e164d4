//! `ronde stop`

use std::process::ExitCode;

use ronde_protocol::RunId;

use super::{Ending, connect::Door, watch};
use crate::daemon::Leftovers;

/// End a run for good, at work or at rest; its processes are killed, its work so far is kept
///
/// To let it rest and go on later, press Ctrl-C in its `ronde run` instead.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run (`ronde runs` lists them)
    run: String,
    /// Print one JSON object a line (docs/events.md); the last one is `run_ended`
    #[arg(long)]
    json: bool,
}

pub(crate) async fn stop(args: Args) -> Ending {
    let door = Door::open("stop", Leftovers::Park).await?;
    let begun = match door.client.stop(&RunId::new(args.run)).await {
        Ok(begun) => begun,
        Err(refusal) => {
            // What others have started here in the meantime goes on to its end.
            door.leave(true).await;
            return Err(refusal);
        }
    };
    let ending = watch::to_the_end(door, &begun, args.json).await?;
    // The run was to be cancelled, and it is: that is this command's success.
    Ok(if ending == ExitCode::from(22) {
        ExitCode::SUCCESS
    } else {
        ending
    })
}
