//! What the journals cost: an append against the bare write and sync of the same bytes, and the fold
//! of many records. On the disk of the build folder: in memory a sync costs nothing.

use std::{fs::File, hint::black_box, io::Write as _, path::Path};

use divan::Bencher;
use ronde_protocol::{
    Amount, ArtefactId, CallId, LoopName, MicroUsd, ProjectId, RunId, SlotId, Timestamp,
    firing::{Cause, Firing},
    outcome::Outcome,
};
use ronde_state::{
    disk::RealDisk,
    event::{HomeEvent, Scope},
    home::Home,
    journal::{self, Journal, Record},
};

fn main() {
    divan::main();
}

const EVENTS: u64 = 100_000;

fn dir() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder on the build's disk")
}

/// Fifty records a run: it is fired, pays for calls, and ends.
fn event(n: u64) -> HomeEvent {
    let loop_name = LoopName::new("nightly").expect("a good name");
    let project = ProjectId::of("/home/somebody/project");
    let slot = SlotId::manual(&project, &loop_name, &(n / 50).to_string());
    let run = RunId::of(&loop_name, &slot);
    let call = CallId::new(format!("{run}/1/main/{}/e1", n / 2));
    let amount = Amount {
        tokens: 1_234,
        cost: MicroUsd(5_678),
    };
    match n % 50 {
        0 => HomeEvent::SlotFired {
            firing: Firing {
                slot,
                run,
                project,
                loop_name,
                cause: Cause::Person,
                due: Timestamp::UNIX_EPOCH,
                definition: ArtefactId::of("definition"),
            },
            root: "/home/somebody/project".into(),
            trigger: None,
        },
        1 => HomeEvent::TimerSet {
            id: run.to_string(),
            at: Timestamp::UNIX_EPOCH,
        },
        49 => HomeEvent::RunRested {
            run,
            outcome: Outcome::Done,
            changed: true,
            reason: "every check passes".to_owned(),
            branch: Some("ronde/nightly".to_owned()),
            item: None,
        },
        48 => HomeEvent::TimerCleared {
            id: run.to_string(),
        },
        n if n % 2 == 0 => HomeEvent::Reserved {
            call,
            amount,
            scopes: vec![
                Scope::Run { run },
                Scope::LoopDay {
                    project,
                    loop_name,
                    day: "2026-06-01".to_owned(),
                },
            ],
        },
        _ => HomeEvent::Settled { call, amount },
    }
}

fn records(count: u64) -> Vec<Record<HomeEvent>> {
    let opened = HomeEvent::Opened { epoch: 1, pid: 1 };
    std::iter::once(opened)
        .chain((0..count).map(event))
        .zip(1..)
        .map(|(event, seq)| Record::new(seq, 1, Timestamp::UNIX_EPOCH, event))
        .collect()
}

fn journal_of(path: &Path, records: &[Record<HomeEvent>]) {
    let mut journal = Journal::create(&RealDisk, path, 1).expect("a new journal");
    journal.append(records).expect("appended");
}

/// One record, made durable.
#[divan::bench]
fn append(bencher: Bencher<'_, '_>) {
    let dir = dir();
    let path = dir.path().join("journal.jsonl");
    let mut journal = Journal::create(&RealDisk, &path, 1).expect("a new journal");
    bencher
        .with_inputs(|| event(2))
        .bench_local_values(|event| {
            let record = Record::new(journal.next(), 1, Timestamp::UNIX_EPOCH, event);
            journal.append(&[record]).expect("appended");
        });
}

/// The same bytes, written and synced by hand.
#[divan::bench]
fn append_bare(bencher: Bencher<'_, '_>) {
    let dir = dir();
    let path = dir.path().join("one.jsonl");
    journal_of(&path, &[Record::new(1, 1, Timestamp::UNIX_EPOCH, event(2))]);
    let bytes = std::fs::read(&path).expect("a journal of one record");
    let mut file = File::create(dir.path().join("bare")).expect("a new file");
    bencher.bench_local(|| {
        file.write_all(&bytes).expect("written");
        file.sync_data().expect("synced");
    });
}

/// A hundred records in one commit.
#[divan::bench]
fn append_hundred(bencher: Bencher<'_, '_>) {
    let dir = dir();
    let path = dir.path().join("journal.jsonl");
    let mut journal = Journal::create(&RealDisk, &path, 1).expect("a new journal");
    bencher.bench_local(|| {
        let first = journal.next();
        let record = |n| Record::new(first + n, 1, Timestamp::UNIX_EPOCH, event(2));
        journal
            .append(&(0..100).map(record).collect::<Vec<_>>())
            .expect("appended");
    });
}

/// The fold of 100,000 home records in memory.
#[divan::bench(sample_count = 10)]
fn fold_home(bencher: Bencher<'_, '_>) {
    let records = records(EVENTS);
    bencher.bench_local(|| Home::fold(black_box(&records)).expect("legal").seq());
}

/// The same from the disk: read, checked and folded.
#[divan::bench(sample_count = 10)]
fn read_and_fold_home(bencher: Bencher<'_, '_>) {
    let dir = dir();
    let path = dir.path().join("journal.jsonl");
    journal_of(&path, &records(EVENTS));
    bencher.bench_local(|| {
        let opened = journal::read::<HomeEvent>(&RealDisk, &path, 1).expect("whole");
        Home::fold(&opened.records).expect("legal").seq()
    });
}
