//! Looks at everything durable after every operation and after every restart, by its own count: what it
//! asserts is not taken from the folds it watches, but from the records and from what was done outside.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::StreamExt as _;
use ronde_protocol::{
    Amount, CallId, Clock as _, Digest, ItemNumber, LoopName, RunId, SlotId, Timestamp,
    firing::SkipReason,
    handoff::{Answer, Reason},
    work::EndReason,
};
use ronde_state::{
    event::{HomeEvent, RunEvent, Scope, Step},
    home::Home,
    journal::Record,
    run::RunState,
    store::Store,
};
use ronde_trigger::Schedule;

use super::{
    fuse::SetClock,
    process::{Outside, Process},
};
use crate::{frozen::Frozen, project::schedule};

/// The limits in the loop files of the machine, in tokens.
pub(super) const OF_RUN: u64 = 1000;
pub(super) const OF_LOOP: u64 = 1500;
pub(super) const OF_PROJECT: u64 = 1800;

/// All that was seen so far.
#[derive(Default)]
pub(super) struct Watcher {
    log: Vec<Record<HomeEvent>>,
    fold: Home,
    runs: BTreeMap<RunId, Vec<Record<RunEvent>>>,
    fired: BTreeSet<SlotId>,
    slots: BTreeMap<(LoopName, Digest), Slots>,
    marks: BTreeMap<(LoopName, Digest), Timestamp>,
    schedules: BTreeMap<(LoopName, Digest), (Schedule, std::time::Duration)>,
    open: BTreeMap<CallId, (Amount, Vec<Scope>)>,
    taken: BTreeMap<Scope, u64>,
    answers: BTreeMap<ItemNumber, Answer>,
    /// Slots that others are said to be superseded by: something must come of them.
    promised: BTreeMap<SlotId, (LoopName, Digest)>,
    accounted: BTreeSet<SlotId>,
}

/// What became of the instants of one trigger.
struct Slots {
    /// Nothing before this fires.
    since: Timestamp,
    seen: BTreeSet<Timestamp>,
    /// Up to here every instant was looked for.
    whole: Timestamp,
}

impl Watcher {
    /// Looks at a process that lives, between two operations.
    pub(super) async fn look(&mut self, process: &Process, clock: &SetClock, outside: &Outside) {
        let store = &*process.store;
        let home = store.home();
        self.triggers(store, &home).await;
        let news = records(store, self.fold.seq(), home.seq()).await;
        for record in news {
            self.home_record(record, outside);
        }
        assert!(
            self.fold == *home,
            "invariant 1: the home is not the fold of its journal"
        );
        for (run, coordination) in &process.runs {
            let state = self.run(store, run, outside).await;
            assert_eq!(
                state.as_ref(),
                Some(coordination.journal.state()),
                "invariant 1: a run is not the fold of its journal"
            );
        }
        let under_way: BTreeSet<&CallId> = process.calls().collect();
        for call in self.open.keys() {
            let run = ronde_state::ledger::run_of(call);
            assert!(
                !process.runs.contains_key(&run) || under_way.contains(call),
                "invariant 3: nobody makes or settles call {call}"
            );
        }
        for (key, watch) in process.watched() {
            let of = (key.loop_name.clone(), key.trigger.clone());
            let due = clock.now() - jiff::SignedDuration::try_from(watch.jitter).expect("short");
            self.complete(&of, watch.watermark.max(due));
        }
        self.watermarks(&home);
    }

    /// Looks at a home that was just opened: whatever was there before is there still.
    pub(super) async fn reopened(&mut self, store: &dyn Store, outside: &Outside) {
        let home = store.home();
        self.triggers(store, &home).await;
        let mut all = records(store, 0, home.seq()).await;
        assert!(all.len() >= self.log.len(), "records are gone");
        let news = all.split_off(self.log.len());
        assert_eq!(all, self.log, "records have changed");
        for record in news {
            self.home_record(record, outside);
        }
        assert!(
            self.fold == *home,
            "invariant 1: the home is not the fold of its journal"
        );
        for run in home.runs() {
            self.run(store, &run.run, outside).await;
        }
        self.watermarks(&home);
    }

    /// Looks once everything has come to rest.
    pub(super) async fn rested(&mut self, process: &Process, outside: &Outside) {
        let store = &*process.store;
        let home = store.home();
        assert!(process.runs.is_empty(), "a run does not come to rest");
        for known in home.runs() {
            let state = self.run(store, &known.run, outside).await;
            let state = state.expect("a run that fired has begun");
            assert_eq!(known.outcome, state.outcome(), "{}", known.run);
            if let Some(waiting) = &state.waiting {
                assert!(
                    !self.answers.contains_key(&waiting.item),
                    "{} waits for an answer that was given",
                    known.run
                );
            }
            if state.ended.is_some() {
                let open = home.ledger().open_of(&known.run).count();
                assert_eq!(open, 0, "invariant 3: {} ended and pays on", known.run);
            }
        }
        let watched: BTreeSet<_> = process
            .watched()
            .map(|(key, _)| (key.loop_name.clone(), key.trigger.clone()))
            .collect();
        let mut broken = self.promised.iter().filter(|(_, of)| watched.contains(of));
        let broken: Vec<_> = broken
            .by_ref()
            .filter(|(slot, _)| !self.accounted.contains(*slot))
            .collect();
        assert!(broken.is_empty(), "invariant 5: nothing came of {broken:?}");
    }

    /// Learns what the definitions that are served say of their triggers.
    async fn triggers(&mut self, store: &dyn Store, home: &Home) {
        let news = records(store, self.fold.seq(), home.seq()).await;
        for record in news {
            let HomeEvent::LoopRegistered { definition, .. } = &record.event else {
                continue;
            };
            let bytes = store.get_artefact(definition).await.expect("an artefact");
            let frozen = Frozen::load(&bytes).expect("a definition");
            for trigger in &frozen.definition.triggers {
                let of = (frozen.definition.name.clone(), trigger.hash.clone());
                // Anchored where it was registered: `enlist` cuts the fraction of a second.
                let since = Timestamp::from_second(record.at.as_second()).expect("an instant");
                self.schedules.entry(of).or_insert_with(|| {
                    let schedule = schedule(trigger, since).expect("a schedule");
                    (schedule, trigger.catch_up)
                });
            }
        }
    }

    fn home_record(&mut self, record: Record<HomeEvent>, outside: &Outside) {
        assert_eq!(
            record.seq,
            self.fold.seq() + 1,
            "sequence numbers are dense"
        );
        match &record.event {
            HomeEvent::Watermark {
                loop_name,
                trigger,
                upto,
                ..
            } => {
                let of = (loop_name.clone(), trigger.clone());
                let new = Slots {
                    since: *upto,
                    seen: BTreeSet::new(),
                    whole: *upto,
                };
                assert!(
                    *upto <= record.at,
                    "invariant 5: a trigger counts from the future"
                );
                assert!(
                    record.at.duration_since(*upto) < jiff::SignedDuration::from_secs(1),
                    "invariant 5: a new trigger fires the past"
                );
                assert!(self.slots.insert(of, new).is_none(), "registered twice");
            }
            HomeEvent::SlotFired {
                firing, trigger, ..
            } => {
                assert!(
                    self.fired.insert(firing.slot.clone()),
                    "invariant 5: {} has two runs",
                    firing.slot
                );
                let at_work = self.fold.active_run(&firing.project, &firing.loop_name);
                assert!(at_work.is_none(), "two runs of a loop at once");
                if let Some(trigger) = trigger {
                    assert!(firing.due <= record.at, "invariant 5: fires the future");
                    let of = (firing.loop_name.clone(), trigger.clone());
                    self.accounted.insert(firing.slot.clone());
                    self.instant(&of, firing.due);
                }
            }
            HomeEvent::SlotsSkipped {
                project,
                loop_name,
                trigger,
                first,
                last,
                count,
                reason,
                ..
            } => {
                let of = (loop_name.clone(), trigger.clone());
                let (schedule, catch_up) = self.schedules[&of].clone();
                let mut instants = instants(&schedule, before(*first), *last);
                assert_eq!(instants.len() as u64, *count, "invariant 5: a row of skips");
                assert_eq!(instants.first(), Some(first));
                assert_eq!(instants.last(), Some(last));
                for at in instants.drain(..) {
                    self.instant(&of, at);
                    let slot = SlotId::scheduled(project, loop_name, trigger, at);
                    self.accounted.insert(slot);
                }
                let age = record.at.duration_since(*last);
                match reason {
                    SkipReason::Missed => assert!(
                        age.unsigned_abs() > catch_up,
                        "invariant 5: what could have been caught up was missed"
                    ),
                    SkipReason::Unable { .. } => {}
                    SkipReason::Superseded { by } => {
                        self.promised.insert(by.clone(), of.clone());
                    }
                    SkipReason::Overlap { run } => {
                        let busy = self.fold.active_run(project, loop_name);
                        assert_eq!(busy.map(|busy| &busy.run), Some(run), "overlaps nothing");
                    }
                }
            }
            HomeEvent::Reserved {
                call,
                amount,
                scopes,
            } => {
                for scope in scopes {
                    let taken = self.taken.entry(scope.clone()).or_default();
                    *taken += amount.tokens;
                    let limit = match scope {
                        Scope::Run { .. } => OF_RUN,
                        Scope::LoopDay { .. } => OF_LOOP,
                        Scope::ProjectDay { .. } => OF_PROJECT,
                    };
                    assert!(
                        *taken <= limit,
                        "invariant 3: {taken} of {limit} taken from {scope:?}"
                    );
                }
                let before = self.open.insert(call.clone(), (*amount, scopes.clone()));
                assert!(before.is_none(), "invariant 3: call {call} paid twice");
            }
            HomeEvent::Settled { call, amount } => {
                let (whole, scopes) = self.open.remove(call).expect("a call that is open");
                let told = outside.told.get(call).copied().flatten();
                assert!(
                    *amount == whole || told == Some(*amount),
                    "invariant 3: call {call}, of which {told:?} is known, is settled at {amount:?}"
                );
                for scope in &scopes {
                    let taken = self.taken.get_mut(scope).expect("it was taken from");
                    *taken -= whole.tokens - amount.tokens;
                }
            }
            HomeEvent::ItemResolved { number, answer } => {
                let before = self.answers.insert(*number, answer.clone());
                assert!(
                    before.is_none(),
                    "the first answer to {number} does not stand"
                );
            }
            _ => {}
        }
        self.fold.apply(&record).expect("a legal record");
        for (number, answer) in &self.answers {
            let entry = self.fold.inbox().get(*number).expect("an item");
            assert_eq!(entry.answer.as_ref(), Some(answer), "an answer changes");
        }
        self.log.push(record);
    }

    /// One instant becomes a run or is skipped.
    fn instant(&mut self, of: &(LoopName, Digest), at: Timestamp) {
        let slots = self
            .slots
            .get_mut(of)
            .expect("a trigger that is registered");
        assert!(at > slots.since, "invariant 5: {at} is of the past");
        assert!(
            slots.seen.insert(at),
            "invariant 5: {at} is accounted for twice"
        );
    }

    /// Every instant of a trigger up to `upto` is accounted for.
    fn complete(&mut self, of: &(LoopName, Digest), upto: Timestamp) {
        let slots = self
            .slots
            .get_mut(of)
            .expect("a trigger that is registered");
        for at in instants(&self.schedules[of].0, slots.whole, upto) {
            assert!(
                slots.seen.contains(&at),
                "invariant 5: nothing is said of {at}"
            );
        }
        slots.whole = slots.whole.max(upto);
    }

    fn watermarks(&mut self, home: &Home) {
        let served = home.loops().next().map(|served| served.project.clone());
        let Some(project) = served else { return };
        for of in self.slots.keys() {
            let mark = home
                .watermark(&project, &of.0, &of.1)
                .expect("a trigger that is registered");
            let before = self.marks.insert(of.clone(), mark);
            assert!(
                before.is_none_or(|before| before <= mark),
                "invariant 5: a watermark moves back"
            );
        }
    }

    /// Looks at one run: its journal only grows, and not after its end.
    async fn run(&mut self, store: &dyn Store, run: &RunId, outside: &Outside) -> Option<RunState> {
        let records = store.read_run(run, 1).await.expect("a journal");
        let before = self.runs.entry(run.clone()).or_default();
        if *before != records {
            assert!(
                records.len() > before.len() && records[..before.len()] == before[..],
                "the journal of {run} has changed"
            );
            let ended = |record: &Record<RunEvent>| matches!(record.event, RunEvent::Ended { .. });
            assert!(
                !before.last().is_some_and(ended),
                "{run} goes on after its end"
            );
            before.clone_from(&records);
            self.story(run, &records, outside);
        }
        RunState::fold(&records).expect("a legal journal")
    }

    /// Invariants 1 and 6 over a whole journal: nothing is done that was not announced, and what nobody
    /// saw the end of is not done again unasked.
    fn story(&self, run: &RunId, records: &[Record<RunEvent>], outside: &Outside) {
        let contained = run.as_str().starts_with("tight");
        let mut started: BTreeMap<Step, u32> = BTreeMap::new();
        let mut under_way: BTreeSet<Step> = BTreeSet::new();
        // Attempts whose end nobody saw.
        let mut unseen: BTreeSet<Step> = BTreeSet::new();
        let mut waits: Option<(ItemNumber, Reason)> = None;
        let (mut seq, mut epoch) = (0, 0);
        for record in records {
            seq += 1;
            assert_eq!(record.seq, seq, "sequence numbers are dense");
            assert!(record.epoch >= epoch, "an older owner writes");
            epoch = record.epoch;
            match &record.event {
                RunEvent::Woken { .. } => {
                    unseen.extend(std::mem::take(&mut under_way));
                }
                RunEvent::Started { step } => {
                    let attempt = matches!(step, Step::Attempt { .. });
                    assert!(
                        contained || !attempt || !unseen.contains(step),
                        "invariant 6: {run} does {} again, and nobody was asked",
                        step.id()
                    );
                    assert!(under_way.insert(step.clone()), "begun twice at once");
                    unseen.remove(step);
                    *started.entry(step.clone()).or_default() += 1;
                }
                RunEvent::AttemptEnded {
                    attempt,
                    worker,
                    end,
                } => {
                    let step = Step::Attempt {
                        attempt: *attempt,
                        worker: worker.clone(),
                    };
                    assert!(under_way.remove(&step), "ends what did not begin");
                    if matches!(end.reason, EndReason::Unknown { .. }) {
                        unseen.insert(step);
                    }
                }
                RunEvent::StepStopped { step } => {
                    assert!(under_way.remove(step), "stops what did not begin");
                }
                RunEvent::Waiting { item, reason, .. } => {
                    under_way.retain(|step| !matches!(step, Step::Ask { .. }));
                    let entry = self.fold.inbox().get(*item).expect("an item of the inbox");
                    assert_eq!(
                        (&entry.item.run, entry.item.reason),
                        (run, *reason),
                        "{run} waits for another question's answer"
                    );
                    waits = Some((*item, *reason));
                }
                RunEvent::Noticed { item, reason, .. } => {
                    under_way.retain(|step| !matches!(step, Step::Ask { .. }));
                    let entry = self.fold.inbox().get(*item).expect("an item of the inbox");
                    assert_eq!(
                        (&entry.item.run, entry.item.reason),
                        (run, *reason),
                        "{run} tells of something else"
                    );
                }
                RunEvent::Answered { item, answer } => {
                    assert_eq!(waits.map(|(item, _)| item), Some(*item), "not asked");
                    assert_eq!(
                        self.answers.get(item),
                        Some(answer),
                        "{run} heard another answer than the first"
                    );
                    if waits.take().map(|(_, reason)| reason) == Some(Reason::UnknownEffect)
                        && matches!(answer, Answer::Approve | Answer::Text { .. })
                    {
                        unseen.clear();
                    }
                }
                RunEvent::StopRequested => waits = None,
                RunEvent::Prepared { .. }
                | RunEvent::Snapshot { .. }
                | RunEvent::VerdictGiven { .. }
                | RunEvent::Delivered { .. }
                | RunEvent::StepFailed { .. } => {
                    under_way.retain(|step| matches!(step, Step::Attempt { .. }));
                }
                _ => {}
            }
        }
        for ((of, step), times) in outside.effects.range((run.clone(), Step::Prepare)..) {
            if of != run {
                break;
            }
            let announced = started.get(step).copied().unwrap_or_default();
            assert!(
                *times <= announced,
                "invariant 1: {run} does {} unannounced",
                step.id()
            );
        }
    }
}

/// The records of a home after `after`, up to `upto`.
async fn records(store: &dyn Store, after: u64, upto: u64) -> Vec<Record<HomeEvent>> {
    let count = usize::try_from(upto - after).expect("a small number");
    let records = store.subscribe(after).take(count);
    records
        .map(|record| record.expect("a record"))
        .collect()
        .await
}

/// The instants after `after` and not after `until`, one by one.
fn instants(schedule: &Schedule, after: Timestamp, until: Timestamp) -> Vec<Timestamp> {
    std::iter::successors(schedule.next(after), |at| schedule.next(*at))
        .take_while(|at| *at <= until)
        .collect()
}

fn before(at: Timestamp) -> Timestamp {
    at - jiff::SignedDuration::from_nanos(1)
}
