//! `ronde continue`

use ronde_protocol::RunId;

use super::{Ending, connect::Door, watch};
use crate::daemon::Leftovers;

/// Go on with a run that was interrupted, exactly where it was
///
/// A run that waits for a person goes on with `ronde answer` instead.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run (`ronde runs` lists them)
    run: String,
    /// Print one JSON object a line (docs/events.md); the last one is `run_ended`
    #[arg(long)]
    json: bool,
}

pub(crate) async fn resume(args: Args) -> Ending {
    let door = Door::open("continue", Leftovers::Park).await?;
    let begun = match door.client.resume(&RunId::new(args.run)).await {
        Ok(begun) => begun,
        Err(refusal) => {
            // What others have started here in the meantime goes on to its end.
            door.leave(true).await;
            return Err(refusal);
        }
    };
    watch::to_the_end(door, &begun, args.json).await
}
