//! `ronde serve`

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use tokio::signal::unix::{SignalKind, signal};

use super::{Ending, connect::Door};
use crate::{
    daemon::Leftovers,
    handle::{Refusal, RefusalKind},
    http::{ProjectReply, ProjectRequest},
};

/// Serve the loops of a project: start them when they come due, and take up interrupted runs
///
/// Serves the files `DIR/.ronde/loops/*.toml` until it is told to leave off (Ctrl-C, SIGTERM);
/// runs at work then rest and are taken up by the next `serve`. Where another `serve` owns the home
/// already, that one serves this project too, and this one stands by to take over. docs/systemd.md has a user unit.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The project: the folder that holds `.ronde`
    #[arg(default_value = ".")]
    dir: PathBuf,
}

pub(crate) async fn serve(args: Args) -> Ending {
    let failed = |error: std::io::Error| Refusal::new(RefusalKind::Failed, error.to_string());
    let root = std::fs::canonicalize(&args.dir).map_err(|error| {
        Refusal::new(
            RefusalKind::Invalid,
            format!("{}: {error}", args.dir.display()),
        )
    })?;
    // The folder is looked at before a home is touched.
    crate::project::loop_files(&root)?;
    let mut leave = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut told = false;
    loop {
        let door = Door::open("serve", Leftovers::TakeUp).await?;
        let reply = match door
            .client
            .open(&ProjectRequest { root: root.clone() })
            .await
        {
            Ok(reply) => reply,
            Err(refusal) => {
                door.leave(false).await;
                return Err(refusal);
            }
        };
        if let Err(refusal) = tell(&root, &reply, &mut told) {
            door.leave(false).await;
            return Err(refusal);
        }
        let Some(daemon) = &door.own else {
            // It goes on there; when that process leaves, this one takes the home over.
            say!(
                "another process owns {} and serves them; standing by",
                door.home.display()
            );
            tokio::select! {
                () = door.client.gone() => continue,
                _ = leave.recv() => return Ok(ExitCode::SUCCESS),
                _ = terminate.recv() => return Ok(ExitCode::SUCCESS),
            }
        };
        let broken = tokio::select! {
            _ = leave.recv() => None,
            _ = terminate.recv() => None,
            reason = daemon.fatal() => Some(reason),
        };
        if let Some(reason) = broken {
            // Nothing more can be written down, so nothing more may be done.
            return Err(
                Refusal::new(RefusalKind::Failed, format!("cannot go on: {reason}"))
                    .hint("nothing is lost: make room, or mend the disk, and start it again"),
            );
        }
        say!("leaving off; runs at work rest until the next `ronde serve`");
        tokio::select! {
            () = door.leave(false) => {}
            // Twice means at once: every run recovers from its journal.
            _ = leave.recv() => {}
            _ = terminate.recv() => {}
        }
        return Ok(ExitCode::SUCCESS);
    }
}

/// Says what is served, once, and what is not.
fn tell(root: &Path, reply: &ProjectReply, told: &mut bool) -> Result<(), Refusal> {
    if std::mem::replace(told, true) {
        return Ok(());
    }
    for problem in &reply.problems {
        anstream::eprintln!("{problem}");
    }
    if reply.loops.is_empty() && !reply.problems.is_empty() {
        return Err(Refusal::new(
            RefusalKind::Invalid,
            format!("no loop of {} can be served", root.display()),
        ));
    }
    let names: Vec<_> = reply.loops.iter().map(ToString::to_string).collect();
    let names = if names.is_empty() {
        "no loops yet (`ronde init` writes one)".to_owned()
    } else {
        names.join(", ")
    };
    say!("serving {}: {names}", root.display());
    Ok(())
}
