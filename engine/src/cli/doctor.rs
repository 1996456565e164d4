//! `ronde doctor`

use std::process::ExitCode;

use super::Ending;
use crate::home;

/// Show what this machine can hold: isolation, process control, git, the home
///
/// What a loop asks for and cannot have here stops its runs before they start.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object a line: `name`, `ok`, `detail`
    #[arg(long)]
    json: bool,
}

pub(crate) fn doctor(args: &Args) -> Ending {
    let mut rows: Vec<(String, bool, String)> = ronde_sandbox::doctor::probe()
        .into_iter()
        .map(|probe| (probe.name.to_owned(), probe.ok, probe.detail))
        .collect();
    rows.push(match home::home() {
        Ok(home) => {
            let place = home
                .ancestors()
                .find(|folder| folder.exists())
                .unwrap_or(&home);
            let writable = rustix::fs::access(place, rustix::fs::Access::WRITE_OK);
            let detail = match &writable {
                Ok(()) => home.display().to_string(),
                Err(error) => format!("{}: {error}", place.display()),
            };
            ("home".to_owned(), writable.is_ok(), detail)
        }
        Err(error) => ("home".to_owned(), false, error),
    });
    for (name, ok, detail) in &rows {
        if args.json {
            say!(
                "{}",
                serde_json::json!({"name": name, "ok": ok, "detail": detail})
            );
        } else {
            say!("{} {name:<20} {detail}", if *ok { "ok  " } else { "MISS" });
        }
    }
    Ok(ExitCode::SUCCESS)
}
