//! `ronde runs`

use std::process::ExitCode;

use super::{Ending, local_time, reader};

/// List the runs of the home, newest first
///
/// With --json: one object a line with `run`, `loop`, `outcome` (null while it is at work), `changed`,
/// `reason`, `branch`, `item`, `fired_at`, `rested_at`, `root`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only runs of this loop
    #[arg(long = "loop", value_name = "NAME")]
    of: Option<String>,
    /// At most this many
    #[arg(long, short = 'n')]
    limit: Option<usize>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn list(args: &Args) -> Ending {
    let Some(reader) = reader()? else {
        if !args.json {
            say!("no runs yet");
        }
        return Ok(ExitCode::SUCCESS);
    };
    let home = reader.home();
    let runs = home
        .runs()
        .rev()
        .filter(|run| {
            args.of
                .as_deref()
                .is_none_or(|name| run.loop_name.as_str() == name)
        })
        .take(args.limit.unwrap_or(usize::MAX));
    let mut none = true;
    for run in runs {
        none = false;
        if args.json {
            let line = serde_json::json!({
                "run": run.run, "loop": run.loop_name, "outcome": run.outcome, "changed": run.changed,
                "reason": run.reason, "branch": run.branch, "item": run.item, "cause": run.cause,
                "fired_at": run.fired_at, "rested_at": run.rested_at, "root": run.root,
            });
            say!("{line}");
        } else {
            let outcome = run
                .outcome
                .map_or_else(|| "at work".to_owned(), |outcome| outcome.to_string());
            say!(
                "{:<28} {:<12} {}  {}",
                run.run,
                outcome,
                local_time(run.fired_at, None),
                run.branch.as_deref().unwrap_or(&run.reason),
            );
        }
    }
    if none && !args.json {
        say!("no runs yet");
    }
    Ok(ExitCode::SUCCESS)
}
