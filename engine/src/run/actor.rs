//! The coordinator of one run: it puts the run's events in order and holds its journal, which nobody
//! else writes. It asks `next` what to do, journals it, and lets `act` do it; results come back as
//! messages. No handler waits for a model, a process or git.

use std::{collections::BTreeMap, sync::Arc};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use ronde_protocol::{
    ItemNumber, WorkerName,
    handoff::Answer,
    work::{AttemptEnd, EndReason, TurnEvent},
};
use ronde_state::{
    event::{RunEvent, Step},
    run::RunState,
};
use tokio::{
    sync::{oneshot, watch},
    task::AbortHandle,
};

use super::{
    act::{self, Run},
    journal::RunJournal,
    next::{Action, next},
};

/// What a coordinator is told.
pub(crate) enum Message {
    /// A step ended, and this is what is to be journaled of it.
    Ended(Step, Vec<RunEvent>),
    /// The built-in agent is about to do something. It does it once the reply says yes.
    Turn {
        /// Attempt, from 1.
        attempt: u32,
        /// The worker.
        worker: WorkerName,
        /// What.
        event: TurnEvent,
        /// Whether it is on disk.
        reply: oneshot::Sender<bool>,
    },
    /// The run's time may be used up: look.
    Deadline,
    /// A person wants the run to end.
    Stop,
    /// ronde leaves off; the reply comes when nothing of the run is alive.
    Interrupt(oneshot::Sender<()>),
}

/// Why a run is taken up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wake {
    /// It has just fired, or the process that ran it died.
    Recover,
    /// A person typed `ronde continue`.
    Continue,
    /// Its item was answered.
    Answer(ItemNumber, Answer),
    /// A person wants it to end.
    Stop,
    /// Its process died, and nobody is to take it up now: let it rest.
    Park,
}

/// The coordinator.
pub(crate) struct Coordinator;

/// What it is started with.
pub(crate) struct Start {
    /// The run and all it needs.
    pub(crate) run: Arc<Run>,
    /// Why it is taken up.
    pub(crate) wake: Wake,
}

/// What it knows.
pub(crate) struct Coordination {
    run: Arc<Run>,
    journal: RunJournal,
    work: BTreeMap<Step, Work>,
    deadline: Option<(jiff::Timestamp, Guard)>,
    /// ronde leaves off, and this hears when nothing of the run is alive.
    leaving: Option<oneshot::Sender<()>>,
}

/// A step under way. Dropping it ends the task, and with it the processes it watches over.
struct Work {
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
    _guard: Guard,
}

/// Ends a task when dropped.
struct Guard(AbortHandle);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Actor for Coordinator {
    type Msg = Message;
    type State = Coordination;
    type Arguments = Start;

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        start: Start,
    ) -> Result<Coordination, ActorProcessingErr> {
        let mut coordination = Coordination::open(start).await?;
        coordination.advance(&myself).await?;
        Ok(coordination)
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        this: &mut Coordination,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Ended(step, events) => {
                this.work.remove(&step);
                if this.leaving.is_some() {
                    // It was stopped in order and its processes are gone: that is no unknown end. What it
                    // would have said is not journaled, since the step is taken again.
                    if this.state().in_flight.contains(&step) {
                        this.append(RunEvent::StepStopped { step }).await?;
                    }
                    return this.leave(&myself).await;
                }
                for event in events {
                    this.append(event).await?;
                }
            }
            Message::Turn {
                attempt,
                worker,
                event,
                reply,
            } => {
                // A step that was told to stop, or is over, begins nothing more.
                let step = Step::Attempt {
                    attempt,
                    worker: worker.clone(),
                };
                let alive = this
                    .work
                    .get(&step)
                    .is_some_and(|work| !*work.stop.borrow());
                let written = alive
                    || matches!(
                        event,
                        TurnEvent::CallEnded { .. } | TurnEvent::ToolEnded { .. }
                    );
                if written && this.state().in_flight.contains(&step) {
                    this.append(RunEvent::Turn {
                        attempt,
                        worker,
                        event,
                    })
                    .await?;
                }
                // Nobody listens any more where the worker was stopped in between.
                let _gone = reply.send(alive);
                return Ok(());
            }
            Message::Deadline => {
                let due = this.deadline.take().map(|(at, _)| at);
                if due.is_some_and(|at| this.run.clock.now() >= at) && !this.state().time_up {
                    this.append(RunEvent::TimeUp).await?;
                }
            }
            Message::Stop if this.state().ended.is_none() => {
                this.append(RunEvent::StopRequested).await?;
            }
            Message::Stop => {}
            Message::Interrupt(reply) => {
                if this.state().outcome().is_none() {
                    this.append(RunEvent::Interrupted).await?;
                }
                this.leaving = Some(reply);
                this.deadline = None;
                for (step, work) in &this.work {
                    match step {
                        // These end their processes in order, and say when they are gone.
                        Step::Attempt { .. } | Step::Verify { .. } => {
                            work.stop.send_replace(true);
                        }
                        _ => work.task.abort(),
                    }
                }
                this.work
                    .retain(|step, _| matches!(step, Step::Attempt { .. } | Step::Verify { .. }));
                return this.leave(&myself).await;
            }
        }
        this.advance(&myself).await
    }
}

impl Coordination {
    /// Takes the run up, or begins it.
    async fn open(start: Start) -> Result<Self, ActorProcessingErr> {
        let Start { run, wake } = start;
        let (store, clock) = (Arc::clone(&run.store), Arc::clone(&run.clock));
        let journal = RunJournal::open(store, clock, &run.firing, &run.root, wake).await?;
        Ok(Self {
            run,
            journal,
            work: BTreeMap::new(),
            deadline: None,
            leaving: None,
        })
    }

    fn state(&self) -> &RunState {
        self.journal.state()
    }

    async fn append(&mut self, event: RunEvent) -> Result<(), ActorProcessingErr> {
        Ok(self.journal.append(event).await?)
    }

    /// Does what comes next until there is nothing to do but wait.
    async fn advance(&mut self, myself: &ActorRef<Message>) -> Result<(), ActorProcessingErr> {
        loop {
            let before = self.state().seq;
            for action in next(&self.run.rules, self.state()) {
                match action {
                    Action::Take(step) => {
                        self.append(RunEvent::Started { step: step.clone() })
                            .await?;
                        self.begin(myself, step);
                    }
                    Action::StopWork => {
                        for work in self.work.values() {
                            work.stop.send_replace(true);
                        }
                    }
                    Action::Deadline(at) => self.wake_at(myself, at),
                    Action::End {
                        outcome,
                        changed,
                        reason,
                    } => {
                        self.append(RunEvent::Ended {
                            outcome,
                            changed,
                            reason,
                        })
                        .await?;
                    }
                }
            }
            if self.journal.hear().await? {
                continue;
            }
            if self.state().outcome().is_some() {
                self.rest().await?;
                myself.stop(None);
                return Ok(());
            }
            if self.state().seq == before {
                return Ok(());
            }
        }
    }

    /// Begins a step that is journaled. A panic in it ends this step and nothing else.
    fn begin(&mut self, myself: &ActorRef<Message>, step: Step) {
        let (stop, stopped) = watch::channel(false);
        let (run, state, to) = (Arc::clone(&self.run), self.state().clone(), myself.clone());
        let doing = step.clone();
        let task = tokio::spawn(async move {
            let acting = act::perform(run, state, doing.clone(), stopped, to.clone());
            let inner = tokio::spawn(acting);
            let _guard = Guard(inner.abort_handle());
            let events = match inner.await {
                Ok(events) => events,
                Err(error) => vec![broken(&doing, &error)],
            };
            // A coordinator that is gone has been replaced, and the step is lost to it.
            let _gone = to.cast(Message::Ended(doing, events));
        });
        let guard = Guard(task.abort_handle());
        self.work.insert(
            step,
            Work {
                stop,
                task,
                _guard: guard,
            },
        );
    }

    fn wake_at(&mut self, myself: &ActorRef<Message>, at: jiff::Timestamp) {
        if self.deadline.as_ref().is_some_and(|(set, _)| *set == at) {
            return;
        }
        let (clock, to) = (Arc::clone(&self.run.clock), myself.clone());
        let task = tokio::spawn(async move {
            while clock.now() < at {
                clock.reached(at).await;
            }
            let _gone = to.cast(Message::Deadline);
        });
        self.deadline = Some((at, Guard(task.abort_handle())));
    }

    /// Rests, once nothing of the run is alive.
    async fn leave(&mut self, myself: &ActorRef<Message>) -> Result<(), ActorProcessingErr> {
        if !self.work.is_empty() {
            return Ok(());
        }
        self.rest().await?;
        if let Some(reply) = self.leaving.take() {
            // Nobody waits any more.
            let _gone = reply.send(());
        }
        myself.stop(None);
        Ok(())
    }

    /// Tells the home how the run stands, and gives the run up.
    async fn rest(&mut self) -> Result<(), ActorProcessingErr> {
        // Before the home is told of the end: once it knows, nobody looks after the files any more.
        if self.state().ended.is_some() {
            self.run.clean().await;
        }
        Ok(self.journal.rest().await?)
    }
}

/// What is journaled of a step whose task broke.
fn broken(step: &Step, error: &tokio::task::JoinError) -> RunEvent {
    let error = format!("ronde itself broke in this step: {error}");
    match step {
        Step::Attempt { attempt, worker } => RunEvent::AttemptEnded {
            attempt: *attempt,
            worker: worker.clone(),
            end: AttemptEnd {
                reason: EndReason::Unknown { error },
                claim: String::new(),
                iterations: 0,
                usage: ronde_protocol::Usage::default(),
                metered: true,
                exit: None,
                output: None,
            },
        },
        _ => RunEvent::StepFailed {
            step: step.clone(),
            error,
        },
    }
}
