//! `ronde plan`

use std::{path::PathBuf, process::ExitCode};

use ronde_protocol::{Clock as _, Timestamp};
use serde::Serialize;

use super::{Ending, fail_with, local_time};
use crate::{clock::WallClock, frozen::Frozen, project::schedule};

/// Show when a loop will start, before it is switched on
///
/// Times are those of the triggers' own time zones; daylight saving is as Debian's cron does it. An
/// `every` trigger is counted from --from, as if the loop were registered then. Jitter is not shown.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The loop file, or the name of a loop in `.ronde/loops`
    file: PathBuf,
    /// Show starts strictly after this instant, RFC 3339 (default: now)
    #[arg(long, value_name = "RFC3339")]
    from: Option<Timestamp>,
    /// How many starts
    #[arg(long, default_value_t = 10)]
    count: usize,
    /// Print one JSON array of {"at", "trigger"}
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Start {
    at: Timestamp,
    trigger: usize,
}

pub(crate) fn plan(args: &Args) -> Ending {
    let file = super::loop_file(&args.file)?;
    let frozen = match Frozen::read(&file) {
        Ok(frozen) => frozen,
        Err(error) => return fail_with(error, args.json),
    };
    let from = args.from.unwrap_or_else(|| WallClock.now());
    let triggers = &frozen.definition.triggers;
    let schedules = triggers
        .iter()
        .map(|trigger| Ok((trigger.index, schedule(trigger, from)?)))
        .collect::<Result<Vec<_>, crate::handle::Refusal>>()?;
    let starts: Vec<_> = ronde_trigger::plan(&schedules, from, args.count)
        .into_iter()
        .map(|(at, trigger)| Start { at, trigger })
        .collect();
    if args.json {
        let line = serde_json::to_string(&starts).expect("times and numbers are JSON");
        say!("{line}");
        return Ok(ExitCode::SUCCESS);
    }
    let name = &frozen.definition.name;
    if triggers.is_empty() {
        say!("{name} has no trigger: it starts by hand, with `ronde run`");
    } else if starts.is_empty() {
        say!("{name} never starts by itself after {from}");
    }
    if !frozen.definition.enabled {
        say!("{name} is not enabled: none of these starts happens");
    }
    for start in &starts {
        let zone = triggers
            .iter()
            .find(|trigger| trigger.index == start.trigger)
            .and_then(|trigger| trigger.timezone.clone());
        say!(
            "{}  trigger {}",
            local_time(start.at, zone.as_deref()),
            start.trigger
        );
    }
    Ok(ExitCode::SUCCESS)
}
