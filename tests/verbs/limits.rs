//! Every limit, and what comes of a run that meets it.

use ronde_tests::{git, write};
use serde_json::json;

use super::{a_loop, run, scripted};
use crate::bench;

/// A worker that does something else each time.
const BUSY: &str = "[worker]\ncommand = [\"sh\", \"-c\", \"echo x >> tried; echo done, I say\"]\n[[check]]\nrun = \"echo not yet; false\"\n";

#[test]
fn what_is_green_already_costs_no_worker() {
    let bench = bench();
    let root = bench.project("project", &[("out", "x\n")]);
    let mark = bench.path("mark");
    let worker = format!(
        "[worker]\ncommand = [\"sh\", \"-c\", \"echo x > '{}'\"]\nsandbox = \"full\"\n",
        mark.display()
    );
    let check = "[[check]]\nrun = \"test -e out\"\n";
    let file = a_loop(
        &root,
        "green",
        &format!("skip_if_green = true\n{worker}{check}"),
    );
    let ended = run(&bench, &file);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let last = ended.run_ended();
    assert_eq!(
        (
            &last["outcome"],
            &last["changed"],
            &last["branch"],
            &last["attempts"]
        ),
        (&json!("done"), &json!(false), &json!(null), &json!(0))
    );
    assert!(!mark.exists(), "the worker has worked");
    assert_eq!(git(&root, &["branch", "--list", "ronde/*"]), "");
    // Without it the worker works, and finds nothing to do.
    let file = a_loop(&root, "green", &format!("{worker}{check}"));
    let ended = run(&bench, &file);
    assert_eq!(
        (ended.code, &ended.run_ended()["changed"]),
        (Some(0), &json!(false)),
        "{ended:?}"
    );
    assert!(mark.exists());
    assert_eq!(git(&root, &["branch", "--list", "ronde/*"]), "");
}

#[test]
fn attempts_used_up_come_to_a_person_with_the_work_so_far() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n")]);
    let file = a_loop(&root, "red", &format!("{BUSY}[budget]\nattempts = 2\n"));
    let ended = run(&bench, &file);
    assert_eq!(ended.code, Some(20), "{ended:?}");
    let last = ended.run_ended();
    assert_eq!(
        (&last["outcome"], &last["attempts"]),
        (&json!("handed_off"), &json!(2))
    );
    let branch = last["branch"].as_str().expect("a branch");
    assert_eq!(git(&root, &["show", &format!("{branch}:tried")]), "x\nx");
    let item = bench.lines(["inbox", "--json"]).remove(0);
    assert_eq!(
        (&item["reason"], &item["branch"]),
        (&json!("stuck"), &json!(branch))
    );
    let shown = bench.ronde(["inbox", "show", "1"]).stdout;
    for part in [
        "not yet",
        "attempt 1",
        "attempt 2",
        "claimed: done, I say",
        branch,
    ] {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
    // An answer buys attempts anew, and is in their prompt.
    let answered = bench.ronde(["answer", "1", "look at README", "--json"]);
    assert_eq!(answered.code, Some(20), "{answered:?}");
    assert_eq!(answered.run_ended()["attempts"], 4);
}

#[test]
fn a_goal_reached_on_the_last_attempt_is_done() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n")]);
    let file = a_loop(
        &root,
        "last",
        &BUSY.replace("echo not yet; false", "test $(wc -l < tried) = 2"),
    );
    let text = std::fs::read_to_string(&file).expect("a file") + "[budget]\nattempts = 2\n";
    std::fs::write(&file, text).expect("a file");
    let ended = run(&bench, &file);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.run_ended()["attempts"], 2);
}

#[test]
fn the_same_tree_and_verdict_twice_is_stuck() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n")]);
    let file = a_loop(
        &root,
        "same",
        "[worker]\ncommand = [\"true\"]\n[[check]]\nrun = \"false\"\n[budget]\nattempts = 9\n",
    );
    let ended = run(&bench, &file);
    assert_eq!(ended.code, Some(20), "{ended:?}");
    assert_eq!(ended.run_ended()["attempts"], 2);
}

#[test]
fn time_used_up_stops_the_run_and_a_person_is_told() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n")]);
    let file = a_loop(
        &root,
        "slow",
        "[worker]\ncommand = [\"sleep\", \"1000\"]\n[[check]]\nrun = \"false\"\n[budget]\ntime = \"1s\"\n",
    );
    let ended = run(&bench, &file);
    assert_eq!(ended.code, Some(21), "{ended:?}");
    let last = ended.run_ended();
    assert_eq!(last["outcome"], "stopped");
    assert!(
        last["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("time")),
        "{last}"
    );
    let item = bench.lines(["inbox", "--json"]).remove(0);
    assert_eq!(
        (&item["reason"], &item["outcome"], &item["item"]),
        (&json!("budget"), &json!("stopped"), &last["item"])
    );
    assert_eq!(bench.leftovers(), Vec::<String>::new());
    // It is a notice: closing it is all there is to do.
    let closed = bench.ronde(["close", "1"]);
    assert_eq!(closed.code, Some(0), "{closed:?}");
    assert!(bench.lines(["inbox", "--json"]).is_empty());
}

#[test]
fn tokens_used_up_stop_the_run_before_they_are_spent() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n")]);
    let call = json!({"tools": [{"name": "shell", "input": {"command": "echo x >> tried"}}], "usage": {"input": 900, "output": 2000}});
    let script = json!({"attempts": [[call, call, call, call, call, call, call, call]]});
    let worker = scripted(&root, "session", &script, "");
    let file = a_loop(
        &root,
        "dear",
        &format!("{worker}[[check]]\nrun = \"false\"\n[budget]\ntokens = 9000\n"),
    );
    let ended = run(&bench, &file);
    assert_eq!(ended.code, Some(21), "{ended:?}");
    let last = ended.run_ended();
    assert_eq!(last["outcome"], "stopped");
    assert!(
        last["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("tokens")),
        "{last}"
    );
    let usage = &last["usage"];
    let spent: u64 = ["input", "cached", "cache_write", "output"]
        .iter()
        .filter_map(|kind| usage[kind].as_u64())
        .sum();
    assert!(spent > 0 && spent <= 9000, "{usage}");
}

#[test]
fn iterations_used_up_stop_the_run() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n")]);
    let file = a_loop(&root, "many", &format!("{BUSY}[budget]\niterations = 2\n"));
    let ended = run(&bench, &file);
    assert_eq!(ended.code, Some(21), "{ended:?}");
    let last = ended.run_ended();
    assert_eq!(last["iterations"], 2);
    assert!(
        last["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("iterations")),
        "{last}"
    );
}

/// Two runs of a day: what the first has spent is gone for the second.
#[test]
fn a_budget_of_a_day_is_for_all_its_runs() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n")]);
    let script = json!({"attempts": [[
        {"tools": [{"name": "write", "input": {"path": "out", "content": "x\n"}}], "usage": {"input": 900, "output": 1500}},
        {"text": "It is there.", "usage": {"input": 1500, "output": 1500}}
    ]]});
    let worker = scripted(&root, "session", &script, "");
    let check = "[[check]]\nrun = \"test -e out\"\n";
    let file = a_loop(
        &root,
        "daily",
        &format!("{worker}{check}[budget.day]\ntokens = 10000\n"),
    );
    let first = run(&bench, &file);
    assert_eq!(first.code, Some(0), "{first:?}");
    let second = run(&bench, &file);
    assert_eq!(second.code, Some(21), "{second:?}");
    let reason = second.run_ended()["reason"].to_string();
    assert!(reason.contains("tokens a day"), "{reason}");

    // All loops of a project have a day, too.
    write(
        &root,
        &[(".ronde/config.toml", "[budget.day]\ntokens = 10000\n")],
    );
    let other = a_loop(&root, "other", &format!("{worker}{check}"));
    let third = run(&bench, &other);
    assert_eq!(third.code, Some(21), "{third:?}");
}
