//! Verbs that look at a home: `runs`, `show`, `logs`, `inbox`, `status`; and how everything looks where it
//! is no terminal.

use serde_json::{Value, json};

use super::{GREEN, a_loop, run, run_of, waits_for};
use crate::bench;

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect()
}

#[track_caller]
fn has(value: &Value, fields: &[&str]) {
    for field in fields {
        assert!(
            value.get(field).is_some(),
            "no {field} in {:?}",
            keys(value)
        );
    }
}

const RUNS: [&str; 11] = [
    "run",
    "loop",
    "outcome",
    "changed",
    "reason",
    "branch",
    "item",
    "cause",
    "fired_at",
    "rested_at",
    "root",
];
const INBOX: [&str; 10] = [
    "item", "run", "loop", "outcome", "reason", "title", "branch", "opened", "expires", "answered",
];

#[test]
fn a_home_without_anything_is_shown_too() {
    let bench = bench();
    for (verb, says) in [
        ("runs", "no runs yet"),
        ("inbox", "nothing waits for you"),
        ("status", "owner    none"),
    ] {
        let words = bench.ronde([verb]);
        assert_eq!(words.code, Some(0), "{words:?}");
        assert!(words.stdout.contains(says), "{words:?}");
    }
    assert!(bench.lines(["runs", "--json"]).is_empty());
    assert!(bench.lines(["inbox", "--json"]).is_empty());
    assert_eq!(bench.lines(["status", "--json"])[0]["owner"], Value::Null);
    assert!(!bench.home().exists(), "looking makes no home");
}

#[test]
fn a_run_is_shown_while_it_works_and_after() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n")]);
    let go = bench.path("go");
    let file = a_loop(&root, "slow", &waits_for(&go));
    let mut running = bench.start(["run".as_ref(), file.as_os_str(), "--json".as_ref()]);
    let id = run_of(&running.wait_for("\"progress\""));

    let row = bench.lines(["runs", "--json"]).remove(0);
    has(&row, &RUNS);
    assert_eq!(
        (&row["run"], &row["loop"], &row["outcome"]),
        (&json!(id), &json!("slow"), &Value::Null)
    );
    assert_eq!(row["root"], root.display().to_string());
    assert_eq!(row["cause"], json!({"kind": "person"}));
    assert!(bench.ronde(["runs"]).stdout.contains("at work"));
    let shown = bench.lines(["show", &id, "--json"]).remove(0);
    assert_eq!(
        (&shown["outcome"], &shown["run"]),
        (&Value::Null, &json!(id))
    );
    assert!(bench.ronde(["show", &id]).stdout.contains("(at work)"));
    let status = bench.lines(["status", "--json"]).remove(0);
    assert_eq!(status["at_work"], json!([id]));
    assert_eq!(status["owner"]["pid"], running.pid());
    let words = bench.ronde(["status"]).stdout;
    assert!(
        words.contains(&format!("owner    process {} (ronde run)", running.pid())),
        "{words}"
    );
    // A second run of the loop, or going on with what goes on, is refused with the way to it.
    for args in [
        vec!["run", file.to_str().expect("text")],
        vec!["continue", &id],
    ] {
        let refused = bench.ronde(&args);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.stderr.contains("is at work"), "{refused:?}");
        assert!(
            refused
                .stderr
                .contains(&format!("ronde logs {id} --follow")),
            "{refused:?}"
        );
    }

    let mut following = bench.start(["logs", &id, "--follow", "--json"]);
    following.wait_for("attempt_started");
    std::fs::write(&go, "").expect("a file");
    assert_eq!(running.end().0, Some(0));
    let (code, lines) = following.end();
    assert_eq!(code, Some(0));
    assert!(
        lines.last().expect("a line").contains("\"run_ended\""),
        "{lines:?}"
    );

    let row = bench.lines(["runs", "--json"]).remove(0);
    has(&row, &RUNS);
    assert_eq!(
        (&row["outcome"], &row["changed"]),
        (&json!("done"), &json!(true))
    );
    assert_eq!(row["branch"], format!("ronde/{id}"));
    let shown = bench.lines(["show", &id, "--json"]).remove(0);
    assert_eq!(
        (&shown["outcome"], &shown["event"]),
        (&json!("done"), &json!("run_ended"))
    );
}

#[test]
fn logs_and_the_report_say_what_happened() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n")]);
    let file = a_loop(&root, "green", GREEN);
    let ended = run(&bench, &file);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let last = ended.run_ended();
    has(
        &last,
        &[
            "outcome",
            "changed",
            "reason",
            "loop",
            "attempts",
            "iterations",
            "usage",
            "branch",
            "item",
            "run",
            "at",
            "cursor",
        ],
    );
    let id = last["run"].as_str().expect("a run").to_owned();

    // The log is what was told, but for what is told once.
    let lasting = |events: Vec<Value>| -> Vec<Value> {
        events
            .into_iter()
            .filter(|event| event.get("cursor").is_some())
            .collect()
    };
    assert_eq!(lasting(ended.json()), bench.lines(["logs", &id, "--json"]));
    let words = bench.ronde(["logs", &id]);
    for part in [
        "attempt 1",
        "verdict on attempt 1: pass",
        "delivered on branch",
        "done",
    ] {
        assert!(words.stdout.contains(part), "no {part:?} in {words:?}");
    }
    assert_eq!(
        bench.ronde(["logs", &id, "--attempt", "1"]).stdout,
        "says hello\n"
    );
    assert_eq!(
        bench.ronde(["logs", &id, "--check", "there"]).stdout,
        "looks\n"
    );
    for (args, says) in [
        (["--attempt", "9"], "attempt 9"),
        (["--check", "nope"], "`nope`"),
    ] {
        let mut command = bench.command(["logs", &id]);
        let missing = ronde_tests::end_of(command.args(args));
        assert_eq!(missing.code, Some(1), "{missing:?}");
        assert!(missing.stderr.contains(says), "{missing:?}");
    }
    let report = bench.ronde(["show", &id]).stdout;
    for part in [
        "claim",
        "artefact",
        "observation",
        "scope",
        &format!("ronde/{id}"),
        "pass  there",
    ] {
        assert!(report.contains(part), "no {part:?} in {report}");
    }
    // How to look at it works as it is written.
    let look = report
        .lines()
        .find_map(|line| line.trim().strip_prefix("look: "))
        .expect("a way to look");
    let mut sh = ronde_tests::program("sh");
    let diff = ronde_tests::end_of(sh.args(["-c", look]));
    assert!(diff.stdout.contains("+++ b/out"), "{diff:?}");
}

#[test]
fn lists_span_the_home() {
    let bench = bench();
    let first = bench.project("first", &[("README", "x\n")]);
    let second = bench.project("second", &[("README", "x\n")]);
    let green = a_loop(&first, "green", GREEN);
    let red = a_loop(
        &second,
        "red",
        "[worker]\ncommand = [\"true\"]\n[[check]]\nrun = \"echo reasons; false\"\n[budget]\nattempts = 1\n",
    );
    assert_eq!(run(&bench, &green).code, Some(0));
    assert_eq!(run(&bench, &red).code, Some(20));
    let runs = bench.lines(["runs", "--json"]);
    let names: Vec<_> = runs
        .iter()
        .map(|run| run["loop"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, ["red", "green"], "newest first");
    assert_eq!(runs[0]["item"], 1);
    assert_eq!(bench.lines(["runs", "--json", "--loop", "green"]).len(), 1);
    assert_eq!(bench.lines(["runs", "--json", "-n", "1"])[0]["loop"], "red");

    let inbox = bench.lines(["inbox", "--json"]);
    has(&inbox[0], &INBOX);
    assert_eq!(inbox.len(), 1);
    assert_eq!(
        (&inbox[0]["item"], &inbox[0]["outcome"], &inbox[0]["reason"]),
        (&json!(1), &json!("handed_off"), &json!("stuck"))
    );
    let shown = bench.ronde(["inbox", "show", "1"]).stdout;
    assert!(
        shown.contains("reasons") && shown.contains("ronde answer 1"),
        "{shown}"
    );
    let whole = bench.lines(["inbox", "show", "1", "--json"]).remove(0);
    assert!(whole.to_string().contains("reasons"), "{whole}");
    let status = bench.lines(["status", "--json"]).remove(0);
    assert_eq!(status["inbox"], json!([1]));

    assert_eq!(bench.ronde(["close", "1"]).code, Some(22));
    assert!(bench.lines(["inbox", "--json"]).is_empty());
    assert_eq!(bench.lines(["inbox", "--json", "--all"]).len(), 1);
    let twice = bench.ronde(["close", "1"]);
    assert_eq!(twice.code, Some(1), "{twice:?}");
}

/// Where no terminal is, or colours are not wanted, nothing but text comes.
#[test]
fn what_is_no_terminal_gets_no_escape_codes() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n")]);
    let file = a_loop(&root, "green", GREEN).display().to_string();
    let wrong = bench.path("wrong.toml").display().to_string();
    std::fs::write(&wrong, "name = 3\n").expect("a file");
    for (name, value) in [("NO_COLOR", Some("1")), ("NO_COLOR", None)] {
        for args in [
            vec!["run", &file],
            vec!["run", &wrong],
            vec!["show", "x"],
            vec!["runs"],
            vec!["rnu"],
            vec!["--help"],
        ] {
            let mut command = bench.command(&args);
            command.env_remove(name).env("TERM", "xterm-256color");
            if let Some(value) = value {
                command.env(name, value);
            }
            let ended = ronde_tests::end_of(&mut command);
            let all = format!("{}{}", ended.stdout, ended.stderr);
            assert!(
                !all.contains('\u{1b}') && !all.contains('\r'),
                "{args:?}: {ended:?}"
            );
            assert!(!all.is_empty());
        }
    }
}
