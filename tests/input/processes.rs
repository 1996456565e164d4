//! Workers and checks that do not behave: what they print, and how they refuse to end.

use std::path::{Path, PathBuf};

use ronde_tests::{Bench, Running, peak_memory, write};
use serde_json::Value;

use crate::bench;

/// Bytes that a worker or a check prints.
const MUCH: u64 = 200_000_000;
/// Bytes of memory that ronde may hold whatever they print.
const MEMORY: u64 = 150 << 20;

/// A project with a loop `it`, and the path of its file.
fn project(bench: &Bench, worker: &str, check: &str, tables: &str) -> PathBuf {
    let text = format!(
        "name = \"it\"\ngoal = \"out is there\"\n\
         [worker]\ncommand = [\"sh\", \"work.sh\"]\n\
         [[check]]\nname = \"it\"\nrun = \"sh check.sh\"\n{tables}"
    );
    let root = bench.project("project", &[("work.sh", worker), ("check.sh", check)]);
    write(&root, &[(".ronde/loops/it.toml", &text)]);
    root.join(".ronde/loops/it.toml")
}

fn start(bench: &Bench, file: &Path) -> Running {
    bench.start(["run".as_ref(), file.as_os_str(), "--json".as_ref()])
}

#[test]
fn output_that_is_no_text_is_kept_as_it_is() {
    let bench = bench();
    let print = r"printf 'a\377\376\000b\n\303('";
    let worker = format!("{print}; echo x > out");
    let check = format!("{print}; test -e out");
    let file = project(&bench, &worker, &check, "");
    let ended = bench.ronde(["run".as_ref(), file.as_os_str(), "--json".as_ref()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let run = ended.run_ended()["run"].as_str().expect("a run").to_owned();
    for of in [["--attempt", "1"], ["--check", "it"]] {
        let mut command = bench.command(["logs", &run]);
        let output = command.args(of).output().expect("it runs");
        assert_eq!(output.stdout, b"a\xff\xfe\x00b\n\xc3(", "{of:?}");
    }
}

#[test]
fn much_output_does_not_fill_the_memory() {
    let bench = bench();
    let print = format!("head -c {MUCH} /dev/zero | tr '\\0' x");
    let worker = format!("{print}; echo x > out");
    let check = format!("{print}; test -e out");
    let file = project(&bench, &worker, &check, "");
    let mut running = start(&bench, &file);
    let pid = running.pid();
    let (mut peak, mut last) = (0, String::new());
    while let Some(line) = running.line() {
        peak = peak.max(peak_memory(pid).unwrap_or(0));
        last = line;
    }
    eprintln!("ronde held {peak} bytes at most");
    assert!(peak > 0, "it was seen");
    assert!(peak < MEMORY, "ronde held {peak} bytes");
    let last: Value = serde_json::from_str(&last).expect("JSON");
    assert_eq!(last["outcome"], "done", "{last}");
    let run = last["run"].as_str().expect("a run");
    for of in [["--attempt", "1"], ["--check", "it"]] {
        let mut command = bench.command(["logs", run]);
        let output = command.args(of).output().expect("it runs");
        assert_eq!(output.stdout.len() as u64, MUCH, "{of:?}");
    }
}

const STUBBORN: &str = "trap '' TERM INT HUP; echo at work; while :; do sleep 1; done";

#[test]
fn a_worker_that_ignores_signals_ends_with_the_time() {
    let bench = bench();
    let file = project(&bench, STUBBORN, "true", "[budget]\ntime = \"1s\"\n");
    let ended = bench.ronde(["run".as_ref(), file.as_os_str(), "--json".as_ref()]);
    assert_eq!(bench.leftovers(), Vec::<String>::new());
    assert_eq!(
        ended.code,
        Some(0),
        "the checks hold, whatever the worker did: {ended:?}"
    );

    let file = project(&bench, STUBBORN, "false", "[budget]\ntime = \"1s\"\n");
    let ended = bench.ronde(["run".as_ref(), file.as_os_str(), "--json".as_ref()]);
    assert_eq!(bench.leftovers(), Vec::<String>::new());
    assert_eq!(ended.code, Some(21), "{ended:?}");
}

#[test]
fn a_worker_that_ignores_signals_ends_when_a_person_says() {
    let bench = bench();
    let file = project(&bench, STUBBORN, "true", "");
    let mut running = start(&bench, &file);
    let line = running.wait_for("\"progress\"");
    let event: Value = serde_json::from_str(&line).expect("JSON");
    let stopped = bench.ronde(["stop", event["run"].as_str().expect("a run"), "--json"]);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert_eq!(stopped.run_ended()["outcome"], "cancelled");
    assert_eq!(running.end().0, Some(22));
    assert_eq!(bench.leftovers(), Vec::<String>::new());
}

/// It leaves its session, its environment and its parent, and is found all the same.
#[test]
fn a_child_that_is_made_a_daemon_is_gone_with_its_worker() {
    let bench = bench();
    let name = bench.path("daemon").display().to_string();
    let worker = format!(
        "env -i PATH=\"$PATH\" setsid -f sh -c 'trap \"\" HUP TERM INT; echo up > out; while :; do sleep 1; done' '{name}' >/dev/null 2>&1 </dev/null\n\
         until test -s out; do sleep 0.1; done\n"
    );
    let file = project(&bench, &worker, "test -s out", "");
    let ended = bench.ronde(["run".as_ref(), file.as_os_str(), "--json".as_ref()]);
    assert_eq!(bench.leftovers(), Vec::<String>::new());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.run_ended()["changed"], true, "it was up: {ended:?}");
}

#[test]
fn a_check_that_hangs_is_unknown_and_a_person_hears_of_it() {
    let bench = bench();
    let check = format!(
        "trap '' TERM; echo hanging; while :; do sleep 1; done # {}",
        bench.path("x").display()
    );
    let file = project(&bench, "echo x > out", &check, "timeout = \"1s\"\n");
    let ended = bench.ronde(["run".as_ref(), file.as_os_str(), "--json".as_ref()]);
    assert_eq!(bench.leftovers(), Vec::<String>::new());
    assert_eq!(ended.code, Some(20), "{ended:?}");
    let verdicts: Vec<_> = ended
        .json()
        .into_iter()
        .filter(|event| event["event"] == "verdict")
        .collect();
    assert_eq!(verdicts.len(), 1, "it is not tried again and again");
    assert_eq!(verdicts[0]["finding"], "unknown");
    assert_eq!(verdicts[0]["checks"][0]["exit"]["kind"], "timed_out");
    let inbox = bench.lines(["inbox", "--json"]);
    assert_eq!(inbox[0]["reason"], "check-broken");
    let shown = bench.ronde(["inbox", "show", "1"]);
    assert!(
        shown.stdout.contains("hanging"),
        "the evidence is there: {shown:?}"
    );
    assert_eq!(ended.run_ended()["item"], inbox[0]["item"]);
}
