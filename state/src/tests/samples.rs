//! A journal of each released format is kept and must load for ever. The samples hold every variant of
//! both vocabularies.

use std::{collections::BTreeSet, fs, io::Write as _, path::PathBuf};

use jiff::Timestamp;
use ronde_protocol::{
    Amount, CallId, CommitId, Digest, MicroUsd, RunId, TreeId, Usage, WorkerName,
    firing::{Cause, Firing, SkipReason},
    handoff::{Answer, Item, Reason},
    outcome::{Exit, Limit, Outcome},
    verdict::{CheckResult, Finding, Verdict},
    work::{AttemptEnd, EndReason, ToolOutcome, TurnEvent},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    conformance::{at, firing, item, loop_name, project},
    event::{HomeEvent, QueueItem, RunEvent, Scope, Step, VERSION, WakeReason},
    home::Home,
    journal::Record,
    line,
    run::RunState,
};

fn usd(micro: u64) -> MicroUsd {
    MicroUsd(micro)
}

fn call(n: u32) -> CallId {
    CallId::of(&firing("a").run, 1, &WorkerName::main(), n, 1)
}

fn scopes() -> Vec<Scope> {
    let day = "2026-06-01".to_owned();
    vec![
        Scope::Run {
            run: firing("a").run,
        },
        Scope::LoopDay {
            project: project(),
            loop_name: loop_name(),
            day: day.clone(),
        },
        Scope::ProjectDay {
            project: project(),
            day,
        },
    ]
}

fn caused(nonce: &str, cause: Cause) -> Firing {
    Firing {
        cause,
        ..firing(nonce)
    }
}

/// A legal life of a home with every event in it.
fn home_events() -> Vec<HomeEvent> {
    let run = || firing("a").run;
    let trigger = || Digest::of("30 2 * * *");
    let rested = |outcome, item| HomeEvent::RunRested {
        run: run(),
        outcome,
        changed: outcome == Outcome::Done,
        reason: "the same verdict twice".to_owned(),
        branch: Some("ronde/nightly".to_owned()),
        item,
    };
    let skipped = |second, reason| HomeEvent::SlotsSkipped {
        project: project(),
        loop_name: loop_name(),
        trigger: trigger(),
        slot: "p/nightly/t/1".into(),
        first: at(second),
        last: at(second + 60),
        count: 2,
        reason,
    };
    let task = |id: &str| QueueItem {
        queue: "review".to_owned(),
        class: "big".to_owned(),
        id: id.to_owned(),
        payload: "{\"pull\":7}".to_owned(),
    };
    let fired = |firing, trigger| HomeEvent::SlotFired {
        firing,
        root: "/p".into(),
        trigger,
    };
    let asked = |key: &str, blocks| Item {
        branch: Some("ronde/nightly".to_owned()),
        action: Some(Digest::of("git push")),
        expires: Some(at(9_000)),
        blocks,
        ..item(key)
    };
    let mut events = vec![
        HomeEvent::Opened {
            epoch: 1,
            pid: 4711,
        },
        HomeEvent::ProjectOpened {
            project: project(),
            root: "/p".into(),
        },
        HomeEvent::LoopRegistered {
            project: project(),
            loop_name: loop_name(),
            file: "/p/.ronde/loops/nightly.toml".into(),
            definition: firing("a").definition,
        },
        HomeEvent::Watermark {
            project: project(),
            loop_name: loop_name(),
            trigger: trigger(),
            upto: at(0),
        },
        fired(caused("a", Cause::Cron { trigger: 0 }), Some(trigger())),
        fired(
            caused("b", Cause::Every { trigger: 1 }),
            Some(Digest::of("1h")),
        ),
        fired(caused("c", Cause::Person), None),
        skipped(100, SkipReason::Overlap { run: run() }),
        skipped(300, SkipReason::Missed),
        skipped(
            350,
            SkipReason::Unable {
                reason: "no such program".to_owned(),
            },
        ),
        skipped(
            500,
            SkipReason::Superseded {
                by: "p/nightly/t/9".into(),
            },
        ),
        HomeEvent::LeaseTaken {
            run: run(),
            holder: "4711".to_owned(),
            epoch: 1,
            until: at(60),
        },
        HomeEvent::LeaseExtended {
            run: run(),
            epoch: 1,
            until: at(120),
        },
        HomeEvent::Reserved {
            call: call(1),
            amount: Amount {
                tokens: 1_000,
                cost: usd(250),
            },
            scopes: scopes(),
        },
        HomeEvent::Settled {
            call: call(1),
            amount: Amount {
                tokens: 900,
                cost: usd(200),
            },
        },
        HomeEvent::Reserved {
            call: call(2),
            amount: Amount::ZERO,
            scopes: Vec::new(),
        },
        HomeEvent::ItemOpened {
            number: 1,
            item: asked("a/1", true),
        },
        HomeEvent::NotifyStarted {
            number: 1,
            channel: "mail".to_owned(),
        },
        HomeEvent::NotifyEnded {
            number: 1,
            channel: "mail".to_owned(),
            error: None,
        },
        HomeEvent::NotifyStarted {
            number: 1,
            channel: "chat".to_owned(),
        },
        HomeEvent::NotifyEnded {
            number: 1,
            channel: "chat".to_owned(),
            error: Some("exit code 1".to_owned()),
        },
        HomeEvent::TimerSet {
            id: "inbox/1".to_owned(),
            at: at(9_000),
        },
        rested(Outcome::HandedOff, Some(1)),
        HomeEvent::LeaseReleased {
            run: run(),
            epoch: 1,
        },
        HomeEvent::ItemResolved {
            number: 1,
            answer: Answer::Text {
                text: "mind the \"quotes\"\n\u{e9}\u{1f600}".to_owned(),
            },
        },
        HomeEvent::TimerCleared {
            id: "inbox/1".to_owned(),
        },
        HomeEvent::RunWoken { run: run() },
    ];
    let answers = [
        Answer::Approve,
        Answer::Deny,
        Answer::Close,
        Answer::Expired,
    ];
    for (number, (reason, answer)) in (2..).zip(Reason::ALL.into_iter().zip(answers)) {
        let item = Item {
            reason,
            ..asked(&format!("a/{number}"), false)
        };
        events.push(HomeEvent::ItemOpened { number, item });
        events.push(HomeEvent::ItemResolved { number, answer });
    }
    for outcome in [Outcome::Interrupted, Outcome::Done] {
        events.push(rested(outcome, None));
    }
    events.extend([
        HomeEvent::Pushed { task: task("1") },
        HomeEvent::Pushed { task: task("2") },
        HomeEvent::Pulled {
            queue: "review".to_owned(),
            id: "1".to_owned(),
            holder: "4711".to_owned(),
            until: at(60),
        },
        HomeEvent::Acked {
            queue: "review".to_owned(),
            id: "1".to_owned(),
        },
        HomeEvent::LoopRemoved {
            project: project(),
            loop_name: loop_name(),
        },
        HomeEvent::Opened {
            epoch: 2,
            pid: 4712,
        },
    ]);
    events
}

/// Every variant, by name: a new one does not compile until it is here, and then is missing from the
/// samples until it is there.
macro_rules! variants {
    ($kind:ident: $($name:ident)+) => {
        (
            |event: &$kind| match event { $($kind::$name { .. } => stringify!($name)),+ },
            [$(stringify!($name)),+],
        )
    };
}

fn tree(n: u8) -> TreeId {
    format!("{n:040}").into()
}

fn verdict(n: u8, finding: Finding, exit: Exit) -> Verdict {
    Verdict {
        finding,
        tree: tree(n),
        base: CommitId::from("b".repeat(40)),
        definition: Digest::of("definition"),
        environment: Digest::of("PATH=/bin"),
        checks: vec![CheckResult {
            name: "tests".into(),
            run: "cargo test".to_owned(),
            finding,
            exit,
            duration_ms: 1_234,
            tail: "1 failed\n".to_owned(),
            output: Some(ronde_protocol::ArtefactId::of("output")),
            passes: Some((1, 3)),
        }],
        protected: Vec::new(),
    }
}

/// A legal life of a run with every event in it.
fn run_events() -> Vec<RunEvent> {
    let worker = WorkerName::main;
    let started = |step| RunEvent::Started { step };
    let turn = |attempt, event| RunEvent::Turn {
        attempt,
        worker: worker(),
        event,
    };
    let mut events = vec![
        RunEvent::Fired {
            firing: firing("a"),
            root: "/p".into(),
        },
        started(Step::Prepare),
        RunEvent::StepFailed {
            step: Step::Prepare,
            error: "no space".to_owned(),
        },
        RunEvent::Interrupted,
        RunEvent::Woken {
            epoch: 2,
            reason: WakeReason::Continued,
        },
        started(Step::Prepare),
        RunEvent::Prepared {
            base: CommitId::from("b".repeat(40)),
            tree: tree(0),
            branch: Some("main".to_owned()),
        },
        started(Step::Verify { attempt: 0 }),
        RunEvent::StepStopped {
            step: Step::Verify { attempt: 0 },
        },
        started(Step::Verify { attempt: 0 }),
        RunEvent::VerdictGiven {
            attempt: 0,
            verdict: verdict(0, Finding::Fail, Exit::Code { code: 101 }),
        },
    ];
    let ends = [
        (EndReason::Finished, None, Exit::Code { code: 1 }),
        (
            EndReason::Limit {
                limit: Limit::Iterations,
            },
            None,
            Exit::Signal { signal: 11 },
        ),
        (EndReason::Stopped, Some(Exit::Stopped), Exit::TimedOut),
        (
            EndReason::Failed {
                error: "exit code 1".to_owned(),
            },
            Some(Exit::Code { code: 1 }),
            Exit::NotStarted {
                error: "no such program".to_owned(),
            },
        ),
        (
            EndReason::Unstartable {
                error: "no such program".to_owned(),
            },
            Some(Exit::NotStarted {
                error: "no such program".to_owned(),
            }),
            Exit::Unknown {
                error: "the keeper is gone".to_owned(),
            },
        ),
    ];
    for (attempt, (reason, exit, check)) in (1..).zip(ends) {
        let n = u8::try_from(attempt).unwrap();
        let broken = !matches!(check, Exit::Code { .. } | Exit::Signal { .. });
        let finding = if broken {
            Finding::Unknown
        } else {
            Finding::Fail
        };
        events.extend([
            started(Step::Attempt {
                attempt,
                worker: worker(),
            }),
            turn(
                attempt,
                TurnEvent::CallStarted {
                    call: call(attempt),
                    model: "scripted/one".to_owned(),
                    reserved: Amount {
                        tokens: 100,
                        cost: usd(10),
                    },
                },
            ),
            turn(
                attempt,
                TurnEvent::CallEnded {
                    call: call(attempt),
                    usage: Usage {
                        input: 1,
                        cached: 2,
                        cache_write: 3,
                        output: 4,
                        cost: usd(5),
                    },
                    response: Some(ronde_protocol::ArtefactId::of("response")),
                    error: None,
                },
            ),
            turn(
                attempt,
                TurnEvent::ToolStarted {
                    id: "t1".to_owned(),
                    tool: "shell".to_owned(),
                    summary: "cargo test".to_owned(),
                },
            ),
            turn(
                attempt,
                TurnEvent::ToolEnded {
                    id: "t1".to_owned(),
                    outcome: [
                        ToolOutcome::Done,
                        ToolOutcome::Failed,
                        ToolOutcome::Refused,
                        ToolOutcome::Unknown,
                    ][usize::from(n) % 4],
                },
            ),
            RunEvent::AttemptEnded {
                attempt,
                worker: worker(),
                end: AttemptEnd {
                    reason,
                    claim: "it is done".to_owned(),
                    iterations: 1,
                    usage: Usage::default(),
                    metered: true,
                    exit,
                    output: None,
                },
            },
            started(Step::Snapshot {
                attempt,
                worker: worker(),
            }),
            RunEvent::Snapshot {
                attempt,
                worker: worker(),
                tree: tree(n),
                changed: vec!["src/lib.rs".to_owned()],
            },
            started(Step::Verify { attempt }),
            RunEvent::VerdictGiven {
                attempt,
                verdict: verdict(n, finding, check),
            },
        ]);
    }
    let asked = |question, reason| started(Step::Ask { question, reason });
    events.extend([
        asked(1, Reason::CheckBroken),
        RunEvent::Waiting {
            item: 1,
            reason: Reason::CheckBroken,
            branch: None,
        },
        RunEvent::Answered {
            item: 1,
            answer: Answer::Approve,
        },
        RunEvent::Woken {
            epoch: 2,
            reason: WakeReason::Answered,
        },
        started(Step::Verify { attempt: 5 }),
        RunEvent::VerdictGiven {
            attempt: 5,
            verdict: verdict(5, Finding::Pass, Exit::Code { code: 0 }),
        },
        started(Step::Deliver),
        RunEvent::Woken {
            epoch: 3,
            reason: WakeReason::Recovered,
        },
        started(Step::Deliver),
        RunEvent::Delivered {
            branch: Some("ronde/nightly".to_owned()),
            commit: Some(CommitId::from("c".repeat(40))),
        },
        RunEvent::TimeUp,
        asked(2, Reason::Budget),
        RunEvent::Noticed {
            item: 2,
            reason: Reason::Budget,
            branch: Some("ronde/nightly".to_owned()),
        },
        RunEvent::StopRequested,
        RunEvent::Ended {
            outcome: Outcome::Stopped,
            changed: true,
            reason: "its time is used up".to_owned(),
        },
    ]);
    events
}

fn home_records() -> Vec<Record<HomeEvent>> {
    let mut epoch = 0;
    let events = home_events().into_iter().zip(1..);
    let record = |(event, seq)| {
        if let HomeEvent::Opened { epoch: newest, .. } = &event {
            epoch = *newest;
        }
        Record::new(seq, epoch, stamp(seq), event)
    };
    events.map(record).collect()
}

fn run_records() -> Vec<Record<RunEvent>> {
    let mut epoch = 1;
    let events = run_events().into_iter().zip(1..);
    let record = |(event, seq)| {
        if let RunEvent::Woken { epoch: newest, .. } = &event {
            epoch = *newest;
        }
        Record::new(seq, epoch, stamp(seq), event)
    };
    events.map(record).collect()
}

fn stamp(seq: u64) -> Timestamp {
    at(i64::try_from(seq).unwrap()) + jiff::SignedDuration::from_nanos(120_000_000)
}

/// Records as the sample has them: the first two of a home are one commit.
fn written<E: Serialize>(records: &[Record<E>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        let group = if record.seq == 2 { 1 } else { record.seq };
        line::encode(record, group, &mut bytes).unwrap();
    }
    bytes
}

fn path(version: u16, name: &str) -> PathBuf {
    let samples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    samples.join(format!("v{version}")).join(name)
}

fn sample<E: DeserializeOwned>(version: u16, name: &str) -> Vec<Record<E>> {
    let path = path(version, name);
    let scan = line::scan(&fs::read(&path).unwrap(), &path, 1).unwrap();
    assert_eq!(scan.torn, None);
    scan.records
}

fn covers<E>(records: &[Record<E>], name: impl Fn(&E) -> &'static str, all: &[&str]) {
    let found: BTreeSet<_> = records.iter().map(|record| name(&record.event)).collect();
    let missing: Vec<_> = all.iter().filter(|name| !found.contains(**name)).collect();
    assert!(missing.is_empty(), "the sample has no {missing:?}");
}

#[test]
fn a_home_of_format_1_loads() {
    let records = sample::<HomeEvent>(1, "home.jsonl");
    assert_eq!(records, home_records());
    let home = Home::fold(&records).unwrap();
    assert_eq!(home.runs().len(), 3);
    let run: &RunId = &firing("a").run;
    assert_eq!(home.run(run).unwrap().outcome, Some(Outcome::Done));
    assert_eq!(
        home.ledger().spent(&scopes()[2]),
        Amount {
            tokens: 900,
            cost: usd(200)
        }
    );
    assert_eq!(home.inbox().open().count(), 0);
    assert_eq!(home.epoch(), 2);
    let (name, all) = variants!(HomeEvent:
        Opened ProjectOpened LoopRegistered LoopRemoved Watermark SlotFired SlotsSkipped RunRested
        RunWoken Reserved Settled ItemOpened ItemResolved NotifyStarted NotifyEnded LeaseTaken
        LeaseExtended LeaseReleased TimerSet TimerCleared Pushed Pulled Acked);
    covers(&records, name, &all);
}

#[test]
fn a_run_of_format_1_loads() {
    let records = sample::<RunEvent>(1, "run.jsonl");
    assert_eq!(records, run_records());
    let state = RunState::fold(&records).unwrap().unwrap();
    assert_eq!(state.outcome(), Some(Outcome::Stopped));
    assert_eq!(state.attempts.len(), 5);
    let (name, all) = variants!(RunEvent:
        Fired Woken Started StepFailed StepStopped Prepared Turn AttemptEnded Snapshot VerdictGiven Delivered
        Waiting Noticed Answered TimeUp StopRequested Interrupted Ended);
    covers(&records, name, &all);
}

/// Not the old ones: they are what programs of their time wrote.
#[test]
#[ignore = "writes the samples of a new format, once"]
fn write_the_samples_of_this_format() {
    fs::create_dir_all(path(VERSION, "")).unwrap();
    let samples = [
        ("home.jsonl", written(&home_records())),
        ("run.jsonl", written(&run_records())),
    ];
    for (name, bytes) in samples {
        let mut file = fs::File::create_new(path(VERSION, name)).unwrap();
        file.write_all(&bytes).unwrap();
    }
}
