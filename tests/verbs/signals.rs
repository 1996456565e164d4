//! How runs are left, ended and gone on with, and what happens where two commands meet.

use ronde_tests::git;
use rustix::process::Signal;
use serde_json::Value;

use super::{GREEN, a_loop, run, run_of, waits_for};
use crate::bench;

#[test]
fn a_second_run_goes_through_the_process_that_owns_the_home() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n")]);
    let go = bench.path("go");
    let slow = a_loop(&root, "slow", &waits_for(&go));
    let green = a_loop(&root, "green", GREEN);
    let mut first = bench.start(["run".as_ref(), slow.as_os_str(), "--json".as_ref()]);
    first.wait_for("\"progress\"");
    let second = run(&bench, &green);
    assert_eq!(second.code, Some(0), "{second:?}");
    assert_eq!(second.run_ended()["outcome"], "done");
    std::fs::write(&go, "").expect("a file");
    assert_eq!(first.end().0, Some(0));
    let runs = bench.lines(["runs", "--json"]);
    assert_eq!(runs.len(), 2);
    assert!(runs.iter().all(|run| run["outcome"] == "done"), "{runs:?}");
    let opened = bench
        .home_journal()
        .iter()
        .filter(|record| record["event"]["type"] == "opened")
        .count();
    assert_eq!(opened, 1, "the home had one owner");
}

/// The owner ends its own run first: it stays for the other's.
#[test]
fn the_owner_waits_for_runs_that_others_started() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n")]);
    let (first_go, second_go) = (bench.path("first"), bench.path("second"));
    let first = a_loop(&root, "first", &waits_for(&first_go));
    let second = a_loop(&root, "second", &waits_for(&second_go));
    let mut owner = bench.start(["run".as_ref(), first.as_os_str(), "--json".as_ref()]);
    owner.wait_for("\"progress\"");
    let mut guest = bench.start(["run".as_ref(), second.as_os_str(), "--json".as_ref()]);
    guest.wait_for("\"progress\"");
    std::fs::write(&first_go, "").expect("a file");
    owner.wait_for("\"run_ended\"");
    std::fs::write(&second_go, "").expect("a file");
    assert_eq!(guest.end().0, Some(0));
    assert_eq!(owner.end().0, Some(0));
}

#[test]
fn stop_ends_a_run_for_good() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n")]);
    let file = a_loop(&root, "slow", &waits_for(&bench.path("go")));
    let mut running = bench.start(["run".as_ref(), file.as_os_str(), "--json".as_ref()]);
    let id = run_of(&running.wait_for("\"progress\""));
    let stopped = bench.ronde(["stop", &id, "--json"]);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    let (code, lines) = running.end();
    assert_eq!(code, Some(22));
    let last: Value = serde_json::from_str(lines.last().expect("a line")).expect("JSON");
    assert_eq!(
        (&last["event"], &last["outcome"]),
        (&"run_ended".into(), &"cancelled".into())
    );
    assert_eq!(bench.leftovers(), Vec::<String>::new());
    assert_eq!(git(&root, &["branch", "--list", "ronde/*"]), "");
    for verb in ["continue", "stop"] {
        let again = bench.ronde([verb, &id]);
        assert_eq!(again.code, Some(1), "{again:?}");
        assert!(again.stderr.contains("has ended: cancelled"), "{again:?}");
    }
}

#[test]
fn stop_ends_a_run_at_rest_and_closes_its_item() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n")]);
    let file = a_loop(
        &root,
        "red",
        "[worker]\ncommand = [\"true\"]\n[[check]]\nrun = \"false\"\n[budget]\nattempts = 1\n",
    );
    let ended = run(&bench, &file);
    assert_eq!(ended.code, Some(20), "{ended:?}");
    let id = ended.run_ended()["run"].as_str().expect("a run").to_owned();
    let refused = bench.ronde(["continue", &id]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.stderr.contains("item 1") && refused.stderr.contains("ronde answer 1"),
        "{refused:?}"
    );
    let stopped = bench.ronde(["stop", &id]);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert_eq!(bench.lines(["runs", "--json"])[0]["outcome"], "cancelled");
    assert!(bench.lines(["inbox", "--json"]).is_empty());
}

#[test]
fn one_interrupt_lets_the_run_rest_and_it_goes_on() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n")]);
    let go = bench.path("go");
    let file = a_loop(&root, "slow", &waits_for(&go));
    let mut running = bench.start(["run".as_ref(), file.as_os_str()]);
    running.wait_for("attempt 1");
    running.signal(Signal::INT);
    let (code, lines) = running.end();
    assert_eq!(code, Some(22), "{lines:?}");
    assert_eq!(bench.leftovers(), Vec::<String>::new());
    let row = bench.lines(["runs", "--json"]).remove(0);
    assert_eq!(row["outcome"], "interrupted");
    let id = row["run"].as_str().expect("a run");
    let hint = format!("ronde continue {id}");
    assert!(
        lines.iter().any(|line| line.contains(&hint)),
        "no {hint:?} in {lines:?}"
    );
    std::fs::write(&go, "").expect("a file");
    let ended = bench.ronde(["continue", id, "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.run_ended()["outcome"], "done");
    assert_eq!(bench.lines(["runs", "--json"]).len(), 1);
}

/// A worker that ignores the first signal makes the first Ctrl-C take a while: the second does not wait.
#[test]
fn two_interrupts_leave_at_once_and_nothing_is_lost() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n")]);
    let go = bench.path("go");
    let stubborn = waits_for(&go).replace("echo at work", "trap '' TERM; echo at work");
    let file = a_loop(&root, "slow", &stubborn);
    let errors = bench.path("errors");
    let mut command = bench.command(["run".as_ref(), file.as_os_str(), "--json".as_ref()]);
    command.stderr(std::fs::File::create(&errors).expect("a file"));
    let mut running = ronde_tests::start(&mut command);
    let id = run_of(&running.wait_for("\"progress\""));
    running.signal(Signal::INT);
    // The first is taken once the run's journal says so.
    bench.wait_for_run(&id, |records| {
        records
            .last()
            .is_some_and(|record| record["event"]["type"] == "interrupted")
    });
    running.signal(Signal::INT);
    let (code, _) = running.end();
    assert_eq!(code, Some(22));
    let told = std::fs::read_to_string(&errors).expect("a file");
    assert!(told.contains(&format!("ronde continue {id}")), "{told}");
    bench.wait_until_nothing_is_left();
    std::fs::write(&go, "").expect("a file");
    let ended = bench.ronde(["continue", &id, "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn detaching_needs_somebody_who_goes_on() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n")]);
    let file = a_loop(&root, "green", GREEN);
    let alone = bench.ronde(["run".as_ref(), file.as_os_str(), "--detach".as_ref()]);
    assert_eq!(alone.code, Some(1), "{alone:?}");
    assert!(alone.stderr.contains("ronde serve"), "{alone:?}");
    assert!(bench.lines(["runs", "--json"]).is_empty());

    let mut serve = bench.start(["serve".as_ref(), root.as_os_str()]);
    serve.wait_for("serving");
    let begun = bench.ronde(["run".as_ref(), file.as_os_str(), "--detach".as_ref()]);
    assert_eq!(begun.code, Some(0), "{begun:?}");
    let id = begun.stdout.trim();
    let followed = bench.ronde(["logs", id, "--follow", "--json"]);
    assert_eq!(followed.code, Some(0), "{followed:?}");
    assert_eq!(followed.run_ended()["outcome"], "done");
    serve.signal(Signal::TERM);
    assert_eq!(serve.end().0, Some(0));
}

/// Whether somebody saw the end of a worker that can reach beyond its workspace decides whether a person
/// is asked.
#[test]
fn a_worker_with_network_that_was_stopped_goes_on_and_one_that_was_killed_is_asked_about() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n")]);
    let go = bench.path("go");
    let far = waits_for(&go).replace("[worker]", "[worker]\nnetwork = true");
    let file = a_loop(&root, "far", &far);
    let start = || bench.start(["run".as_ref(), file.as_os_str(), "--json".as_ref()]);
    let mut stopped = start();
    let id = run_of(&stopped.wait_for("\"progress\""));
    stopped.signal(Signal::INT);
    assert_eq!(stopped.end().0, Some(22));
    let mut killed = bench.start(["continue", &id, "--json"]);
    killed.wait_for("\"progress\"");
    killed.kill();
    bench.wait_until_nothing_is_left();
    let asked = bench.ronde(["continue", &id, "--json"]);
    assert_eq!(asked.code, Some(20), "{asked:?}");
    let item = bench.lines(["inbox", "--json"]).remove(0);
    assert_eq!(item["reason"], "unknown-effect");
    std::fs::write(&go, "").expect("a file");
    let ended = bench.ronde(["approve", "1", "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}
