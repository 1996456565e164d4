//! The life of a process that owns a home: open the state, recover, answer at the socket, shut down.
//! The way in is the same for every verb; only `serve` takes up what others left.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use ractor::Actor;
use ronde_protocol::{Clock, Digest, handoff::Answer, outcome::Outcome};
use ronde_sandbox::Spawner;
use ronde_state::{
    event::HomeEvent,
    home::RunSummary,
    local::LocalStore,
    run::RunState,
    store::{Error as StoreError, Store},
};
use ronde_trigger::actor as trigger;
use ronde_workspace::Git;
use tokio::{
    net::UnixListener,
    sync::{Mutex, broadcast, oneshot, watch},
    task::JoinHandle,
};

use crate::{
    clock::WallClock,
    handle::{Handle, Refusal, RefusalKind, Shared},
    home, http,
    ports::{self, HomeInbox, Messenger},
    project::Firings,
    run::{act::Run, actor::Wake, journal::rested},
    supervisor::Supervisor,
};

/// What becomes of runs that a dead process left at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leftovers {
    /// They are taken up, and so are those that were interrupted.
    TakeUp,
    /// They are put to rest; `ronde continue` or `ronde serve` takes them up.
    Park,
}

/// Why a home could not be taken over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Another process owns it.
    #[error("the home is owned by process {0}")]
    Owned(u32),
    /// Anything else.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// A process that owns a home.
pub(crate) struct Daemon {
    /// The door.
    pub(crate) handle: Handle,
    socket: std::path::PathBuf,
    shutdown: oneshot::Sender<()>,
    server: JoinHandle<std::io::Result<()>>,
}

impl Daemon {
    /// Takes a home over and answers at its socket.
    ///
    /// # Errors
    /// [`Error::Owned`] where another process has it; else what went wrong.
    pub(crate) async fn start(
        home: &Path,
        verb: &str,
        leftovers: Leftovers,
    ) -> Result<Self, Error> {
        let clock: Arc<dyn Clock> = Arc::new(WallClock);
        let pid = std::process::id();
        let store: Arc<dyn Store> = match LocalStore::open(home, pid, Arc::clone(&clock)) {
            Ok(store) => Arc::new(store),
            Err(StoreError::Owned { pid, .. }) => return Err(Error::Owned(pid)),
            Err(error) => {
                let hint = format!(
                    "ronde keeps its state in {}; RONDE_HOME names another folder",
                    home.display()
                );
                return Err(Refusal::from(error).hint(hint).into());
            }
        };
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            Refusal::new(RefusalKind::Failed, format!("{what}: {error}"))
        };
        // This very file, also after another was installed in its place.
        let spawner = Spawner::new("/proc/self/exe".into());
        let (live, _) = broadcast::channel(1024);
        let budget = ronde_budget::spawn()
            .await
            .map_err(|error| failed("budget", &error))?;
        let messenger = Arc::new(Messenger::default());
        let handoff = ronde_handoff::spawn(ronde_handoff::Config {
            inbox: Arc::new(HomeInbox(Arc::clone(&store))),
            outside: messenger.clone(),
            clock: Arc::clone(&clock),
        })
        .await
        .map_err(|error| failed("handoff", &error))?;
        let shared = Arc::new(Shared {
            git: Git::new(spawner.clone()),
            spawner,
            store,
            clock: Arc::clone(&clock),
            home: home.to_owned(),
            live,
            fatal: watch::Sender::new(None),
            leaving: AtomicBool::new(false),
            firing: Mutex::default(),
            budget,
            handoff,
        });
        let (supervisor, _task) = Actor::spawn(None, Supervisor, Arc::clone(&shared))
            .await
            .map_err(|error| failed("supervisor", &error))?;
        let firings = Firings::new();
        let clockwork = trigger::spawn(trigger::Config {
            clock,
            slots: firings.clone(),
        })
        .await
        .map_err(|error| failed("clockwork", &error))?;
        let handle = Handle::new(shared, supervisor, clockwork);
        firings.open(handle.clone());
        messenger.open(handle.clone());
        ports::tell_again(&handle).await.map_err(Refusal::from)?;
        recover(&handle, leftovers).await?;
        let socket = home::socket(home);
        let listener =
            listen(&socket).map_err(|error| failed(&socket.display().to_string(), &error))?;
        let (shutdown, asked) = oneshot::channel();
        let token =
            new_token(&home::token(home)).map_err(|error| failed("the home's token", &error))?;
        let health = http::Health {
            pid,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            verb: verb.to_owned(),
        };
        let server = tokio::spawn(http::serve(
            listener,
            handle.clone(),
            health,
            token,
            async move {
                // A daemon that is dropped shuts down too.
                let _asked = asked.await;
            },
        ));
        Ok(Self {
            handle,
            socket,
            shutdown,
            server,
        })
    }

    /// Resolves when this process is of no use any more, with the reason.
    pub(crate) async fn fatal(&self) -> String {
        let mut fatal = self.handle.shared().fatal.subscribe();
        match fatal.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => "the daemon is gone".to_owned(),
        }
    }

    /// Lets every run rest, and gives the home up.
    pub(crate) async fn shutdown(self) {
        self.handle.shared().leaving.store(true, Ordering::Relaxed);
        self.handle.clockwork().stop();
        if let Err(error) = self.handle.interrupt_all().await {
            tracing::error!(%error, "the runs could not be put to rest; they recover at the next start");
        }
        // Whoever is to hear of an item hears of it; each notification has a time limit of its own.
        self.handle.shared().handoff.told().await;
        // The file goes first, so that nobody new comes in.
        if let Err(error) = std::fs::remove_file(&self.socket) {
            tracing::debug!(%error, "the socket was gone already");
        }
        let _server_gone = self.shutdown.send(());
        match self.server.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the API ended badly"),
            Err(error) => tracing::warn!(%error, "the API ended badly"),
        }
    }
}

/// Writes a new token, for the owner of the home alone to read.
fn new_token(file: &Path) -> std::io::Result<String> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut bytes = [0_u8; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        filled +=
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    let token = Digest::of(bytes).to_string();
    let fresh = file.with_extension("new");
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = std::fs::OpenOptions::new();
    let mut open = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)?;
    std::io::Write::write_all(&mut open, token.as_bytes())?;
    std::fs::rename(&fresh, file)?;
    Ok(token)
}

/// Binds the socket. The lock of the home is held, so a socket that is there is a dead process's.
fn listen(socket: &Path) -> std::io::Result<UnixListener> {
    use std::os::unix::fs::PermissionsExt as _;
    match std::fs::remove_file(socket) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let (short, _folder) = ronde_net::short_socket(socket)?;
    let listener = UnixListener::bind(&short)?;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Brings the home and the journals of its runs together again, and takes up or parks what a dead
/// process left.
async fn recover(handle: &Handle, leftovers: Leftovers) -> Result<(), Refusal> {
    let home = handle.shared().store.home();
    let runs: Vec<_> = home
        .runs()
        .filter(|run| {
            matches!(
                run.outcome,
                None | Some(Outcome::Interrupted | Outcome::HandedOff)
            )
        })
        .cloned()
        .collect();
    for run in runs {
        if let Err(refusal) = recover_run(handle, &run, leftovers).await {
            tracing::error!(run = %run.run, error = %refusal, "the run cannot be taken up");
            given_up(handle, &run, &refusal).await?;
        }
    }
    Ok(())
}

/// Puts on record that a run at work cannot go on: it must not stand in the way of its loop for ever.
async fn given_up(handle: &Handle, run: &RunSummary, why: &Refusal) -> Result<(), Refusal> {
    let store = &handle.shared().store;
    let home = store.home();
    if home
        .run(&run.run)
        .is_some_and(|known| known.outcome.is_none())
    {
        let rested = HomeEvent::RunRested {
            run: run.run.clone(),
            outcome: Outcome::Failed,
            changed: false,
            reason: why.to_string(),
            branch: run.branch.clone(),
            item: None,
        };
        store.record(vec![rested]).await?;
    }
    Ok(())
}

async fn recover_run(
    handle: &Handle,
    run: &RunSummary,
    leftovers: Leftovers,
) -> Result<(), Refusal> {
    let store = &handle.shared().store;
    let state = match store.read_run(&run.run, 1).await {
        Ok(records) => RunState::fold(&records)
            .map_err(|error| Refusal::new(RefusalKind::Failed, error.to_string()))?,
        Err(StoreError::Missing { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let home = store.home();
    let item = state.as_ref().and_then(|state| state.waiting.as_ref());
    let entry = item.and_then(|waiting| home.inbox().get(waiting.item));
    let answer = entry.and_then(|entry| entry.answer.clone());
    let Left { untold, wake } = left(run.outcome, state.as_ref(), answer, leftovers);
    if let Some(rested) = untold {
        if state.is_some_and(|state| state.ended.is_some()) {
            // The process died before it had put the run's files away.
            match Run::load(handle.shared(), &run.run).await {
                Ok(run) => run.clean().await,
                Err(error) => tracing::warn!(run = %run.run, %error, "its files are left"),
            }
        }
        store.record(vec![rested]).await?;
    }
    match wake {
        Some(wake) => handle.take(&run.run, wake).await,
        None => Ok(()),
    }
}

/// What is to be made good of a run that a process left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// What the home has not heard.
    pub(crate) untold: Option<HomeEvent>,
    /// Why the run is taken up, where it is.
    pub(crate) wake: Option<Wake>,
}

/// Decides what is to be made good of a run: `known` is how it stands by the home, `state` how by its
/// own journal (none before its first record), `answer` what was said to the item it waits for.
pub(crate) fn left(
    known: Option<Outcome>,
    state: Option<&RunState>,
    answer: Option<Answer>,
    leftovers: Leftovers,
) -> Left {
    let up = leftovers == Leftovers::TakeUp;
    let Some((state, outcome)) = state.and_then(|state| Some((state, state.outcome()?))) else {
        return Left {
            untold: None,
            wake: Some(if up { Wake::Recover } else { Wake::Park }),
        };
    };
    if up && outcome == Outcome::Interrupted {
        return Left {
            untold: None,
            wake: Some(Wake::Recover),
        };
    }
    // It was answered, and the process died before the run heard of it.
    let answered = state.waiting.as_ref().zip(answer).filter(|_| up);
    Left {
        untold: rested(state).filter(|_| known != Some(outcome)),
        wake: answered.map(|(waiting, answer)| Wake::Answer(waiting.item, answer)),
    }
}
