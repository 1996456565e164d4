//! The way to the process that owns the home: one that lives, or this one.

use std::{path::PathBuf, time::Duration};

use crate::{
    daemon::{Daemon, Error, Leftovers},
    handle::{Refusal, RefusalKind},
    home,
    http::Client,
};

/// How long an owner that is just starting or leaving is waited for.
const PATIENCE: u32 = 200;
const PAUSE: Duration = Duration::from_millis(50);

/// A client of the owner of the home, and the owner itself where it is this process.
pub(crate) struct Door {
    /// The home.
    pub(crate) home: PathBuf,
    /// The way in.
    pub(crate) client: Client,
    /// This process as the owner.
    pub(crate) own: Option<Daemon>,
}

impl Door {
    /// Finds the owner of the home, or becomes it.
    pub(crate) async fn open(verb: &str, leftovers: Leftovers) -> Result<Self, Refusal> {
        let home = home::home().map_err(|error| Refusal::new(RefusalKind::Failed, error))?;
        let mut owner = 0;
        for _ in 0..PATIENCE {
            if let Some(client) = Client::connect(&home).await {
                return Ok(Self {
                    home,
                    client,
                    own: None,
                });
            }
            match Daemon::start(&home, verb, leftovers).await {
                Ok(daemon) => {
                    let client = Client::connect(&home).await.ok_or_else(|| {
                        Refusal::new(RefusalKind::Failed, "the own socket does not answer")
                    })?;
                    return Ok(Self {
                        home,
                        client,
                        own: Some(daemon),
                    });
                }
                Err(Error::Owned(pid)) => owner = pid,
                Err(Error::Refused(refusal)) => return Err(refusal),
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(Refusal::new(
            RefusalKind::Failed,
            format!(
                "process {owner} owns {} and does not answer",
                home.display()
            ),
        )
        .hint(format!(
            "if it hangs, end it with `kill {owner}`; nothing is lost"
        )))
    }

    /// Leaves. An owner first waits for runs that others asked it for, then puts the rest to rest.
    pub(crate) async fn leave(self, wait: bool) {
        let Some(daemon) = self.own else { return };
        if wait {
            let idle = daemon.handle.idle();
            tokio::pin!(idle);
            tokio::select! {
                biased;
                _ = &mut idle => {}
                () = tokio::time::sleep(Duration::from_secs(2)) => {
                    anstream::eprintln!("waiting for what is still under way here; Ctrl-C lets it rest");
                    tokio::select! {
                        _ = &mut idle => {}
                        _ = tokio::signal::ctrl_c() => {}
                    }
                }
            }
        }
        daemon.shutdown().await;
    }
}
