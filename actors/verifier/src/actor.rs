//! The verifier as an actor: one actor, one verdict. Its handler starts the verification and does not
//! wait for it; a verification that panics is an error, and no error is a verdict.

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};
use ronde_protocol::verdict::Verdict;
use tokio::sync::{oneshot, watch};

use crate::{Config, Error, judge::judge};

/// A verification under way. Dropping it stops the verification.
#[derive(Debug)]
pub struct Handle {
    stop: watch::Sender<bool>,
    verdict: oneshot::Receiver<Result<Verdict, Error>>,
}

impl Handle {
    /// Stops it: the check at work is killed with its whole tree.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// The verdict, once it is there.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn verdict(&mut self) -> Result<Verdict, Error> {
        match (&mut self.verdict).await {
            Ok(verdict) => verdict,
            Err(_) => Err(Error::Broken("its actor ended without a word".to_owned())),
        }
    }
}

/// Starts a verification.
///
/// # Errors
/// Where the actor runtime cannot start one.
pub async fn spawn(
    config: Config,
    supervisor: Option<ActorCell>,
) -> Result<Handle, ractor::SpawnErr> {
    let (stop, stopped) = watch::channel(false);
    let (to, verdict) = oneshot::channel();
    let start = Start {
        config,
        stopped,
        to,
    };
    match supervisor {
        Some(supervisor) => Actor::spawn_linked(None, Verifier, start, supervisor).await?,
        None => Actor::spawn(None, Verifier, start).await?,
    };
    Ok(Handle { stop, verdict })
}

struct Verifier;

struct Start {
    config: Config,
    stopped: watch::Receiver<bool>,
    to: oneshot::Sender<Result<Verdict, Error>>,
}

struct State {
    to: Option<oneshot::Sender<Result<Verdict, Error>>>,
    work: tokio::task::AbortHandle,
}

struct Judged(Result<Verdict, Error>);

impl Actor for Verifier {
    type Msg = Judged;
    type State = State;
    type Arguments = Start;

    async fn pre_start(
        &self,
        myself: ActorRef<Judged>,
        Start {
            config,
            stopped,
            to,
        }: Start,
    ) -> Result<State, ActorProcessingErr> {
        let work = tokio::spawn(judge(config, stopped));
        let abort = work.abort_handle();
        tokio::spawn(async move {
            let judged = match work.await {
                Ok(judged) => judged,
                Err(error) => Err(Error::Broken(error.to_string())),
            };
            // An actor that has stopped wants no verdict.
            let _stopped = myself.cast(Judged(judged));
        });
        Ok(State {
            to: Some(to),
            work: abort,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Judged>,
        Judged(judged): Judged,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(to) = state.to.take() {
            // Nobody waits for it any more.
            let _dropped = to.send(judged);
        }
        myself.stop(None);
        Ok(())
    }

    async fn post_stop(
        &self,
        _: ActorRef<Judged>,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        state.work.abort();
        Ok(())
    }
}
