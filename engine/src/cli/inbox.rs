//! `ronde inbox`

use std::process::ExitCode;

use ronde_protocol::{ItemNumber, handoff::Entry};

use super::{Ending, local_time, reader};
use crate::handle::{Refusal, RefusalKind};

/// List what waits for a person; `ronde inbox show N` shows one item whole
///
/// With --json: one object a line with `item`, `run`, `loop`, `outcome` (of the run), `reason`, `title`,
/// `opened`, `answered`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Also items that are answered
    #[arg(long)]
    all: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Show one item: the evidence, the branch, what was tried, and how to answer
    Show {
        /// The item's number
        number: ItemNumber,
        /// Print it as one JSON object
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn inbox(args: &Args) -> Ending {
    let reader = reader()?;
    match &args.verb {
        Some(Verb::Show { number, json }) => {
            let entry = reader
                .as_ref()
                .and_then(|reader| reader.home().inbox().get(*number).cloned());
            let entry = entry.ok_or_else(|| {
                Refusal::new(
                    RefusalKind::Missing,
                    format!("there is no item {number} in the inbox"),
                )
                .hint("list them with `ronde inbox`")
            })?;
            if *json {
                let line = serde_json::to_string(&entry).expect("an item is JSON");
                say!("{line}");
            } else {
                anstream::print!("{}", ronde_handoff::render(&entry));
            }
        }
        None => {
            let home = reader.as_ref().map(ronde_state::local::LocalReader::home);
            let entries: Vec<&Entry> = home
                .iter()
                .flat_map(|home| home.inbox().entries())
                .filter(|entry| args.all || entry.answer.is_none())
                .collect();
            for entry in &entries {
                let item = &entry.item;
                if args.json {
                    let outcome = home.as_ref().and_then(|home| home.run(&item.run)?.outcome);
                    let line = serde_json::json!({
                        "item": entry.number, "run": item.run, "loop": item.loop_name, "outcome": outcome,
                        "reason": item.reason, "title": item.title, "branch": item.branch,
                        "opened": item.opened, "expires": item.expires, "answered": entry.answered,
                    });
                    say!("{line}");
                } else {
                    let state = if entry.answer.is_some() {
                        "answered"
                    } else {
                        "open"
                    };
                    say!(
                        "{:>4}  {:<8} {:<14} {}  {:<24} {}",
                        entry.number,
                        state,
                        item.reason,
                        local_time(item.opened, None),
                        item.run,
                        item.title
                    );
                }
            }
            if entries.is_empty() && !args.json {
                say!("nothing waits for you");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
