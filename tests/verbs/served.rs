//! What `ronde serve` goes by when a trigger comes due: the files of that moment.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use super::a_loop;
use crate::bench;

const EVERY: &str = "[[trigger]]\nevery = \"1s\"\n";

fn kind(record: &Value) -> &str {
    record["event"]["type"].as_str().expect("a type")
}

#[test]
fn an_edited_loop_fires_as_it_is_and_a_deleted_one_not_at_all() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n")]);
    let with = |word: &str| {
        format!(
            "{EVERY}[worker]\ncommand = [\"sh\", \"-c\", \"echo {word} > out\"]\n[[check]]\nrun = \"test -e out\"\n"
        )
    };
    let file = a_loop(&root, "it", &with("before"));
    let mut serve = bench.start(["serve".as_ref(), root.as_os_str()]);
    serve.wait_for("serving");
    let done = |records: &[Value], many: usize| {
        let rested = |record: &&Value| kind(record) == "run_rested";
        records.iter().filter(rested).count() >= many
    };
    bench.wait_for_home(|records| done(records, 1));
    a_loop(&root, "it", &with("after"));
    let registered = |records: &[Value]| {
        records
            .iter()
            .filter(|record| kind(record) == "loop_registered")
            .count()
    };
    bench.wait_for_home(|records| registered(records) == 2);
    // A file that is wrong leaves the loop as it was.
    a_loop(&root, "it", "nonsense = 1\n");
    let runs = bench.lines(["runs", "--json"]).len();
    bench.wait_for_home(|records| done(records, runs + 1));
    fs::remove_file(&file).expect("a file");
    bench.wait_for_home(|records| records.iter().any(|record| kind(record) == "loop_removed"));
    serve.signal(Signal::TERM);
    assert_eq!(serve.end().0, Some(0));
    let newest = bench.lines(["runs", "--json"]).remove(0);
    let branch = newest["branch"].as_str().expect("a branch");
    let out = ronde_tests::git(&root, &["show", &format!("{branch}:out")]);
    assert_eq!(out, "after");
}

#[test]
fn a_loop_that_cannot_have_what_it_asks_for_is_skipped_with_the_reason() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n")]);
    let lacking = "[worker]\ncommand = [\"no-such-agent\"]\n[[check]]\nrun = \"true\"\n";
    a_loop(&root, "it", &format!("{EVERY}{lacking}"));
    let mut serve = bench.start(["serve".as_ref(), root.as_os_str()]);
    serve.wait_for("serving");
    bench.wait_for_home(|records| {
        records.iter().any(|record| {
            let reason = &record["event"]["reason"];
            let why = reason["reason"].as_str().unwrap_or_default();
            reason["kind"] == "unable" && why.contains("no-such-agent")
        })
    });
    serve.signal(Signal::TERM);
    assert_eq!(serve.end().0, Some(0));
    assert!(bench.lines(["runs", "--json"]).is_empty());
}
