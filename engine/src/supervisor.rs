//! Starts the coordinators and decides what becomes of one that breaks. Its policy is written by hand:
//! the runtime's default would end every sibling when one actor panics.
//!
//! A coordinator that panics is rebuilt from its journal, at most [`RESTARTS`] times in the life of
//! this process. One that cannot even begin (its journal is damaged, its definition is gone) ends
//! alone, with the reason on record.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use ronde_protocol::{RunId, outcome::Outcome};
use ronde_state::event::HomeEvent;
use tokio::sync::oneshot;

use crate::{
    handle::{Shared, unreadable},
    run::{
        act::Run,
        actor::{Coordinator, Message as RunMessage, Start, Wake},
    },
};

/// How often a coordinator that broke is begun again.
const RESTARTS: u32 = 3;

/// Hears whether a run was taken up.
type Taken = oneshot::Sender<Result<(), String>>;

/// What the supervisor is told.
pub(crate) enum Message {
    /// Take a run up. The reply comes once its journal says so, or with the reason why not.
    Take(RunId, Wake, Option<Taken>),
    /// A coordinator has begun, or could not.
    Begun(RunId, Result<ActorRef<RunMessage>, String>),
    /// Let one run rest; the reply comes when nothing of it is alive.
    Interrupt(RunId, oneshot::Sender<()>),
    /// Let every run rest.
    InterruptAll(oneshot::Sender<()>),
    /// Reply when no run is at work.
    Idle(oneshot::Sender<()>),
}

/// The supervisor.
pub(crate) struct Supervisor;

/// What it knows.
pub(crate) struct Supervision {
    shared: Arc<Shared>,
    runs: BTreeMap<RunId, Entry>,
    idle: Vec<oneshot::Sender<()>>,
    leaving: bool,
}

/// A run that has a coordinator, or is about to.
struct Entry {
    actor: Option<ActorRef<RunMessage>>,
    reply: Option<Taken>,
    /// What is to come once this coordinator is gone.
    then: VecDeque<(Wake, Option<Taken>)>,
    /// Whom to tell once it is gone.
    gone: Vec<oneshot::Sender<()>>,
    failures: u32,
}

impl Entry {
    /// Tells a coordinator what was wanted of its run while it was being taken up: to stop, or to rest.
    /// What is to come after the rest stays for later.
    fn tell_early(&mut self, actor: &ActorRef<RunMessage>) {
        while let Some((Wake::Stop | Wake::Park, _)) = self.then.front()
            && let Some((wake, reply)) = self.then.pop_front()
        {
            let rests = wake == Wake::Park;
            let message = if rests {
                RunMessage::Interrupt(oneshot::channel().0)
            } else {
                RunMessage::Stop
            };
            // One that is just ending needs neither.
            let _ended = actor.cast(message);
            answer(reply, Ok(()));
            if rests {
                return;
            }
        }
    }
}

impl Actor for Supervisor {
    type Msg = Message;
    type State = Supervision;
    type Arguments = Arc<Shared>;

    async fn pre_start(
        &self,
        _myself: ActorRef<Message>,
        shared: Arc<Shared>,
    ) -> Result<Supervision, ActorProcessingErr> {
        Ok(Supervision {
            shared,
            runs: BTreeMap::new(),
            idle: Vec::new(),
            leaving: false,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        this: &mut Supervision,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Take(run, wake, reply) => this.take(&myself, run, wake, reply),
            Message::Begun(run, begun) => this.begun(&myself, run, begun).await,
            Message::Interrupt(run, reply) => this.interrupt(&run, reply),
            Message::InterruptAll(reply) => {
                this.leaving = true;
                let runs: Vec<_> = this.runs.keys().cloned().collect();
                for run in runs {
                    let (told, _) = oneshot::channel();
                    this.interrupt(&run, told);
                }
                this.idle.push(reply);
            }
            Message::Idle(reply) => this.idle.push(reply),
        }
        this.tell_idle();
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Message>,
        event: SupervisionEvent,
        this: &mut Supervision,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorTerminated(cell, _, _) => this.ended(&myself, &cell, None).await,
            SupervisionEvent::ActorFailed(cell, error) => {
                this.ended(&myself, &cell, Some(error.to_string())).await;
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        this.tell_idle();
        Ok(())
    }
}

impl Supervision {
    fn take(&mut self, myself: &ActorRef<Message>, run: RunId, wake: Wake, reply: Option<Taken>) {
        if let Some(entry) = self.runs.get_mut(&run) {
            match (&entry.actor, &wake) {
                (Some(actor), Wake::Stop) => {
                    // A coordinator that is just ending needs no stop any more.
                    let _ended = actor.cast(RunMessage::Stop);
                    answer(reply, Ok(()));
                }
                // It is being taken up, or is just coming to rest: then this comes next.
                _ => entry.then.push_back((wake, reply)),
            }
            return;
        }
        self.begin(myself, run, wake, reply, 0);
    }

    fn begin(
        &mut self,
        myself: &ActorRef<Message>,
        run: RunId,
        wake: Wake,
        reply: Option<Taken>,
        failures: u32,
    ) {
        let wake = match wake {
            // A run that fired just now is written down as resting, so that nobody takes it for one
            // at work.
            Wake::Recover | Wake::Continue | Wake::Park if self.leaving => Wake::Park,
            Wake::Answer(..) | Wake::Stop if self.leaving => {
                answer(reply, Err("ronde is shutting down".to_owned()));
                return;
            }
            wake => wake,
        };
        let entry = Entry {
            actor: None,
            reply,
            then: VecDeque::new(),
            gone: Vec::new(),
            failures,
        };
        self.runs.insert(run.clone(), entry);
        let (shared, myself) = (Arc::clone(&self.shared), myself.clone());
        tokio::spawn(async move {
            let begun = begin(&shared, &run, wake, myself.get_cell()).await;
            // Without a supervisor nothing is taken up.
            let _stopped = myself.cast(Message::Begun(run, begun));
        });
    }

    async fn begun(
        &mut self,
        myself: &ActorRef<Message>,
        run: RunId,
        begun: Result<ActorRef<RunMessage>, String>,
    ) {
        match begun {
            Ok(actor) => {
                let Some(entry) = self.runs.get_mut(&run) else {
                    return;
                };
                answer(entry.reply.take(), Ok(()));
                // A run may have come to its rest before this message was read.
                let ended = matches!(actor.get_status(), ractor::ActorStatus::Stopped);
                let cell = actor.get_cell();
                if !ended {
                    entry.tell_early(&actor);
                }
                entry.actor = Some(actor);
                if ended {
                    self.ended(myself, &cell, None).await;
                }
            }
            Err(error) => {
                tracing::error!(%run, %error, "the run cannot be taken up");
                if let Some(entry) = self.runs.remove(&run) {
                    answer(entry.reply, Err(error.clone()));
                    for (_, reply) in entry.then {
                        answer(reply, Err(error.clone()));
                    }
                    for gone in entry.gone {
                        // Nobody waits any more.
                        let _dropped = gone.send(());
                    }
                }
                self.bury(&run, Outcome::Failed, &error).await;
            }
        }
    }

    fn interrupt(&mut self, run: &RunId, reply: oneshot::Sender<()>) {
        match self.runs.get_mut(run) {
            Some(Entry {
                actor: Some(actor),
                gone,
                ..
            }) => {
                let (told, _) = oneshot::channel();
                gone.push(reply);
                // One that is just ending rests anyway.
                let _ended = actor.cast(RunMessage::Interrupt(told));
            }
            Some(entry) => {
                entry.gone.push(reply);
                entry.then.push_front((Wake::Park, None));
            }
            None => {
                // Nobody waits any more.
                let _dropped = reply.send(());
            }
        }
    }

    /// A coordinator is gone.
    async fn ended(&mut self, myself: &ActorRef<Message>, cell: &ActorCell, error: Option<String>) {
        let found = self.runs.iter().find_map(|(run, entry)| {
            (entry.actor.as_ref()?.get_id() == cell.get_id()).then(|| run.clone())
        });
        let Some(run) = found else { return };
        let Some(mut entry) = self.runs.remove(&run) else {
            return;
        };
        for gone in entry.gone.drain(..) {
            // Nobody waits any more.
            let _dropped = gone.send(());
        }
        if let Some(error) = error {
            let failures = entry.failures + 1;
            tracing::error!(%run, %error, failures, "the coordinator broke");
            if failures <= RESTARTS {
                self.begin(myself, run.clone(), Wake::Recover, None, failures);
                if let Some(again) = self.runs.get_mut(&run) {
                    again.then = entry.then;
                }
                return;
            }
            // Its journal says how far it came: nothing is lost, and `continue` tries again.
            let reason = format!("ronde could not go on: {error}");
            self.bury(&run, Outcome::Interrupted, &reason).await;
        }
        if let Some((wake, reply)) = entry.then.pop_front() {
            self.begin(myself, run.clone(), wake, reply, 0);
            if let Some(next) = self.runs.get_mut(&run) {
                next.then = entry.then;
            }
        }
    }

    /// Puts on record that a run cannot go on, where its own journal cannot say it, and tells whoever
    /// looks on. Where not even that can be written, this process is of no use any more.
    async fn bury(&self, run: &RunId, outcome: Outcome, reason: &str) {
        let home = self.shared.store.home();
        let Some(known) = home.run(run) else { return };
        if known.outcome.is_some_and(Outcome::is_end) {
            return;
        }
        let rested = HomeEvent::RunRested {
            run: run.clone(),
            outcome,
            changed: false,
            reason: reason.to_owned(),
            branch: known.branch.clone(),
            item: None,
        };
        let written = match known.outcome == Some(outcome) {
            true => Ok(()),
            false => self.shared.store.record(vec![rested]).await.map(drop),
        };
        // Nobody looks on.
        let _unseen = self
            .shared
            .live
            .send(unreadable(run, outcome, reason.to_owned()));
        if let Err(error) = written {
            tracing::error!(%run, %error, "how the run stands could not be recorded");
            self.shared.fatal.send_replace(Some(error.to_string()));
        }
    }

    fn tell_idle(&mut self) {
        if self.runs.is_empty() {
            for idle in self.idle.drain(..) {
                // Nobody waits any more.
                let _dropped = idle.send(());
            }
        }
    }
}

async fn begin(
    shared: &Arc<Shared>,
    run: &RunId,
    wake: Wake,
    supervisor: ActorCell,
) -> Result<ActorRef<RunMessage>, String> {
    let run = Run::load(shared, run).await?;
    let start = Start {
        run: Arc::new(run),
        wake,
    };
    match Actor::spawn_linked(None, Coordinator, start, supervisor).await {
        Ok((actor, _task)) => Ok(actor),
        Err(error) => Err(error.to_string()),
    }
}

fn answer(to: Option<Taken>, with: Result<(), String>) {
    if let Some(to) = to {
        // Nobody waits any more.
        let _dropped = to.send(with);
    }
}
