//! `ronde logs`

use std::process::ExitCode;

use ronde_protocol::RunId;
use ronde_state::run::RunState;

use super::{Ending, reader, screen::Screen, watch};
use crate::{
    event::project,
    handle::{Refusal, RefusalKind},
    home,
    http::{Begun, Client},
    report,
};

/// Show what happened in a run, event by event
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run (`ronde runs` lists them)
    run: String,
    /// Look on until it ends or rests; Ctrl-C ends the looking, not the run
    #[arg(long, short)]
    follow: bool,
    /// Print the whole output of an attempt's worker instead
    #[arg(long, value_name = "N", conflicts_with_all = ["follow", "check"])]
    attempt: Option<u32>,
    /// Print the whole output of a check of the last verdict instead
    #[arg(long, value_name = "NAME", conflicts_with = "follow")]
    check: Option<String>,
    /// Print one JSON object a line (docs/events.md)
    #[arg(long, conflicts_with_all = ["attempt", "check"])]
    json: bool,
}

pub(crate) async fn logs(args: Args) -> Ending {
    let run = RunId::new(args.run.clone());
    let missing = |what: String| Refusal::new(RefusalKind::Missing, what);
    let reader = reader()?.ok_or_else(|| missing(format!("there is no run {run}")))?;
    if args.attempt.is_some() || args.check.is_some() {
        let state = report::state(&reader, &run)?;
        let output = match (args.attempt, &args.check) {
            (Some(number), _) => state
                .attempts
                .iter()
                .find(|attempt| attempt.number == number)
                .and_then(|attempt| attempt.end.as_ref()?.output.clone())
                .ok_or_else(|| missing(format!("attempt {number} of {run} left no output")))?,
            (None, name) => {
                let verdicts = state
                    .attempts
                    .iter()
                    .rev()
                    .filter_map(|attempt| attempt.verdict.as_ref());
                let name = name.as_deref().unwrap_or_default();
                verdicts
                    .chain(state.baseline.as_ref())
                    .find_map(|verdict| {
                        let check = verdict
                            .checks
                            .iter()
                            .find(|check| check.name.as_str() == name)?;
                        check.output.clone()
                    })
                    .ok_or_else(|| missing(format!("check `{name}` of {run} left no output")))?
            }
        };
        let bytes = reader.get_artefact(&output)?;
        std::io::Write::write_all(&mut std::io::stdout().lock(), &bytes)
            .map_err(|error| Refusal::new(RefusalKind::Failed, error.to_string()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut screen = Screen::new(args.json);
    let records = reader.read_run(&run, 1)?;
    let mut state: Option<RunState> = None;
    let mut seen = 0;
    let unreadable = |error: ronde_state::run::Illegal| {
        Refusal::new(
            RefusalKind::Failed,
            format!("the journal of {run}: {error}"),
        )
    };
    for record in &records {
        match &mut state {
            None => state = Some(RunState::begin(record).map_err(unreadable)?),
            Some(state) => state.apply(record).map_err(unreadable)?,
        }
        for event in state.iter().flat_map(|state| project(state, record)) {
            screen.show(&event);
        }
        seen = record.seq;
    }
    screen.clear();
    if !args.follow || state.is_none_or(|state| state.outcome().is_some()) {
        return Ok(ExitCode::SUCCESS);
    }
    let home = home::home().map_err(|error| Refusal::new(RefusalKind::Failed, error))?;
    let client = Client::connect(&home).await.ok_or_else(|| {
        Refusal::new(
            RefusalKind::Conflict,
            format!("no process is at work on {run}"),
        )
        .hint(format!(
            "take it up with `ronde continue {run}`, or start `ronde serve`"
        ))
    })?;
    let look = watch::Look {
        json: args.json,
        interrupts: false,
    };
    watch::watch(
        &client,
        &home,
        &Begun {
            run,
            cursor: Some(seen),
        },
        look,
    )
    .await
}
