//! `ronde status`

use std::process::ExitCode;

use super::{Ending, local_time, reader};
use crate::{
    handle::{Refusal, RefusalKind},
    home,
    http::Client,
};

/// Show at a glance: who owns the home, which loops are served, what is at work, what waits
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) async fn status(args: Args) -> Ending {
    let home = home::home().map_err(|error| Refusal::new(RefusalKind::Failed, error))?;
    let health = match Client::connect(&home).await {
        Some(client) => Some(client.health().await?),
        None => None,
    };
    let reader = reader()?;
    let state = reader.as_ref().map(ronde_state::local::LocalReader::home);
    let loops: Vec<_> = state.iter().flat_map(|home| home.loops()).collect();
    let working: Vec<_> = state
        .iter()
        .flat_map(|home| home.runs())
        .filter(|run| run.outcome.is_none())
        .collect();
    let open: Vec<_> = state
        .iter()
        .flat_map(|home| home.inbox().entries())
        .filter(|entry| entry.answer.is_none())
        .collect();
    if args.json {
        let line = serde_json::json!({
            "home": home, "owner": health,
            "loops": loops.iter().map(|l| serde_json::json!({"loop": l.loop_name, "file": l.file})).collect::<Vec<_>>(),
            "at_work": working.iter().map(|run| &run.run).collect::<Vec<_>>(),
            "inbox": open.iter().map(|entry| entry.number).collect::<Vec<_>>(),
        });
        say!("{line}");
        return Ok(ExitCode::SUCCESS);
    }
    say!("home     {}", home.display());
    match &health {
        Some(health) => {
            say!("owner    process {} (ronde {})", health.pid, health.verb)
        }
        None => {
            say!("owner    none: no loop starts by itself until `ronde serve` runs")
        }
    }
    for served in loops {
        say!(
            "loop     {:<24} {}",
            served.loop_name,
            served.file.display()
        );
    }
    for run in working {
        say!(
            "at work  {:<24} since {}",
            run.run,
            local_time(run.fired_at, None)
        );
    }
    for entry in &open {
        say!(
            "waits    item {} ({}): {}",
            entry.number,
            entry.item.reason,
            entry.item.title
        );
    }
    if !open.is_empty() {
        say!("         see `ronde inbox show N`");
    }
    Ok(ExitCode::SUCCESS)
}
