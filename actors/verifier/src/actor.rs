//! The verifier as an actor: one actor, one verdict. Its handler starts the verification and does not
//! wait for it; a verification that panics is an error, and no error is a verdict.

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};
use ronde_protocol::verdict::Verdict;
use tokio::sync::{oneshot, watch};

use crate::{Config, Error, judge::judge};

type Judgement = Result<Verdict, Error>;

/// A verification under way. Dropping it stops the verification.
#[derive(Debug)]
pub struct Handle {
    stop: Stop,
    coming: oneshot::Receiver<Judgement>,
    given: Option<Judgement>,
}

impl Handle {
    /// Stops it: the check at work is killed with its whole tree, and the checkout is removed.
    pub fn stop(&self) {
        self.stop.stop();
    }

    /// The verdict, once it is there. It may be asked for again, also after the wait was given up.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn verdict(&mut self) -> Result<Verdict, Error> {
        if let Some(given) = &self.given {
            return given.clone();
        }
        let gone = || Err(Error::Broken("its actor ended without a word".to_owned()));
        let given = (&mut self.coming).await.unwrap_or_else(|_| gone());
        self.given.insert(given).clone()
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
    let (to, coming) = oneshot::channel();
    let stop = Stop(watch::Sender::new(false));
    let start = Start {
        config,
        stop: stop.clone(),
        to,
    };
    match supervisor {
        Some(supervisor) => Actor::spawn_linked(None, Verifier, start, supervisor).await?,
        None => Actor::spawn(None, Verifier, start).await?,
    };
    Ok(Handle {
        stop,
        coming,
        given: None,
    })
}

/// Stops a verification, at the latest when one of its holders is gone: its handle or its actor. The
/// verification itself is never aborted, since it has its checkout to remove.
#[derive(Debug, Clone)]
struct Stop(watch::Sender<bool>);

impl Stop {
    fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Verifier;

struct Start {
    config: Config,
    stop: Stop,
    to: oneshot::Sender<Judgement>,
}

struct State {
    to: Option<oneshot::Sender<Judgement>>,
    _stop: Stop,
}

struct Judged(Judgement);

impl Actor for Verifier {
    type Msg = Judged;
    type State = State;
    type Arguments = Start;

    async fn pre_start(
        &self,
        myself: ActorRef<Judged>,
        Start { config, stop, to }: Start,
    ) -> Result<State, ActorProcessingErr> {
        let work = tokio::spawn(judge(config, stop.0.subscribe()));
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
            _stop: stop,
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
}
