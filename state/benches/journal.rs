//! What the journals cost: an append against the bare write and sync of the same bytes, and the folds
//! of many records. On the disk of the build folder: in memory a sync costs nothing.
//!
//! Two disks are never equally busy, nor is one at two times: the append and the bare write take turns,
//! and their ratio is printed first.

use std::{
    fs::File,
    hint::black_box,
    io::Write as _,
    path::Path,
    time::{Duration, Instant},
};

use divan::Bencher;
use ronde_protocol::{
    Amount, ArtefactId, CallId, CheckName, CommitId, Digest, LoopName, MicroUsd, ProjectId, RunId,
    SlotId, Timestamp, TreeId, Usage, WorkerName,
    firing::{Cause, Firing},
    outcome::{Exit, Outcome},
    verdict::{CheckResult, Finding, Verdict},
    work::{AttemptEnd, EndReason, ToolOutcome, TurnEvent},
};
use ronde_state::{
    disk::RealDisk,
    event::{HomeEvent, RunEvent, Scope, Step},
    home::Home,
    journal::{self, Journal, Record},
    run::RunState,
};
use serde::{Serialize, de::DeserializeOwned};

fn main() {
    // Asked for a list of the benches, or for one of them, it prints that alone.
    if std::env::args().skip(1).all(|arg| arg == "--bench") {
        against_bare();
    }
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

const ATTEMPTS: u32 = 50;

/// What one call of a turn leaves in the journal: the call, and two tools it asks for.
fn call(run: &RunId, attempt: u32, worker: &WorkerName, n: u32) -> Vec<TurnEvent> {
    let call = CallId::of(run, attempt, worker, n, 1);
    let mut events = vec![
        TurnEvent::CallStarted {
            call: call.clone(),
            model: "provider/some-model".to_owned(),
            reserved: Amount {
                tokens: 40_000,
                cost: MicroUsd(120_000),
            },
        },
        TurnEvent::CallEnded {
            call,
            usage: Usage {
                input: 1_234,
                output: 567,
                cached: 32_000,
                ..Usage::default()
            },
            response: Some(ArtefactId::of(n.to_le_bytes())),
            error: None,
        },
    ];
    for (tool, summary) in [("read", "src/lib.rs"), ("shell", "cargo test --offline")] {
        let id = format!("toolu_{attempt}_{n}_{tool}");
        events.extend([
            TurnEvent::ToolStarted {
                id: id.clone(),
                tool: tool.to_owned(),
                summary: summary.to_owned(),
            },
            TurnEvent::ToolEnded {
                id,
                outcome: ToolOutcome::Done,
            },
        ]);
    }
    events
}

/// A long run: fifty attempts of some three hundred calls each, every one judged and not good enough.
fn run_records() -> Vec<Record<RunEvent>> {
    let loop_name = LoopName::new("nightly").expect("a good name");
    let project = ProjectId::of("/home/somebody/project");
    let slot = SlotId::manual(&project, &loop_name, "1");
    let run = RunId::of(&loop_name, &slot);
    let worker = WorkerName::new("main");
    let (base, tree) = (CommitId::new("c".repeat(40)), TreeId::new("7".repeat(40)));
    let mut events = vec![
        RunEvent::Fired {
            firing: Firing {
                slot,
                run: run.clone(),
                project,
                loop_name,
                cause: Cause::Person,
                due: Timestamp::UNIX_EPOCH,
                definition: ArtefactId::of("definition"),
            },
            root: "/home/somebody/project".into(),
        },
        RunEvent::Started {
            step: Step::Prepare,
        },
        RunEvent::Prepared {
            base: base.clone(),
            tree: tree.clone(),
            branch: Some("main".to_owned()),
        },
    ];
    let check = CheckResult {
        name: CheckName::new("unit"),
        run: "cargo test --offline".to_owned(),
        finding: Finding::Fail,
        exit: Exit::Code { code: 101 },
        duration_ms: 4_321,
        tail: "test result: FAILED. 41 passed; 1 failed\n".repeat(20),
        output: Some(ArtefactId::of("output")),
        passes: None,
    };
    let fixed = events.len() as u64 + u64::from(ATTEMPTS) * 6;
    let turns = (EVENTS - fixed) as u32;
    for attempt in 1..=ATTEMPTS {
        let started = |step| RunEvent::Started { step };
        events.push(started(Step::Attempt {
            attempt,
            worker: worker.clone(),
        }));
        // The last one takes what is left over, so that it is exactly so many.
        let mine = turns / ATTEMPTS + u32::from(attempt == ATTEMPTS) * (turns % ATTEMPTS);
        let calls = (1..).flat_map(|n| call(&run, attempt, &worker, n));
        events.extend(calls.take(mine as usize).map(|event| RunEvent::Turn {
            attempt,
            worker: worker.clone(),
            event,
        }));
        let left = TreeId::new(format!("{attempt:040x}"));
        events.extend([
            RunEvent::AttemptEnded {
                attempt,
                worker: worker.clone(),
                end: AttemptEnd {
                    reason: EndReason::Finished,
                    claim: "The tests pass now.".to_owned(),
                    iterations: mine / 6,
                    usage: Usage::default(),
                    metered: true,
                    exit: None,
                    output: Some(ArtefactId::of("transcript")),
                },
            },
            started(Step::Snapshot {
                attempt,
                worker: worker.clone(),
            }),
            RunEvent::Snapshot {
                attempt,
                worker: worker.clone(),
                tree: left.clone(),
                changed: (0..20).map(|n| format!("src/module_{n}.rs")).collect(),
            },
            started(Step::Verify { attempt }),
            RunEvent::VerdictGiven {
                attempt,
                verdict: Verdict {
                    finding: Finding::Fail,
                    tree: left,
                    base: base.clone(),
                    definition: Digest::of("definition"),
                    environment: Digest::of("environment"),
                    checks: vec![check.clone()],
                    protected: Vec::new(),
                },
            },
        ]);
    }
    assert_eq!(events.len() as u64, EVENTS);
    events
        .into_iter()
        .zip(1..)
        .map(|(event, seq)| Record::new(seq, 1, Timestamp::UNIX_EPOCH, event))
        .collect()
}

fn records(count: u64) -> Vec<Record<HomeEvent>> {
    let opened = HomeEvent::Opened { epoch: 1, pid: 1 };
    std::iter::once(opened)
        .chain((0..count).map(event))
        .zip(1..)
        .map(|(event, seq)| Record::new(seq, 1, Timestamp::UNIX_EPOCH, event))
        .collect()
}

fn journal_of<E: Serialize + DeserializeOwned>(path: &Path, records: &[Record<E>]) {
    let mut journal = Journal::create(&RealDisk, path, 1).expect("a new journal");
    journal.append(records).expect("appended");
}

/// The cost of an append over that of the bare write and sync of the same bytes, one after the other
/// many times: the medians, and the median of what each pair says.
fn against_bare() {
    const PAIRS: usize = 500;
    let dir = dir();
    let path = dir.path().join("one.jsonl");
    journal_of(&path, &[Record::new(1, 1, Timestamp::UNIX_EPOCH, event(2))]);
    let bytes = std::fs::read(&path).expect("a journal of one record");
    let mut bare = File::create(dir.path().join("bare")).expect("a new file");
    let path = dir.path().join("journal.jsonl");
    let mut journal = Journal::create(&RealDisk, &path, 1).expect("a new journal");
    let mut by_hand = || {
        let began = Instant::now();
        bare.write_all(&bytes).expect("written");
        bare.sync_data().expect("synced");
        began.elapsed()
    };
    let mut append = || {
        let event = event(2);
        let began = Instant::now();
        let record = Record::new(journal.next(), 1, Timestamp::UNIX_EPOCH, event);
        journal.append(&[record]).expect("appended");
        began.elapsed()
    };
    let (mut appends, mut bares, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..PAIRS {
        // Neither is always the one that comes after the other.
        let (append, bare) = if n % 2 == 0 {
            let first = append();
            (first, by_hand())
        } else {
            let first = by_hand();
            (append(), first)
        };
        appends.push(append);
        bares.push(bare);
        ratios.push((1_000_000.0 * append.as_secs_f64() / bare.as_secs_f64()) as u64);
    }
    let (append, bare): (Duration, Duration) = (median(appends), median(bares));
    println!(
        "append {append:.1?}, bare write and fdatasync {bare:.1?}: {:.2} times, pair by pair {:.2} (at most 1.3)\n",
        append.as_secs_f64() / bare.as_secs_f64(),
        median(ratios) as f64 / 1_000_000.0,
    );
}

fn median<T: Ord + Copy>(mut of: Vec<T>) -> T {
    of.sort_unstable();
    of[of.len() / 2]
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

/// The fold of the 100,000 records of a long run in memory.
#[divan::bench(sample_count = 10)]
fn fold_run(bencher: Bencher<'_, '_>) {
    let records = run_records();
    bencher.bench_local(|| {
        let state = RunState::fold(black_box(&records)).expect("legal");
        state.map(|state| state.seq)
    });
}

/// The same from the disk: read, checked and folded.
#[divan::bench(sample_count = 10)]
fn read_and_fold_run(bencher: Bencher<'_, '_>) {
    let dir = dir();
    let path = dir.path().join("journal.jsonl");
    journal_of(&path, &run_records());
    bencher.bench_local(|| {
        let opened = journal::read::<RunEvent>(&RealDisk, &path, 1).expect("whole");
        let state = RunState::fold(&opened.records).expect("legal");
        state.map(|state| state.seq)
    });
}
