//! Any sequence of what a home is asked, with crashes between: the live state is the fold of the
//! journal, one slot has one run, no budget is exceeded, numbers have no gaps, the first answer stands,
//! and of a run's leases the last alone is good.

use std::collections::BTreeMap;

use proptest::prelude::*;
use ronde_protocol::{
    Amount, CallId, Digest, LoopName, MicroUsd, ProjectId, RunId, SlotId, firing::SkipReason,
    handoff::Answer, outcome::Outcome,
};
use tokio::sync::oneshot;

use crate::{
    book::{Book, Request},
    conformance::{at, firing, item, loop_name, project},
    decide::{Op, Reply},
    event::{HomeEvent, QueueItem, Scope, ScopeLimit},
    home::{Home, Image},
    journal::Record,
    line,
    store::{Error, Fired, Reserved, Result},
};

/// Tokens of one run, and of all runs of a day.
const OF_RUN: u64 = 30;
const OF_DAY: u64 = 70;

#[derive(Debug, Clone)]
enum Step {
    Ask(Vec<Op>),
    /// The process dies and the next one folds the journal.
    Crash,
    /// As above, from a snapshot.
    CrashWithSnapshot,
    /// The disk refuses the batch.
    Refused(Vec<Op>),
}

fn run(n: u8) -> RunId {
    firing(&n.to_string()).run
}

fn call(n: u8, k: u8) -> CallId {
    CallId::new(format!("{}/1/main/{k}/e1", run(n)))
}

fn day() -> Scope {
    Scope::LoopDay {
        project: project(),
        loop_name: loop_name(),
        day: "2026-06-01".to_owned(),
    }
}

fn op() -> impl Strategy<Value = Op> {
    let n = || 0..6_u8;
    let time = || 0..100_i64;
    let outcome = prop_oneof![
        Just(Outcome::Done),
        Just(Outcome::Stopped),
        Just(Outcome::HandedOff),
        Just(Outcome::Interrupted),
    ];
    prop_oneof![
        4 => n().prop_map(|n| Op::Fire {
            firing: firing(&n.to_string()),
            root: "/p".into(),
            trigger: Some(Digest::of("cron")),
        }),
        2 => (time(), 0..20_i64).prop_map(|(first, long)| Op::Record(vec![HomeEvent::SlotsSkipped {
            project: project(),
            loop_name: loop_name(),
            trigger: Digest::of("cron"),
            slot: SlotId::from("s"),
            first: at(first),
            last: at(first + long),
            count: 1,
            reason: SkipReason::Missed,
        }])),
        3 => (n(), outcome).prop_map(|(n, outcome)| Op::Record(vec![HomeEvent::RunRested {
            run: run(n),
            outcome,
            changed: true,
            reason: String::new(),
            branch: None,
            item: None,
        }])),
        2 => n().prop_map(|n| Op::Record(vec![HomeEvent::RunWoken { run: run(n) }])),
        6 => (n(), 0..5_u8, 1..20_u64).prop_map(|(n, k, tokens)| Op::Reserve {
            call: call(n, k),
            amount: Amount { tokens, cost: MicroUsd(tokens) },
            limits: vec![
                ScopeLimit {
                    scope: Scope::Run { run: run(n) },
                    tokens: Some(OF_RUN),
                    cost: None,
                },
                ScopeLimit { scope: day(), tokens: Some(OF_DAY), cost: Some(MicroUsd(OF_DAY)) },
            ],
        }),
        4 => (n(), 0..5_u8, prop::option::of(0..2_u64)).prop_map(|(n, k, tokens)| Op::Settle {
            call: call(n, k),
            used: tokens.map(|tokens| Amount { tokens, cost: MicroUsd(tokens) }),
        }),
        1 => n().prop_map(|n| Op::SettleLost { run: run(n) }),
        3 => (n(), 0..3_u8, time(), 0..30_i64).prop_map(|(n, holder, now, long)| Op::Lease {
            run: run(n),
            holder: holder.to_string(),
            now: at(now),
            until: at(now + long),
        }),
        2 => (n(), 1..6_u64, time())
            .prop_map(|(n, epoch, until)| Op::Heartbeat { run: run(n), epoch, until: at(until) }),
        1 => (n(), 1..6_u64).prop_map(|(n, epoch)| Op::Release { run: run(n), epoch }),
        2 => n().prop_map(|n| Op::Await(item(&n.to_string()))),
        3 => (0..7_u64, n()).prop_map(|(number, text)| Op::Resolve {
            number,
            answer: Answer::Text { text: text.to_string() },
        }),
        1 => (n(), time()).prop_map(|(n, t)| Op::SetTimer { id: n.to_string(), at: at(t) }),
        1 => n().prop_map(|n| Op::ClearTimer { id: n.to_string() }),
        2 => (n(), 0..2_u8).prop_map(|(n, class)| Op::Push(QueueItem {
            queue: "q".to_owned(),
            class: class.to_string(),
            id: n.to_string(),
            payload: String::new(),
        })),
        2 => (0..2_u8, time(), 0..30_i64).prop_map(|(class, now, long)| Op::Pull {
            queue: "q".to_owned(),
            class: class.to_string(),
            holder: "me".to_owned(),
            now: at(now),
            until: at(now + long),
        }),
        1 => n().prop_map(|n| Op::Ack { queue: "q".to_owned(), id: n.to_string() }),
        1 => Just(Op::Record(vec![
            HomeEvent::ProjectOpened { project: project(), root: "/p".into() },
            HomeEvent::LoopRemoved { project: project(), loop_name: loop_name() },
        ])),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let ops = || prop::collection::vec(op(), 1..6);
    prop_oneof![
        20 => ops().prop_map(Step::Ask),
        1 => Just(Step::Crash),
        1 => Just(Step::CrashWithSnapshot),
        2 => ops().prop_map(Step::Refused),
    ]
}

/// What was promised, kept apart from the state that is tested.
#[derive(Default)]
struct Promises {
    won: BTreeMap<SlotId, RunId>,
    answers: BTreeMap<u64, Answer>,
    epochs: BTreeMap<RunId, u64>,
    /// What each call has taken: what is reserved while it is open, then what was used.
    taken: BTreeMap<CallId, u64>,
    pulled: BTreeMap<String, jiff::Timestamp>,
}

impl Promises {
    fn note(&mut self, op: &Op, answer: &Result<(u64, Reply)>) {
        match (op, answer) {
            (Op::Fire { firing, .. }, Ok((_, Reply::Fired(fired)))) => match fired {
                Fired::Won(run) => {
                    let before = self.won.insert(firing.slot.clone(), run.clone());
                    assert_eq!(before, None, "slot {} was won twice", firing.slot);
                }
                Fired::Already(run) => assert_eq!(self.won.get(&firing.slot), Some(run)),
            },
            (Op::Resolve { number, answer }, Ok((_, Reply::Was(first)))) => {
                assert_eq!(*first, !self.answers.contains_key(number));
                self.answers
                    .entry(*number)
                    .or_insert_with(|| answer.clone());
            }
            (Op::Lease { run, .. }, Ok((_, Reply::Leased(epoch)))) => {
                let before = self.epochs.insert(run.clone(), *epoch).unwrap_or(0);
                assert!(*epoch > before, "{run}: {epoch} after {before}");
            }
            (Op::Heartbeat { run, epoch, .. } | Op::Release { run, epoch }, answer) => {
                let newest = self.epochs.get(run).copied().unwrap_or(0);
                match answer {
                    Ok(_) => assert_eq!(*epoch, newest),
                    Err(Error::Fenced { epoch, .. }) => assert_eq!(*epoch, newest),
                    Err(other) => panic!("{other}"),
                }
            }
            (Op::Reserve { call, amount, .. }, Ok((_, Reply::Reserved(reserved)))) => {
                let known = self.taken.contains_key(call);
                assert_eq!(*reserved == Reserved::Already, known, "{call}");
                if *reserved == Reserved::Granted {
                    self.taken.insert(call.clone(), amount.tokens);
                }
            }
            (Op::Settle { .. } | Op::SettleLost { .. }, Err(Error::Missing { .. })) => {}
            (Op::Pull { now, until, .. }, Ok((_, Reply::Pulled(Some(task))))) => {
                if let Some(theirs) = self.pulled.insert(task.id.clone(), *until) {
                    assert!(theirs <= *now, "task {} was somebody's", task.id);
                }
            }
            _ => {}
        }
    }

    /// Brings what calls have taken up to date from the journal: the one place that says it.
    fn settle(&mut self, records: &[Record<HomeEvent>]) {
        for record in records {
            if let HomeEvent::Settled { call, amount } = &record.event {
                let taken = self.taken.get_mut(call).unwrap();
                assert!(
                    amount.tokens <= *taken,
                    "{call} used more than was set aside"
                );
                *taken = amount.tokens;
            }
        }
    }

    fn hold(&self, home: &Home) {
        for (slot, run) in &self.won {
            assert_eq!(home.slot(slot).as_ref(), Some(run));
        }
        assert_eq!(home.runs().len(), self.won.len());
        for (number, answer) in &self.answers {
            assert_eq!(
                home.inbox().get(*number).unwrap().answer.as_ref(),
                Some(answer)
            );
        }
        let numbers: Vec<_> = home.inbox().entries().map(|entry| entry.number).collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
        let of = |scope: &Scope| {
            home.ledger()
                .spent(scope)
                .plus(home.ledger().reserved(scope))
        };
        assert_eq!(of(&day()).tokens, self.taken.values().sum::<u64>());
        assert!(of(&day()).tokens <= OF_DAY && of(&day()).cost.0 <= OF_DAY);
        for n in 0..6 {
            assert!(of(&Scope::Run { run: run(n) }).tokens <= OF_RUN);
        }
    }
}

/// An op whose run has ended may be refused; it is told apart here and not in the model.
fn ask(
    book: &mut Book,
    ops: Vec<Op>,
    journal: &mut Vec<Record<HomeEvent>>,
    promises: &mut Promises,
) {
    let (requests, answers): (Vec<_>, Vec<_>) = ops
        .iter()
        .map(|op| {
            let (reply, answer) = oneshot::channel();
            (
                Request {
                    op: op.clone(),
                    reply,
                },
                answer,
            )
        })
        .unzip();
    let mut written = Vec::new();
    book.commit(requests, at(0), |records| {
        written.extend_from_slice(records);
        Ok(())
    });
    for (op, mut answer) in ops.iter().zip(answers) {
        promises.note(op, &answer.try_recv().unwrap());
    }
    promises.settle(&written);
    journal.extend(written);
}

fn opened(home: &mut Home, journal: &mut Vec<Record<HomeEvent>>) {
    let epoch = home.epoch() + 1;
    let record = Record::new(
        home.seq() + 1,
        epoch,
        at(0),
        HomeEvent::Opened { epoch, pid: 1 },
    );
    home.apply(&record).unwrap();
    journal.push(record);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn a_home_keeps_its_promises(steps in prop::collection::vec(step(), 1..40)) {
        let mut journal = Vec::new();
        let mut home = Home::default();
        opened(&mut home, &mut journal);
        let mut book = Book::new(home);
        let mut promises = Promises::default();
        for step in steps {
            match step {
                Step::Ask(ops) => ask(&mut book, ops, &mut journal, &mut promises),
                Step::Refused(ops) => {
                    let before = book.published().home();
                    let requests = ops.into_iter().map(|op| Request { op, reply: oneshot::channel().0 });
                    book.commit(requests.collect(), at(0), |_| Err(Error::Illegal {
                        what: "the disk".to_owned(),
                        reason: "it refuses".to_owned(),
                    }));
                    prop_assert_eq!(book.published().home(), before);
                }
                Step::Crash | Step::CrashWithSnapshot => {
                    let mut home = if matches!(step, Step::Crash) {
                        Home::fold(&journal).unwrap()
                    } else {
                        let bytes = line::encode_object(&Image::from(&*book.published().home())).unwrap();
                        Home::from(line::decode_object::<Image>(&bytes).unwrap())
                    };
                    prop_assert_eq!(&home, &*book.published().home());
                    opened(&mut home, &mut journal);
                    book = Book::new(home);
                }
            }
            let live = book.published().home();
            prop_assert_eq!(&Home::fold(&journal).unwrap(), &*live);
            prop_assert!(journal.iter().map(|r| r.seq).eq(1..=journal.len() as u64));
            promises.hold(&live);
        }
    }
}

/// What cannot follow is refused and changes nothing.
#[test]
fn illegal_events_change_nothing() {
    let mut journal = Vec::new();
    let mut home = Home::default();
    opened(&mut home, &mut journal);
    let other = LoopName::new("other").unwrap();
    let skip = |first, last, count| HomeEvent::SlotsSkipped {
        project: project(),
        loop_name: loop_name(),
        trigger: "t".into(),
        slot: "s".into(),
        first: at(first),
        last: at(last),
        count,
        reason: SkipReason::Missed,
    };
    let wrong = [
        HomeEvent::Opened { epoch: 1, pid: 1 },
        HomeEvent::Opened { epoch: 3, pid: 1 },
        HomeEvent::LoopRegistered {
            project: ProjectId::of("/nowhere"),
            loop_name: other.clone(),
            file: "/f".into(),
            definition: "d".into(),
        },
        HomeEvent::LoopRemoved {
            project: project(),
            loop_name: other,
        },
        skip(1, 2, 0),
        skip(2, 1, 2),
        HomeEvent::RunWoken { run: run(0) },
        HomeEvent::Settled {
            call: call(0, 0),
            amount: Amount::ZERO,
        },
        HomeEvent::Reserved {
            call: call(0, 0),
            amount: Amount::ZERO,
            scopes: vec![day(), day()],
        },
        HomeEvent::ItemOpened {
            number: 2,
            item: item("a"),
        },
        HomeEvent::ItemOpened {
            number: 0,
            item: item("a"),
        },
        HomeEvent::ItemResolved {
            number: 1,
            answer: Answer::Deny,
        },
        HomeEvent::ItemResolved {
            number: 0,
            answer: Answer::Deny,
        },
        HomeEvent::NotifyStarted {
            number: 1,
            channel: "c".to_owned(),
        },
        HomeEvent::NotifyEnded {
            number: 1,
            channel: "c".to_owned(),
            error: None,
        },
        HomeEvent::LeaseTaken {
            run: run(0),
            holder: "h".to_owned(),
            epoch: 1,
            until: at(1),
        },
        HomeEvent::LeaseExtended {
            run: run(0),
            epoch: 1,
            until: at(1),
        },
        HomeEvent::LeaseReleased {
            run: run(0),
            epoch: 1,
        },
        HomeEvent::TimerCleared { id: "t".to_owned() },
        HomeEvent::Pulled {
            queue: "q".to_owned(),
            id: "1".to_owned(),
            holder: "h".to_owned(),
            until: at(1),
        },
        HomeEvent::Acked {
            queue: "q".to_owned(),
            id: "1".to_owned(),
        },
    ];
    for event in wrong {
        let epoch = if let HomeEvent::Opened { epoch, .. } = &event {
            *epoch
        } else {
            1
        };
        let record = Record::new(2, epoch, at(0), event);
        let before = home.clone();
        assert!(home.apply(&record).is_err(), "{record:?}");
        assert_eq!(home, before, "{record:?}");
    }
    let good = |seq, epoch| {
        Record::new(
            seq,
            epoch,
            at(0),
            HomeEvent::TimerSet {
                id: "t".to_owned(),
                at: at(1),
            },
        )
    };
    for (seq, epoch) in [(1, 1), (3, 1), (2, 0), (2, 2)] {
        assert!(home.apply(&good(seq, epoch)).is_err(), "{seq} {epoch}");
    }
    assert!(Home::default().apply(&good(1, 0)).is_err());
    home.apply(&good(2, 1)).unwrap();
}
