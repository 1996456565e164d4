//! The actor of one attempt. Its handler only passes on a stop: the work is a task beside it, and what
//! comes of that task, a panic too, is sent out as the attempt's end.

use std::sync::Arc;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};
use ronde_protocol::{
    Usage,
    work::{AttemptEnd, EndReason, Progress},
};
use ronde_sandbox::Spawner;
use tokio::sync::{oneshot, watch};

use crate::{Agent, Request, built_in, external, preset};

/// What the actor is started with.
pub struct Config {
    /// The attempt.
    pub request: Request,
    /// Who does the work.
    pub agent: Agent,
    /// What starts processes.
    pub spawner: Spawner,
    /// Where the end goes. It always comes, unless the whole process dies.
    pub outcome: oneshot::Sender<AttemptEnd>,
    /// Short-lived news, for screens.
    pub progress: Arc<dyn Fn(Progress) + Send + Sync>,
}

/// Why no actor was started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the worker's actor: {0}")]
pub struct Error(#[from] ractor::SpawnErr);

/// The door to an attempt. Dropping it stops the attempt.
#[derive(Debug)]
pub struct Handle {
    actor: ActorRef<Message>,
    over: watch::Receiver<bool>,
}

impl Handle {
    /// Asks the attempt to stop; its end comes all the same.
    pub fn stop(&self) {
        // An actor that is gone has stopped.
        let _gone = self.actor.cast(Message::Stop);
    }

    /// Resolves when nothing of the attempt is alive any more, its processes included. It holds no
    /// part of the handle, so it can be awaited after dropping that.
    pub fn over(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut over = self.over.clone();
        async move {
            // An error means that the task is gone.
            let _gone = over.wait_for(|over| *over).await;
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Starts an attempt.
///
/// # Errors
/// Where the actor runtime cannot start one; the attempt has then not begun.
pub async fn spawn(config: Config, supervisor: Option<ActorCell>) -> Result<Handle, Error> {
    let (over, is_over) = watch::channel(false);
    let start = Start { config, over };
    let (actor, _task) = match supervisor {
        Some(cell) => Actor::spawn_linked(None, Worker, start, cell).await?,
        None => Actor::spawn(None, Worker, start).await?,
    };
    Ok(Handle {
        actor,
        over: is_over,
    })
}

#[derive(Debug)]
enum Message {
    Stop,
    Ended,
}

struct Worker;

struct Start {
    config: Config,
    over: watch::Sender<bool>,
}

/// Gone, it stops the work too.
struct State {
    stop: watch::Sender<bool>,
}

impl Actor for Worker {
    type Msg = Message;
    type State = State;
    type Arguments = Start;

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        Start { config, over }: Start,
    ) -> Result<State, ActorProcessingErr> {
        let Config {
            request,
            agent,
            spawner,
            outcome,
            progress,
        } = config;
        let (stop, stopped) = watch::channel(false);
        let work = tokio::spawn(work(request, agent, spawner, stopped, progress));
        tokio::spawn(async move {
            let end = work
                .await
                .unwrap_or_else(|error| unknown(&format!("the worker broke: {error}")));
            over.send_replace(true);
            // Nobody waits for the end of a run that was left off.
            let _nobody = outcome.send(end);
            let _gone = myself.cast(Message::Ended);
        });
        Ok(State { stop })
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Stop => {
                state.stop.send_replace(true);
            }
            Message::Ended => myself.stop(None),
        }
        Ok(())
    }
}

async fn work(
    request: Request,
    agent: Agent,
    spawner: Spawner,
    stop: watch::Receiver<bool>,
    progress: Arc<dyn Fn(Progress) + Send + Sync>,
) -> AttemptEnd {
    let program = match agent {
        Agent::Ronde(agent) => {
            return built_in::run(request, agent, spawner, stop, progress).await;
        }
        Agent::Command { argv } => external::Program::Command(argv),
        Agent::Claude { model } => external::Program::Preset(preset::Preset::Claude, model),
        Agent::Codex { model } => external::Program::Preset(preset::Preset::Codex, model),
        Agent::OpenCode { model } => external::Program::Preset(preset::Preset::OpenCode, model),
    };
    external::run(request, program, spawner, stop, progress).await
}

fn unknown(error: &str) -> AttemptEnd {
    end(EndReason::Unknown {
        error: error.to_owned(),
    })
}

/// An end of which nothing more is known.
pub(crate) fn end(reason: EndReason) -> AttemptEnd {
    AttemptEnd {
        reason,
        claim: String::new(),
        iterations: 0,
        usage: Usage::default(),
        metered: false,
        exit: None,
        output: None,
    }
}

/// Resolves when the attempt is to stop.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the actor is gone, and that stops the attempt too.
    let _gone = stop.wait_for(|stop| *stop).await;
}
