//! `ronde run`

use std::{path::PathBuf, process::ExitCode};

use super::{Ending, connect::Door, fail_with, watch};
use crate::{daemon::Leftovers, frozen::Frozen, http::StartRequest};

/// Start a run of a loop now, and look on until it ends or rests
///
/// The run works in a private clone below ronde's home; the repository is touched only to put a
/// branch there once every check passes. Ctrl-C lets the run rest (`ronde continue` goes on);
/// twice leaves at once, and nothing is lost.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ronde run .ronde/loops/nightly-green.toml\n  ronde run nightly-green          the loop of that name in .ronde/loops\n  ronde run loop.toml --json | jq -c 'select(.event == \"verdict\")'"
)]
pub(crate) struct Args {
    /// The loop file, or the name of a loop in `.ronde/loops`
    file: PathBuf,
    /// Print one JSON object a line (docs/events.md); the last one is `run_ended`
    #[arg(long)]
    json: bool,
    /// Only start it; look on later with `ronde logs RUN --follow`. Needs a `ronde serve` that runs
    #[arg(long)]
    detach: bool,
}

pub(crate) async fn run(args: Args) -> Ending {
    let file = super::loop_file(&args.file)?;
    // All that is wrong with the file is told before a home is touched.
    if let Err(error) = Frozen::read(&file) {
        return fail_with(error, args.json);
    }
    let door = Door::open("run", Leftovers::Park).await?;
    if args.detach && door.own.is_some() {
        door.leave(false).await;
        return Err(crate::handle::Refusal::new(
            crate::handle::RefusalKind::Conflict,
            "nothing would go on with the run after this command",
        )
        .hint("start `ronde serve` first, or leave out --detach"));
    }
    let request = StartRequest {
        file,
        nonce: nonce(),
    };
    let begun = match door.client.start(&request).await {
        Ok(begun) => begun,
        Err(refusal) => {
            // What others have started here in the meantime goes on to its end.
            door.leave(true).await;
            return Err(refusal);
        }
    };
    if args.detach {
        if args.json {
            say!("{}", serde_json::json!({"run": begun.run}));
        } else {
            say!("{}", begun.run);
        }
        return Ok(ExitCode::SUCCESS);
    }
    watch::to_the_end(door, &begun, args.json).await
}

/// A text no other start has: process, and a number of this process's own address space.
fn nonce() -> String {
    use std::hash::{BuildHasher as _, RandomState};
    format!(
        "{:x}-{:016x}",
        std::process::id(),
        RandomState::new().hash_one(std::process::id())
    )
}
