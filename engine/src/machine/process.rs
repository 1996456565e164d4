//! One process that owns the home: what the daemon, the clockwork, the supervisor and the coordinators
//! do, one thing after another and without actors. What they decide and write is the real code; what a
//! worker or a verifier would do is told by the caller.

use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
    sync::Arc,
};

use ronde_protocol::{
    Amount, CallId, Clock, Digest, ItemNumber, RunId, SlotId, Timestamp, Usage,
    firing::{Cause, Firing},
    handoff::{Answer, Item, Reason},
    outcome::Outcome,
    work::TurnEvent,
};
use ronde_state::{
    event::{HomeEvent, RunEvent, Step},
    run::RunState,
    store::{Error as StoreError, Fired, Lease, Reserved, Store},
};
use ronde_trigger::{
    actor::{Key, Watch},
    due,
};

use super::{
    fuse::{Mortal, SetClock},
    world::{Reply, outcome},
};
use crate::{
    daemon::{Left, Leftovers, left},
    frozen::Frozen,
    project::{account, enlist, unable},
    run::{
        actor::Wake,
        journal::{Error, RunJournal},
        next::{Action, Rules, next},
    },
    wiring,
};

/// The process died, at a write or otherwise. Anything else that goes wrong is a failure of the test.
#[derive(Debug)]
pub(super) struct Died;

pub(super) type Alive<T> = Result<T, Died>;

/// What outlives every process and is no journal: what really happened outside.
#[derive(Default)]
pub(super) struct Outside {
    /// How often each step of each run began to have its effects.
    pub(super) effects: BTreeMap<(RunId, Step), u32>,
    /// What is known of the calls that are over: what they used, or that nobody saw it.
    pub(super) told: BTreeMap<CallId, Option<Amount>>,
}

pub(super) struct Process {
    pub(super) store: Arc<Mortal>,
    clock: Arc<SetClock>,
    watched: BTreeMap<Key, Watch>,
    /// Whether what comes due can become a run.
    pub(super) able: bool,
    pub(super) runs: BTreeMap<RunId, Coordination>,
}

/// A run at work.
pub(super) struct Coordination {
    pub(super) journal: RunJournal,
    rules: Rules,
    frozen: Frozen,
    work: Option<Work>,
    deadline: Option<Timestamp>,
    then: VecDeque<Wake>,
}

/// A step under way.
struct Work {
    step: Step,
    stopped: bool,
    /// The calls under way: more than one worker would make at once.
    open: BTreeMap<CallId, Amount>,
    calls: u32,
    /// The item, once it is in the inbox.
    item: Option<ItemNumber>,
}

impl Process {
    /// Begins a process on a home, with what a process before it left.
    pub(super) fn new(store: Mortal, clock: Arc<SetClock>) -> Self {
        Self {
            store: Arc::new(store),
            clock,
            watched: BTreeMap::new(),
            able: true,
            runs: BTreeMap::new(),
        }
    }

    /// Passes on what an operation gave, unless the process died of it.
    fn alive<T, E: std::fmt::Display>(&self, done: Result<T, E>) -> Alive<T> {
        match done {
            Ok(value) => Ok(value),
            Err(_) if self.store.dead() => Err(Died),
            Err(error) => panic!("{error}"),
        }
    }

    /// As the daemon at its start.
    pub(super) async fn recover(
        &mut self,
        leftovers: Leftovers,
        outside: &mut Outside,
    ) -> Alive<()> {
        let home = self.store.home();
        let resting = [Outcome::Interrupted, Outcome::HandedOff];
        let runs = home
            .runs()
            .filter(|run| run.outcome.is_none_or(|outcome| resting.contains(&outcome)));
        for run in runs {
            let records = self.alive(self.store.read_run(&run.run, 1).await)?;
            let state = self.alive(RunState::fold(&records))?;
            let answer = state.as_ref().and_then(|state| self.answer_to(state));
            let Left { untold, wake } = left(run.outcome, state.as_ref(), answer, leftovers);
            if let Some(rested) = untold {
                self.alive(self.store.record(vec![rested]).await)?;
            }
            if let Some(wake) = wake {
                self.take(&run.run, wake, outside).await?;
            }
        }
        Ok(())
    }

    /// As when a project is opened: reads a loop file and watches its triggers.
    pub(super) async fn serve(&mut self, file: &std::path::Path) -> Alive<()> {
        let frozen = self.alive(Frozen::read(file))?;
        let definition = self.keep(&frozen).await?;
        let (project, loop_name) = (frozen.project(), frozen.definition.name.clone());
        let listed = enlist(&*self.store, self.clock.now(), &frozen, definition).await;
        let watches = self.alive(listed)?;
        let mut before = std::mem::take(&mut self.watched);
        for (trigger, mut watch) in watches {
            let key = Key {
                project: project.clone(),
                loop_name: loop_name.clone(),
                trigger,
            };
            if let Some(before) = before.remove(&key) {
                watch.watermark = watch.watermark.max(before.watermark);
            }
            self.watched.insert(key, watch);
        }
        before.retain(|key, _| key.loop_name != loop_name);
        self.watched.append(&mut before);
        Ok(())
    }

    async fn keep(&self, frozen: &Frozen) -> Alive<ronde_protocol::ArtefactId> {
        let definition = self.alive(self.store.put_artefact(&frozen.bytes()).await)?;
        let (project, root) = (frozen.project(), frozen.root.clone());
        if self.store.home().project(&project).is_none() {
            let opened = HomeEvent::ProjectOpened { project, root };
            self.alive(self.store.record(vec![opened]).await)?;
        }
        Ok(definition)
    }

    /// As the clockwork and the deadlines do when the clock moves.
    pub(super) async fn look(&mut self, outside: &mut Outside) -> Alive<()> {
        let now = self.clock.now();
        let keys: Vec<Key> = self.watched.keys().cloned().collect();
        for key in keys {
            let watch = &self.watched[&key];
            let due = due(
                &watch.schedule,
                watch.jitter,
                watch.watermark,
                now,
                watch.catch_up,
            );
            assert!(due.watermark >= watch.watermark, "a watermark moves back");
            if due.fire.is_none() && due.skipped.is_empty() {
                continue;
            }
            let fire = if self.able {
                self.alive(account(&*self.store, &key, &due).await)?
            } else {
                let told = unable(&*self.store, &key, &due, "no".to_owned()).await;
                self.alive(told)?;
                None
            };
            if let Some((firing, root)) = fire {
                let trigger = Some(key.trigger.clone());
                self.fire(firing, root, trigger, outside).await?;
            }
            if let Some(watch) = self.watched.get_mut(&key) {
                watch.watermark = due.watermark;
            }
        }
        let late: Vec<RunId> = self
            .runs
            .iter()
            .filter(|(_, run)| run.deadline.is_some_and(|at| now >= at))
            .map(|(run, _)| run.clone())
            .collect();
        for run in late {
            let Some(coordination) = self.runs.get_mut(&run) else {
                continue;
            };
            coordination.deadline = None;
            if !coordination.journal.state().time_up {
                self.append(&run, RunEvent::TimeUp).await?;
                self.advance(&run, outside).await?;
            }
        }
        Ok(())
    }

    /// What is watched, with the instant up to which it is accounted for in this process.
    pub(super) fn watched(&self) -> impl Iterator<Item = (&Key, &Watch)> {
        self.watched.iter()
    }

    async fn fire(
        &mut self,
        firing: Firing,
        root: PathBuf,
        trigger: Option<Digest>,
        outside: &mut Outside,
    ) -> Alive<()> {
        match self.alive(self.store.fire_once(firing, &root, trigger).await)? {
            Fired::Won(run) => self.take(&run, Wake::Recover, outside).await,
            Fired::Already(_) => Ok(()),
        }
    }

    /// A person starts a loop; `nonce` is that of the request.
    pub(super) async fn start(
        &mut self,
        file: &std::path::Path,
        nonce: u8,
        outside: &mut Outside,
    ) -> Alive<()> {
        let frozen = self.alive(Frozen::read(file))?;
        let definition = self.keep(&frozen).await?;
        let (project, loop_name) = (frozen.project(), frozen.definition.name.clone());
        let slot = SlotId::manual(&project, &loop_name, &nonce.to_string());
        let run = RunId::of(&loop_name, &slot);
        let home = self.store.home();
        if home
            .active_run(&project, &loop_name)
            .is_some_and(|busy| busy.run != run)
        {
            return Ok(());
        }
        let firing = Firing {
            run,
            slot,
            project,
            loop_name,
            cause: Cause::Person,
            due: self.clock.now(),
            definition,
        };
        self.fire(firing, frozen.root.clone(), None, outside).await
    }

    /// As the supervisor: takes a run up, or lets the wake wait until its coordinator is gone.
    async fn take(&mut self, run: &RunId, wake: Wake, outside: &mut Outside) -> Alive<()> {
        if let Some(coordination) = self.runs.get_mut(run) {
            if wake != Wake::Stop {
                coordination.then.push_back(wake);
                return Ok(());
            }
            if coordination.journal.state().ended.is_none() {
                self.append(run, RunEvent::StopRequested).await?;
            }
        } else {
            let coordination = self.open(run, wake).await?;
            self.runs.insert(run.clone(), coordination);
        }
        self.advance(run, outside).await
    }

    async fn open(&self, run: &RunId, wake: Wake) -> Alive<Coordination> {
        let home = self.store.home();
        let known = home.run(run).expect("a run that fired is known");
        let firing = Firing {
            slot: known.slot.clone(),
            run: known.run.clone(),
            project: known.project.clone(),
            loop_name: known.loop_name.clone(),
            cause: known.cause.clone(),
            due: known.due,
            definition: known.definition.clone(),
        };
        let bytes = self.alive(self.store.get_artefact(&known.definition).await)?;
        let frozen = self.alive(Frozen::load(&bytes))?;
        let store: Arc<dyn Store> = self.store.clone();
        let clock: Arc<dyn Clock> = self.clock.clone();
        let journal = RunJournal::open(store, clock, &firing, &known.root, wake).await;
        Ok(Coordination {
            journal: self.alive(journal)?,
            rules: wiring::rules(&frozen),
            frozen,
            work: None,
            deadline: None,
            then: VecDeque::new(),
        })
    }

    async fn append(&mut self, run: &RunId, event: RunEvent) -> Alive<()> {
        let coordination = self.runs.get_mut(run).expect("a run at work");
        let appended = coordination.journal.append(event).await;
        self.alive(appended)
    }

    /// As a coordinator: does what comes next until there is nothing to do but wait.
    async fn advance(&mut self, run: &RunId, outside: &mut Outside) -> Alive<()> {
        loop {
            let coordination = &self.runs[run];
            let before = coordination.journal.state().seq;
            for action in next(&coordination.rules, coordination.journal.state()) {
                match action {
                    Action::Take(step) => {
                        self.append(run, RunEvent::Started { step: step.clone() })
                            .await?;
                        self.begin(run, step, outside);
                    }
                    Action::StopWork => {
                        if let Some(work) = self.work(run) {
                            work.stopped = true;
                        }
                    }
                    Action::Deadline(at) => {
                        self.runs.get_mut(run).expect("a run at work").deadline = Some(at);
                    }
                    Action::End {
                        outcome,
                        changed,
                        reason,
                    } => {
                        let ended = RunEvent::Ended {
                            outcome,
                            changed,
                            reason,
                        };
                        self.append(run, ended).await?;
                    }
                }
            }
            let coordination = self.runs.get_mut(run).expect("a run at work");
            let heard = coordination.journal.hear().await;
            if self.alive(heard)? {
                continue;
            }
            let state = self.runs[run].journal.state();
            if state.outcome().is_some() {
                return Box::pin(self.rest(run, outside)).await;
            }
            if state.seq == before {
                return Ok(());
            }
        }
    }

    /// A run rests or has ended: its coordinator goes, and what waited for that comes next.
    async fn rest(&mut self, run: &RunId, outside: &mut Outside) -> Alive<()> {
        let rested = self.runs[run].journal.rest().await;
        self.alive(rested)?;
        let mut gone = self.runs.remove(run).expect("a run at work");
        if let Some(wake) = gone.then.pop_front() {
            let mut again = self.open(run, wake).await?;
            again.then = gone.then;
            self.runs.insert(run.clone(), again);
            self.advance(run, outside).await?;
        }
        Ok(())
    }

    fn begin(&mut self, run: &RunId, step: Step, outside: &mut Outside) {
        let done = (run.clone(), step.clone());
        *outside.effects.entry(done).or_default() += 1;
        let coordination = self.runs.get_mut(run).expect("a run at work");
        assert!(coordination.work.is_none(), "two steps at once");
        coordination.work = Some(Work {
            step,
            stopped: false,
            open: BTreeMap::new(),
            calls: 0,
            item: None,
        });
    }

    fn work(&mut self, run: &RunId) -> Option<&mut Work> {
        self.runs.get_mut(run)?.work.as_mut()
    }

    /// The world answers what a run has under way.
    pub(super) async fn step(
        &mut self,
        run: &RunId,
        reply: &Reply,
        outside: &mut Outside,
    ) -> Alive<()> {
        let Some(work) = self.work(run) else {
            return Ok(());
        };
        let (step, stopped, item) = (work.step.clone(), work.stopped, work.item);
        if !work.open.is_empty() {
            return self.settle(run, None, outside).await;
        }
        if let (Step::Ask { question, reason }, None) = (&step, item) {
            let item = self.item(run, *question, *reason);
            let number = self.alive(self.store.await_answer(item).await)?;
            if let Some(work) = self.work(run) {
                work.item = Some(number);
            }
            return Ok(());
        }
        let state = self.runs[run].journal.state();
        let event = outcome(state, &step, reply, stopped, item);
        self.runs.get_mut(run).expect("a run at work").work = None;
        self.append(run, event).await?;
        self.advance(run, outside).await
    }

    fn item(&self, run: &RunId, question: u32, reason: Reason) -> Item {
        let state = self.runs[run].journal.state();
        Item {
            key: format!("{run}/{question}"),
            run: run.clone(),
            project: state.firing.project.clone(),
            loop_name: state.firing.loop_name.clone(),
            reason,
            title: String::new(),
            evidence: String::new(),
            branch: None,
            tried: Vec::new(),
            action: None,
            opened: state.last,
            expires: None,
            blocks: reason != Reason::Budget,
        }
    }

    /// The built-in agent pays for a call and makes it.
    pub(super) async fn call(&mut self, run: &RunId, tokens: u64) -> Alive<()> {
        let now = self.clock.now();
        let Some(coordination) = self.runs.get_mut(run) else {
            return Ok(());
        };
        let limits = wiring::scopes(&coordination.frozen, run, now);
        let epoch = coordination.journal.state().epoch;
        let Some(work) = &mut coordination.work else {
            return Ok(());
        };
        let Step::Attempt { attempt, worker } = work.step.clone() else {
            return Ok(());
        };
        if work.open.len() > 2 || work.stopped {
            return Ok(());
        }
        work.calls += 1;
        let call = CallId::of(run, attempt, &worker, work.calls, epoch);
        let amount = Amount {
            tokens,
            ..Amount::ZERO
        };
        let reserved = self.store.reserve(&call, amount, &limits).await;
        match self.alive(reserved)? {
            Reserved::Granted => {}
            Reserved::Refused { .. } => return Ok(()),
            Reserved::Already => panic!("call {call} was made before"),
        }
        if let Some(work) = self.work(run) {
            work.open.insert(call.clone(), amount);
        }
        let event = TurnEvent::CallStarted {
            call,
            model: "m".to_owned(),
            reserved: amount,
        };
        let turn = RunEvent::Turn {
            attempt,
            worker,
            event,
        };
        self.append(run, turn).await
    }

    /// A call ends; `used` is its part of the reservation in percent, none where nobody knows.
    pub(super) async fn settle(
        &mut self,
        run: &RunId,
        used: Option<u8>,
        outside: &mut Outside,
    ) -> Alive<()> {
        let Some(work) = self.work(run) else {
            return Ok(());
        };
        let (Some((call, amount)), Step::Attempt { attempt, worker }) =
            (work.open.pop_first(), work.step.clone())
        else {
            return Ok(());
        };
        let used = used.map(|percent| Amount {
            tokens: amount.tokens * u64::from(percent) / 100,
            ..Amount::ZERO
        });
        outside.told.insert(call.clone(), used);
        self.alive(self.store.settle(&call, used).await)?;
        let event = TurnEvent::CallEnded {
            call,
            usage: Usage {
                input: used.unwrap_or(amount).tokens,
                ..Usage::default()
            },
            response: None,
            error: None,
        };
        let turn = RunEvent::Turn {
            attempt,
            worker,
            event,
        };
        self.append(run, turn).await
    }

    /// The runs whose worker is at work.
    pub(super) fn attempting(&self) -> Vec<RunId> {
        let attempt = |run: &Coordination| {
            let step = run.work.as_ref().map(|work| &work.step);
            matches!(step, Some(Step::Attempt { .. }))
        };
        let runs = self.runs.iter().filter(|(_, run)| attempt(run));
        runs.map(|(run, _)| run.clone()).collect()
    }

    /// The calls that are under way in this process.
    pub(super) fn calls(&self) -> impl Iterator<Item = &CallId> {
        let works = self.runs.values().filter_map(|run| run.work.as_ref());
        works.flat_map(|work| work.open.keys())
    }

    /// A person answers an item.
    pub(super) async fn answer(
        &mut self,
        number: ItemNumber,
        answer: Answer,
        outside: &mut Outside,
    ) -> Alive<()> {
        let home = self.store.home();
        let entry = home.inbox().get(number).expect("an item of the inbox");
        let answer = match ronde_handoff::takes(&entry.item, &answer) {
            Ok(()) => answer,
            Err(_) if entry.item.reason == Reason::Question => Answer::Text {
                text: "go on".to_owned(),
            },
            Err(_) => Answer::Close,
        };
        let resolved = self.store.resolve(number, answer.clone()).await;
        let first = self.alive(resolved)?;
        assert_eq!(first, entry.answer.is_none(), "item {number}");
        if first && entry.item.blocks {
            self.take(&entry.item.run, Wake::Answer(number, answer), outside)
                .await?;
        }
        Ok(())
    }

    fn answer_to(&self, state: &RunState) -> Option<Answer> {
        let item = state.waiting.as_ref()?.item;
        self.store.home().inbox().get(item)?.answer.clone()
    }

    async fn state(&self, run: &RunId) -> Alive<Option<RunState>> {
        let records = self.alive(self.store.read_run(run, 1).await)?;
        self.alive(RunState::fold(&records))
    }

    /// A person ends a run.
    pub(super) async fn stop(&mut self, run: &RunId, outside: &mut Outside) -> Alive<()> {
        let Some(state) = self.state(run).await? else {
            return Ok(());
        };
        if state.ended.is_some() {
            return Ok(());
        }
        self.take(run, Wake::Stop, outside).await?;
        if let Some(waiting) = &state.waiting {
            let resolved = self.store.resolve(waiting.item, Answer::Close).await;
            self.alive(resolved)?;
        }
        Ok(())
    }

    /// A person types `ronde continue`.
    pub(super) async fn resume(&mut self, run: &RunId, outside: &mut Outside) -> Alive<()> {
        let Some(state) = self.state(run).await? else {
            return Ok(());
        };
        if state.outcome() == Some(Outcome::Interrupted) {
            self.take(run, Wake::Continue, outside).await?;
        }
        Ok(())
    }

    /// Whoever wakes a run that has ended changes nothing.
    pub(super) async fn poke(&mut self, outside: &mut Outside) -> Alive<()> {
        let home = self.store.home();
        let ended = |outcome: Option<Outcome>| outcome.is_some_and(Outcome::is_end);
        for run in home.runs().filter(|run| ended(run.outcome)) {
            for wake in [Wake::Recover, Wake::Stop, Wake::Answer(1, Answer::Approve)] {
                self.take(&run.run, wake, outside).await?;
            }
        }
        Ok(())
    }

    /// ronde leaves off: every run rests.
    pub(super) async fn leave(&mut self, outside: &mut Outside) -> Alive<()> {
        let runs: Vec<RunId> = self.runs.keys().cloned().collect();
        for run in runs {
            if self.runs[&run].journal.state().outcome().is_none() {
                self.append(&run, RunEvent::Interrupted).await?;
            }
            // The worker stops in the middle of its calls.
            let open = self.work(&run).map(|work| std::mem::take(&mut work.open));
            for call in open.unwrap_or_default().into_keys() {
                outside.told.insert(call.clone(), None);
                self.alive(self.store.settle(&call, None).await)?;
            }
            let step = self.work(&run).map(|work| work.step.clone());
            // These end in order; the others are left as they are.
            if let Some(step @ (Step::Attempt { .. } | Step::Verify { .. })) = step {
                self.append(&run, RunEvent::StepStopped { step }).await?;
            }
            let rested = self.runs[&run].journal.rest().await;
            self.alive(rested)?;
            self.runs.remove(&run);
        }
        Ok(())
    }

    /// Another coordinator takes a run over; the one before does not know yet.
    pub(super) async fn take_over(&mut self, run: &RunId, outside: &mut Outside) -> Alive<()> {
        let again = self.open(run, Wake::Recover).await?;
        self.fenced(run).await?;
        self.runs.insert(run.clone(), again);
        self.advance(run, outside).await
    }

    /// Another holder wants a run. It gets it where its lease has run out, and gives it back then.
    pub(super) async fn steal(
        &mut self,
        run: &RunId,
        lapse: bool,
        outside: &mut Outside,
    ) -> Alive<()> {
        let now = self.clock.now();
        let until = now + jiff::SignedDuration::from_secs(60);
        if lapse {
            let home = self.store.home();
            let held = home.leases().get(run).expect("a run at work is held");
            let lease = Lease {
                run: run.clone(),
                epoch: held.epoch,
            };
            self.alive(self.store.heartbeat(&lease, now).await)?;
        }
        let stolen = self.store.lease(run, "thief", now, until).await;
        if !lapse && !self.store.dead() {
            let refused = matches!(stolen, Err(StoreError::Fenced { .. }));
            assert!(refused, "a lease that is valid was taken: {stolen:?}");
            return Ok(());
        }
        let lease = self.alive(stolen)?;
        self.fenced(run).await?;
        self.alive(self.store.release(&lease).await)?;
        let again = self.open(run, Wake::Recover).await?;
        self.runs.insert(run.clone(), again);
        self.advance(run, outside).await
    }

    /// What the coordinator of a run writes is refused, and changes nothing.
    async fn fenced(&mut self, run: &RunId) -> Alive<()> {
        let before = self.alive(self.store.read_run(run, 1).await)?;
        let coordination = self.runs.get_mut(run).expect("a run at work");
        let written = coordination.journal.append(RunEvent::TimeUp).await;
        if self.store.dead() {
            return Err(Died);
        }
        let fenced = matches!(written, Err(Error::Store(StoreError::Fenced { .. })));
        assert!(fenced, "an owner that lost its lease writes");
        let after = self.alive(self.store.read_run(run, 1).await)?;
        assert_eq!(before, after, "an owner that lost its lease writes");
        Ok(())
    }
}
