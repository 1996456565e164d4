//! Ten loops under `ronde serve`, which is killed again and again: every instant of every loop becomes one
//! run or is skipped for a reason, and every run ends.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use jiff::{SignedDuration, Timestamp};
use ronde_protocol::{Digest, LoopName, SlotId, firing::SkipReason, outcome::Outcome};
use ronde_state::{event::HomeEvent, local::LocalReader, run::RunState};
use ronde_tests::{Bench, end_of, git, write};
use rustix::process::Signal;
use serde_json::Value;

use super::{assert_paid, face, refs};
use crate::bench;

const LOOPS: usize = 10;

/// After how many records the process dies, one number for each of its lives.
const LIVES: [u64; 8] = [61, 17, 143, 90, 228, 33, 74, 118];

/// Most loops change something, in one attempt or two; two find nothing to do.
fn loop_file(number: usize) -> String {
    let (work, check) = match number {
        0 | 1 => ("true".to_owned(), "true".to_owned()),
        2 | 3 => (
            format!("test -e half-{number} && echo x > out-{number}; echo x > half-{number}"),
            format!("test -e out-{number}"),
        ),
        _ => (
            format!("echo x > out-{number}"),
            format!("test -e out-{number}"),
        ),
    };
    format!(
        r#"
name = "loop-{number}"
goal = "out-{number} is there"
[[trigger]]
every = "1s"
[worker]
command = ["sh", "-c", "{work}"]
[[check]]
run = "{check}"
"#
    )
}

fn project(bench: &Bench) -> PathBuf {
    let root = bench.project("project", &[("README", "ten loops\n")]);
    for number in 0..LOOPS {
        let file = format!(".ronde/loops/loop-{number}.toml");
        write(&root, &[(file.as_str(), loop_file(number).as_str())]);
    }
    git(&root, &["add", "-A"]);
    git(&root, &["commit", "-q", "-m", "loops"]);
    root
}

/// The home journal as typed records: when, and what.
fn events(records: &[Value]) -> Vec<HomeEvent> {
    records
        .iter()
        .map(|record| serde_json::from_value(record["event"].clone()).expect("a home event"))
        .collect()
}

#[test]
fn ten_loops_lose_nothing_and_do_nothing_twice() {
    let bench = bench();
    let root = project(&bench);
    let before = face(&root);
    let serve = ["serve", root.to_str().expect("a path")];
    for records in LIVES {
        let mut command = bench.command(serve);
        let ended = end_of(command.env("RONDE_TEST_KILL_AFTER", records.to_string()));
        assert_eq!(ended.code, None, "it was to die: {ended:?}");
        assert_eq!(ended.stderr, "", "nothing went wrong before");
        bench.wait_until_nothing_is_left();
    }

    // The last life ends in peace, after each loop came due in it.
    let mut last = bench.start(serve);
    last.wait_for("serving");
    bench.wait_for_home(|records| {
        let opened = records
            .iter()
            .rposition(|record| record["event"]["type"] == "opened")
            .expect("a home begins with it");
        let came: BTreeSet<_> = events(&records[opened..])
            .into_iter()
            .filter_map(|event| match event {
                HomeEvent::SlotFired { firing, .. } => Some(firing.loop_name),
                _ => None,
            })
            .collect();
        came.len() == LOOPS
    });
    last.signal(Signal::TERM);
    assert_eq!(last.end().0, Some(0));
    bench.wait_until_nothing_is_left();

    let fired = accounted(&bench.home_journal());
    one_at_a_time(&events(&bench.home_journal()));

    // What rests goes on, and then every run has ended.
    let mut changed = vec!["refs/heads/main".to_owned()];
    let home = LocalReader::open(&bench.home()).expect("a home").home();
    assert_eq!(home.runs().count(), fired);
    for run in home.runs() {
        match run.outcome {
            Some(Outcome::Done) => {}
            Some(Outcome::Interrupted) => {
                let ended = bench.ronde(["continue", run.run.as_str(), "--json"]);
                assert_eq!(ended.code, Some(0), "{ended:?}");
            }
            other => panic!("{} stands at {other:?}: {}", run.run, run.reason),
        }
    }
    bench.wait_until_nothing_is_left();
    let reader = LocalReader::open(&bench.home()).expect("a home");
    for run in reader.home().runs() {
        assert_eq!(run.outcome, Some(Outcome::Done), "{run:?}");
        let records = reader.read_run(&run.run, 1).expect("a journal");
        let state = RunState::fold(&records)
            .expect("it folds")
            .expect("the run has begun");
        let end = state.ended.expect("the run has ended");
        let idle = ["loop-0", "loop-1"].contains(&run.loop_name.as_str());
        assert_eq!((end.outcome, end.changed), (Outcome::Done, !idle));
        let attempts = match run.loop_name.as_str() {
            "loop-2" | "loop-3" => 2,
            _ => 1,
        };
        assert_eq!(state.attempts.len(), attempts, "{}", run.run);
        if end.changed {
            changed.push(format!("refs/heads/ronde/{}", run.run));
        }
    }
    changed.sort();
    assert_eq!(refs(&root), changed, "one branch for each result");
    assert_eq!(face(&root), before, "the repository is touched");
    assert_paid(&bench);
}

/// Every instant of every loop, from its registration to the last one that came, is there once. Gives the
/// number of runs.
fn accounted(records: &[Value]) -> usize {
    let second = SignedDuration::from_secs(1);
    let mut begun: BTreeMap<(LoopName, Digest), Timestamp> = BTreeMap::new();
    let mut came: BTreeMap<(LoopName, Digest), Vec<Timestamp>> = BTreeMap::new();
    let mut slots: BTreeMap<SlotId, Timestamp> = BTreeMap::new();
    let mut fired = BTreeSet::new();
    let mut instead = Vec::new();
    for event in events(records) {
        match event {
            HomeEvent::Watermark {
                loop_name,
                trigger,
                upto,
                ..
            } => {
                let again = begun.insert((loop_name, trigger), upto);
                assert_eq!(again, None, "a trigger begins once");
            }
            HomeEvent::SlotFired {
                firing,
                trigger: Some(trigger),
                ..
            } => {
                assert_eq!(slots.insert(firing.slot, firing.due), None, "fired twice");
                assert!(fired.insert(firing.run), "one run for one slot");
                let of = came.entry((firing.loop_name, trigger)).or_default();
                of.push(firing.due);
            }
            HomeEvent::SlotsSkipped {
                loop_name,
                trigger,
                slot,
                first,
                last,
                count,
                reason,
                ..
            } => {
                match reason {
                    SkipReason::Overlap { run } => {
                        assert_eq!(count, 1);
                        assert!(fired.contains(&run), "{run} is to blame and never was");
                    }
                    SkipReason::Superseded { by } => instead.push(by),
                    SkipReason::Missed => panic!("12 hours have not passed"),
                    SkipReason::Unable { reason } => panic!("{reason}"),
                }
                assert_eq!(slots.insert(slot, first), None, "skipped and fired");
                let of = came.entry((loop_name, trigger)).or_default();
                let instants: Vec<_> = std::iter::successors(Some(first), |at| Some(*at + second))
                    .take_while(|at| *at <= last)
                    .collect();
                assert_eq!(instants.len() as u64, count);
                of.extend(instants);
            }
            _ => {}
        }
    }
    assert_eq!(begun.len(), LOOPS);
    for (trigger, from) in begun {
        let mut instants = came.remove(&trigger).expect("each loop came due");
        instants.sort();
        let expected: Vec<_> = std::iter::successors(Some(from + second), |at| Some(*at + second))
            .take(instants.len())
            .collect();
        assert_eq!(instants, expected, "instants of {}", trigger.0);
    }
    assert!(came.is_empty());
    for by in instead {
        assert!(slots.contains_key(&by), "{by} was to come instead");
    }
    fired.len()
}

/// No two runs of a loop are at work together.
fn one_at_a_time(events: &[HomeEvent]) {
    let mut loops = BTreeMap::new();
    let mut at_work = BTreeMap::new();
    for event in events {
        match event {
            HomeEvent::SlotFired { firing, .. } => {
                loops.insert(&firing.run, &firing.loop_name);
                let busy = at_work.insert(&firing.loop_name, &firing.run);
                assert_eq!(busy, None, "{} begins beside it", firing.run);
            }
            HomeEvent::RunRested { run, .. } => {
                at_work.remove(loops[run]);
            }
            HomeEvent::RunWoken { run } => {
                let busy = at_work.insert(loops[run], run);
                assert_eq!(busy, None, "{run} goes on beside it");
            }
            _ => {}
        }
    }
}
