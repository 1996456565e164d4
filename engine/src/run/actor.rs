//! The coordinator of one run: it puts the run's events in order and is the only writer of its
//! journal. It asks `next` what to do, journals it, and lets `act` do it; results come back as
//! messages. No handler waits for a model, a process or git.

use std::{collections::BTreeMap, sync::Arc};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use ronde_protocol::{
    ItemNumber, WorkerName,
    handoff::Answer,
    work::{AttemptEnd, EndReason, TurnEvent},
};
use ronde_state::{
    event::{HomeEvent, RunEvent, Step, WakeReason},
    journal::Record,
    run::RunState,
    store::{Error, Lease},
};
use tokio::{
    sync::{oneshot, watch},
    task::AbortHandle,
};

use super::{
    act::{self, Run},
    next::{Action, next},
};
use crate::event::rest_reason;

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
    lease: Lease,
    state: RunState,
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
                    // What is told to a run at rest is not journaled: the step is done again.
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
                if written && this.state.in_flight.contains(&step) {
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
                if due.is_some_and(|at| this.run.clock.now() >= at) && !this.state.time_up {
                    this.append(RunEvent::TimeUp).await?;
                }
            }
            Message::Stop if this.state.ended.is_none() => {
                this.append(RunEvent::StopRequested).await?;
            }
            Message::Stop => {}
            Message::Interrupt(reply) => {
                if this.state.outcome().is_none() {
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
    /// Rebuilds the run from its journal, or begins it.
    async fn open(start: Start) -> Result<Self, ActorProcessingErr> {
        let Start { run, wake } = start;
        let now = run.clock.now();
        // The home has one owner, and the owner one coordinator a run: the lease only has to outlive
        // any pause of this process. A later owner takes it over by its higher epoch.
        let until = now + jiff::SignedDuration::from_hours(24 * 365);
        let lease = run.store.lease(&run.id, "engine", now, until).await?;
        let records = match run.store.read_run(&run.id, 1).await {
            Ok(records) => records,
            Err(Error::Missing { .. }) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let fired = RunEvent::Fired {
            firing: run.firing.clone(),
            root: run.root.clone(),
        };
        let (state, begun) = match RunState::fold(&records)? {
            Some(state) => (state, true),
            None => {
                run.store.append(&lease, 1, now, &fired).await?;
                let first = Record::new(1, lease.epoch, now, fired);
                (RunState::begin(&first)?, false)
            }
        };
        let mut this = Self {
            run,
            lease,
            state,
            work: BTreeMap::new(),
            deadline: None,
            leaving: None,
        };
        if wake == Wake::Park {
            if this.state.outcome().is_none() {
                this.append(RunEvent::Interrupted).await?;
            }
        } else if begun && this.goes_on(&wake) {
            // Calls of a process that is gone are paid in full: nobody knows what they used.
            this.run.store.settle_lost(&this.run.id).await?;
            let reason = match &wake {
                Wake::Recover | Wake::Stop | Wake::Park => WakeReason::Recovered,
                Wake::Continue => WakeReason::Continued,
                Wake::Answer(..) => WakeReason::Answered,
            };
            // A run that has not heard yet that it asked finds the answer once it has.
            if let Wake::Answer(item, answer) = wake.clone()
                && this.state.waiting.is_some()
            {
                this.append(RunEvent::Answered { item, answer }).await?;
            }
            if wake == Wake::Stop {
                this.append(RunEvent::StopRequested).await?;
            }
            let epoch = this.lease.epoch;
            this.append(RunEvent::Woken { epoch, reason }).await?;
            let woken = HomeEvent::RunWoken {
                run: this.run.id.clone(),
            };
            // By the home, a run whose process died at work is at work still.
            let home = this.run.store.home();
            if home.run(&this.run.id).is_some_and(|run| !run.at_work()) {
                this.run.store.record(vec![woken]).await?;
            }
        }
        Ok(this)
    }

    /// Whether there is something to wake for: not for a run that has ended, and not for one that waits
    /// for an answer this is not.
    fn goes_on(&self, wake: &Wake) -> bool {
        let waits_on = self
            .state
            .waiting
            .as_ref()
            .is_some_and(|waiting| match wake {
                Wake::Answer(item, _) => *item != waiting.item,
                Wake::Stop => false,
                Wake::Recover | Wake::Continue | Wake::Park => true,
            });
        self.state.ended.is_none() && !waits_on
    }

    /// Writes one event, then folds it in. Nothing that follows from it happens before.
    async fn append(&mut self, event: RunEvent) -> Result<(), ActorProcessingErr> {
        let at = self.run.clock.now();
        let record = Record::new(self.state.seq + 1, self.lease.epoch, at, event);
        let mut after = self.state.clone();
        after.apply(&record)?;
        self.run
            .store
            .append(&self.lease, record.seq, at, &record.event)
            .await?;
        self.state = after;
        Ok(())
    }

    /// Does what comes next until there is nothing to do but wait.
    async fn advance(&mut self, myself: &ActorRef<Message>) -> Result<(), ActorProcessingErr> {
        loop {
            let before = self.state.seq;
            for action in next(&self.run.rules, &self.state) {
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
            if let Some((item, answer)) = self.answered() {
                self.append(RunEvent::Answered { item, answer }).await?;
                continue;
            }
            if self.state.outcome().is_some() {
                self.rest().await?;
                myself.stop(None);
                return Ok(());
            }
            if self.state.seq == before {
                return Ok(());
            }
        }
    }

    /// The answer to the item the run waits for, where it was given before the run came to wait.
    fn answered(&self) -> Option<(ItemNumber, Answer)> {
        let item = self.state.waiting.as_ref()?.item;
        let answer = self.run.store.home().inbox().get(item)?.answer.clone()?;
        Some((item, answer))
    }

    /// Begins a step that is journaled. A panic in it ends this step and nothing else.
    fn begin(&mut self, myself: &ActorRef<Message>, step: Step) {
        let (stop, stopped) = watch::channel(false);
        let (run, state, to) = (Arc::clone(&self.run), self.state.clone(), myself.clone());
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
        let Some(rested) = rested(&self.state) else {
            return Ok(());
        };
        // Before the home is told of the end: once it knows, nobody looks after the files any more.
        if self.state.ended.is_some() {
            self.run.clean().await;
        }
        // A run that is looked at after its end has told the home before.
        let known = self
            .run
            .store
            .home()
            .run(&self.run.id)
            .and_then(|run| run.outcome);
        if known != self.state.outcome() {
            self.run.store.record(vec![rested]).await?;
        }
        self.run.store.release(&self.lease).await?;
        Ok(())
    }
}

/// What the home journal says of a run that rests or has ended.
pub(crate) fn rested(state: &RunState) -> Option<HomeEvent> {
    let delivered = state
        .delivered
        .as_ref()
        .and_then(|delivered| delivered.branch.clone());
    Some(HomeEvent::RunRested {
        run: state.firing.run.clone(),
        outcome: state.outcome()?,
        changed: state
            .ended
            .as_ref()
            .map_or_else(|| state.changed(), |end| end.changed),
        reason: rest_reason(state),
        branch: delivered.or_else(|| state.branch.clone()),
        item: state.waiting.as_ref().map(|waiting| waiting.item),
    })
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
