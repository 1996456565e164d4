//! `ronde show`

use std::process::ExitCode;

use ronde_protocol::RunId;

use super::{Ending, reader};
use crate::{
    event::run_ended,
    handle::{Refusal, RefusalKind},
    home, report,
};

/// Show one run: what was claimed, what was made, what was observed, and within which scope
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run (`ronde runs` lists them)
    run: String,
    /// Print one JSON object: the closing event; for a run at work `run`, `loop`, `attempts`, and
    /// `outcome` null
    #[arg(long)]
    json: bool,
}

pub(crate) fn show(args: &Args) -> Ending {
    let run = RunId::new(args.run.clone());
    let missing = || {
        Refusal::new(RefusalKind::Missing, format!("there is no run {run}"))
            .hint("list them with `ronde runs`")
    };
    let reader = reader()?.ok_or_else(missing)?;
    let home = home::home().map_err(|error| Refusal::new(RefusalKind::Failed, error))?;
    if args.json {
        let state = report::state(&reader, &run)?;
        let mut line = run_ended(&state).map_or_else(
            || serde_json::json!({"outcome": null, "loop": state.firing.loop_name, "attempts": state.attempts.len()}),
            |what| serde_json::to_value(what).expect("an event is JSON"),
        );
        line["run"] = serde_json::json!(run);
        say!("{line}");
    } else {
        anstream::print!("{}", report::of_run(&home, &run)?);
    }
    Ok(ExitCode::SUCCESS)
}
