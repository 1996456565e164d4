//! Power loss at any operation over both journals: nothing that was acknowledged is lost, nothing is
//! there that was not written, and the fold is that of what is there.

use std::{path::Path, sync::Arc};

use ronde_protocol::{Amount, MicroUsd, RunId, handoff::Answer, outcome::Outcome};
use tokio::sync::oneshot;

use super::sim::{Dice, SimDisk};
use crate::{
    book::{Book, Request},
    conformance::{at, firing},
    decide::{Op, Reply},
    event::{HomeEvent, QueueItem, RunEvent, Scope, ScopeLimit},
    home::Home,
    journal::Record,
    runfiles::RunFiles,
    segments::{self, HomeJournal},
    store::{Error, Result},
};

const ROOT: &str = "/h";

fn op(dice: &mut Dice) -> Op {
    let n = dice.roll(12);
    let run = firing(&n.to_string()).run;
    match dice.roll(10) {
        0 | 1 => Op::Fire {
            firing: firing(&n.to_string()),
            root: "/p".into(),
            trigger: None,
        },
        2 => Op::Record(vec![HomeEvent::RunRested {
            run,
            outcome: [Outcome::Done, Outcome::HandedOff, Outcome::Interrupted][dice.roll(3)],
            changed: true,
            reason: "why".to_owned(),
            branch: None,
            item: None,
        }]),
        3 => Op::Record(vec![HomeEvent::RunWoken { run }]),
        4 => Op::Reserve {
            call: format!("{run}/{}", dice.roll(4)).as_str().into(),
            amount: Amount {
                tokens: 10,
                cost: MicroUsd(1),
            },
            limits: vec![ScopeLimit {
                scope: Scope::Run { run },
                tokens: Some(25),
                cost: None,
            }],
        },
        5 => Op::SettleLost { run },
        6 => Op::Await(crate::conformance::item(&n.to_string())),
        7 => Op::Resolve {
            number: n as u64,
            answer: Answer::Approve,
        },
        8 => Op::Lease {
            run,
            holder: n.to_string(),
            now: at(n as i64),
            until: at(20),
        },
        _ => Op::Push(QueueItem {
            queue: "q".to_owned(),
            class: "c".to_owned(),
            id: dice.roll(40).to_string(),
            payload: "x".repeat(dice.roll(300)),
        }),
    }
}

/// What was written of one journal, as its writer knows it.
struct Written<E> {
    /// Acknowledged: must be there.
    acked: Vec<Record<E>>,
    /// Tried, and nobody knows: may be there, in order.
    unknown: Vec<Record<E>>,
}

impl<E> Default for Written<E> {
    fn default() -> Self {
        Self {
            acked: Vec::new(),
            unknown: Vec::new(),
        }
    }
}

impl<E: Clone + PartialEq + std::fmt::Debug> Written<E> {
    fn tried(&mut self, records: &[Record<E>], result: &Result<()>) {
        match result {
            Ok(()) => self.acked.extend_from_slice(records),
            Err(Error::Ambiguous { .. }) => self.unknown.extend_from_slice(records),
            Err(_) => {}
        }
    }

    /// Holds what is there now against what was written, and takes it over.
    fn check(&mut self, found: Vec<Record<E>>, seed: u64) {
        assert!(
            found.starts_with(&self.acked),
            "seed {seed}: something acknowledged is gone"
        );
        assert!(
            self.unknown.starts_with(&found[self.acked.len()..]),
            "seed {seed}: something is there that was not written"
        );
        self.unknown.clear();
        self.acked = found;
    }
}

/// One life of a process over the home journal, until the power goes or it has done enough.
fn live(disk: &SimDisk, dice: &mut Dice, written: &mut Written<HomeEvent>, seed: u64) {
    let segment = 1 + dice.roll(4000) as u64;
    let opened = HomeJournal::open(Arc::new(disk.clone()), Path::new(ROOT), segment);
    let Ok(recovered) = opened else {
        let error = opened.err().unwrap();
        assert!(disk.is_off(), "seed {seed}: {error}");
        return;
    };
    let (mut journal, mut home) = (recovered.journal, recovered.home);
    // Reading for this check is not part of what is tried.
    if let Ok(found) = segments::read_range(disk, Path::new(ROOT), 1, u64::MAX) {
        written.check(found, seed);
        assert_eq!(home, Home::fold(&written.acked).unwrap(), "seed {seed}");
    } else {
        assert!(disk.is_off(), "seed {seed}");
        return;
    }
    let epoch = home.epoch() + 1;
    let opened = Record::new(
        home.seq() + 1,
        epoch,
        at(0),
        HomeEvent::Opened { epoch, pid: 1 },
    );
    home.apply(&opened).unwrap();
    let opened = [opened];
    let result = journal.append(&opened);
    written.tried(&opened, &result);
    if result.is_err() {
        return;
    }
    let mut book = Book::new(home);
    let published = book.published();
    for _ in 0..dice.roll(60) {
        let (requests, answers): (Vec<_>, Vec<_>) = (0..1 + dice.roll(5))
            .map(|_| {
                let (reply, answer) = oneshot::channel();
                (
                    Request {
                        op: op(dice),
                        reply,
                    },
                    answer,
                )
            })
            .unzip();
        let before = published.home();
        let mut failed = false;
        book.commit(requests, at(1), |records| {
            let result = journal.append(records);
            written.tried(records, &result);
            failed = result.is_err();
            result
        });
        for mut answer in answers {
            let answer: Result<(u64, Reply)> = answer.try_recv().unwrap();
            assert!(
                !failed || answer.is_err(),
                "seed {seed}: told of what is not durable"
            );
        }
        if failed {
            assert_eq!(
                published.home(),
                before,
                "seed {seed}: shown what is not durable"
            );
        }
        if disk.is_off() {
            return;
        }
        assert_eq!(
            *published.home(),
            Home::fold(&written.acked).unwrap(),
            "seed {seed}"
        );
        journal.tend(&published.home());
    }
}

#[test]
fn the_home_journal_survives_power_loss() {
    for seed in 0..120 {
        let disk = SimDisk::new(seed);
        let mut dice = Dice::new(seed.wrapping_mul(7919));
        let mut written = Written::default();
        for _ in 0..4 {
            disk.power_for(dice.roll(150));
            live(&disk, &mut dice, &mut written, seed);
            disk.crash();
        }
        // And at last a life without an accident.
        live(&disk, &mut dice, &mut written, seed);
        let (home, torn) = segments::read(&disk, Path::new(ROOT)).unwrap();
        assert_eq!(home, Home::fold(&written.acked).unwrap(), "seed {seed}");
        assert_eq!(torn, None);
    }
}

#[test]
fn a_home_journal_on_a_disk_that_fills_up() {
    for seed in 0..40 {
        let disk = SimDisk::new(seed);
        let mut dice = Dice::new(seed.wrapping_mul(104_729));
        let mut written = Written::default();
        live(&disk, &mut dice, &mut written, seed);
        for _ in 0..3 {
            disk.set_capacity(Some(disk.used() + dice.roll(3000)));
            live(&disk, &mut dice, &mut written, seed);
            disk.crash();
            disk.set_capacity(None);
            live(&disk, &mut dice, &mut written, seed);
        }
    }
}

fn run_event(seq: u64, dice: &mut Dice) -> RunEvent {
    if seq == 1 {
        RunEvent::Fired {
            firing: firing("a"),
            root: "/p".into(),
        }
    } else {
        RunEvent::Ended {
            outcome: Outcome::Done,
            changed: false,
            reason: "x".repeat(dice.roll(300)),
        }
    }
}

#[test]
fn the_journal_of_a_run_survives_power_loss() {
    let run: RunId = firing("a").run;
    for seed in 0..120 {
        let disk = SimDisk::new(seed);
        let mut dice = Dice::new(seed.wrapping_mul(31));
        let mut written = Written::default();
        for life in 0..5 {
            if life < 4 {
                disk.power_for(dice.roll(40));
            }
            let runs = RunFiles::new(Arc::new(disk.clone()), Path::new("/h/runs").to_owned());
            match runs.read(&run, 1) {
                Ok(found) => written.check(found, seed),
                Err(error) => assert!(disk.is_off(), "seed {seed}: {error}"),
            }
            for _ in 0..20 {
                let seq = written.acked.len() as u64 + 1;
                let record = Record::new(seq, 1, at(1), run_event(seq, &mut dice));
                let result = runs.append(&run, record.clone(), &|| Ok(()));
                written.tried(&[record], &result);
                if disk.is_off() || result.is_err() {
                    break;
                }
                assert_eq!(runs.read(&run, 1).unwrap_or_default().len() as u64, seq);
            }
            if life < 4 {
                disk.crash();
            }
        }
        assert!(written.acked.len() >= 20, "seed {seed}");
    }
}
