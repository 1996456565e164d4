//! What people are asked, told and trusted with: approvals, answers, notifications, notes kept between
//! runs, and the secrets of their environment.

use std::{fs, path::Path};

use ronde_tests::{Bench, contents, end_of, git, write};
use serde_json::{Value, json};

use super::{a_loop, run, scripted};
use crate::bench;

/// A worker that wants to do what it may do only after a yes. The second attempt sees what came of it.
fn asking(bench: &Bench) -> std::path::PathBuf {
    let root = bench.project("project", &[("README", "x\n")]);
    let act = json!({"name": "shell", "input": {"command": "touch risky"}});
    let script = json!({"attempts": [
        [{"text": "I want to.", "tools": [act]}, {"text": "I am done."}],
        [{"tools": [act]}, {"tools": [{"name": "write", "input": {"path": "out", "content": "x\n"}}]}, {"text": "I am done."}],
        [{"text": "I give up."}]
    ]});
    let rules = "on_ask = \"wait\"\n[worker.permissions]\nask = [\"shell(touch *)\"]\n";
    let worker = scripted(&root, "session", &script, rules);
    a_loop(
        &root,
        "asks",
        &format!("{worker}[[check]]\nrun = \"test -e out\"\n"),
    )
}

#[test]
fn an_approved_action_is_done_once_a_person_said_yes() {
    let bench = bench();
    let file = asking(&bench);
    let root = bench.path("project");
    let ended = run(&bench, &file);
    assert_eq!(ended.code, Some(20), "{ended:?}");
    let item = bench.lines(["inbox", "--json"]).remove(0);
    assert_eq!(item["reason"], "approval");
    assert!(
        item["title"]
            .as_str()
            .is_some_and(|title| title.contains("touch risky")),
        "{item}"
    );
    let approved = bench.ronde(["approve", "1", "--json"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    let branch = approved.run_ended()["branch"]
        .as_str()
        .expect("a branch")
        .to_owned();
    let changed = git(&root, &["diff", "--name-only", "main", &branch]);
    assert_eq!(changed, "out\nrisky", "what was approved was done");
}

#[test]
fn a_denied_action_is_not_done() {
    let bench = bench();
    let file = asking(&bench);
    let root = bench.path("project");
    assert_eq!(run(&bench, &file).code, Some(20));
    let denied = bench.ronde(["deny", "1", "--json"]);
    // The worker tries once more what it was denied: it is asked about again, and not done.
    assert_eq!(denied.code, Some(20), "{denied:?}");
    for branch in git(
        &root,
        &["branch", "--list", "ronde/*", "--format=%(refname)"],
    )
    .lines()
    {
        let files = git(&root, &["ls-tree", "--name-only", branch]);
        assert!(!files.contains("risky"), "{branch}: {files}");
    }
}

#[test]
fn a_rule_that_asks_refuses_where_nobody_waits() {
    let bench = bench();
    let file = asking(&bench);
    let root = bench.path("project");
    let text = fs::read_to_string(&file).expect("a file");
    fs::write(
        &file,
        text.replace("on_ask = \"wait\"", "on_ask = \"refuse\""),
    )
    .expect("a file");
    let ended = run(&bench, &file);
    assert_eq!(
        ended.code,
        Some(0),
        "the worker went on without it: {ended:?}"
    );
    let refused = |event: &&Value| event["event"] == "tool_ended" && event["outcome"] == "refused";
    assert!(
        ended.json().iter().filter(refused).count() >= 1,
        "{ended:?}"
    );
    let branch = ended.run_ended()["branch"]
        .as_str()
        .expect("a branch")
        .to_owned();
    assert_eq!(git(&root, &["diff", "--name-only", "main", &branch]), "out");
}

#[test]
fn an_answer_comes_to_the_worker() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n")]);
    let worker = "[worker]\ncommand = [\"sh\", \"-c\", \"cat > prompt; if grep -q 'Answer: the blue one' prompt; then echo x > out; else echo 'Which one?' > $RONDE_QUESTION_FILE; fi\"]\n";
    let file = a_loop(
        &root,
        "asks",
        &format!("{worker}[[check]]\nrun = \"test -e out\"\n"),
    );
    assert_eq!(run(&bench, &file).code, Some(20));
    let item = bench.lines(["inbox", "--json"]).remove(0);
    assert_eq!(
        (&item["reason"], &item["title"]),
        (&json!("question"), &json!("Which one?"))
    );
    // Answered for later: nobody goes on with it until somebody does.
    let answered = bench.ronde(["answer", "1", "the blue one", "--detach"]);
    assert_eq!(answered.code, Some(0), "{answered:?}");
    assert!(answered.stdout.contains("ronde continue"), "{answered:?}");
    let id = item["run"].as_str().expect("a run");
    let ended = bench.ronde(["continue", id, "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn a_notification_gets_the_item_once() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n")]);
    let told = bench.path("told");
    let tell = format!(
        "#!/bin/sh\ncat >> '{}'\necho $1 >> '{}'\n",
        told.display(),
        told.display()
    );
    write(
        &root,
        &[
            ("tell.sh", &tell),
            (
                ".ronde/config.toml",
                "[notify.phone]\ncommand = [\"./tell.sh\", \"loops\"]\n",
            ),
        ],
    );
    let red = "[worker]\ncommand = [\"true\"]\n[[check]]\nrun = \"echo reasons; false\"\n[budget]\nattempts = 1\n";
    let file = a_loop(
        &root,
        "red",
        &format!("{red}[handoff]\nnotify = [\"phone\"]\n"),
    );
    let ended = run(&bench, &file);
    assert_eq!(ended.code, Some(20), "{ended:?}");
    // The run rests when its item is there; whoever comes next sees to it that it was told.
    let mut serve = bench.start(["serve".as_ref(), root.as_os_str()]);
    serve.wait_for("serving");
    bench.wait_for_home(|records| {
        records
            .iter()
            .any(|record| record["event"]["type"] == "notify_ended")
    });
    serve.signal(rustix::process::Signal::TERM);
    assert_eq!(serve.end().0, Some(0));
    let text = fs::read_to_string(&told).expect("somebody was told");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 2, "once: {text}");
    assert_eq!(lines[1], "loops");
    let item: Value = serde_json::from_str(lines[0]).expect("JSON");
    assert_eq!(item["number"], 1, "{item}");
    assert_eq!(
        (&item["item"]["reason"], &item["item"]["loop"]),
        (&json!("stuck"), &json!("red")),
        "{item}"
    );
    assert!(
        item.to_string().contains("reasons"),
        "the evidence is in it: {item}"
    );
}

#[test]
fn notes_are_kept_between_runs_and_are_no_part_of_the_result() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n")]);
    let worker = "[worker]\ncommand = [\"sh\", \"-c\", \"f=$(find . -name NOTES.md); cat > prompt; wc -l < $f > out; echo seen >> $f\"]\n";
    let rest =
        format!("{worker}[[check]]\nrun = \"test -e out\"\n[state]\nfiles = [\"NOTES.md\"]\n");
    let file = a_loop(&root, "notes", &rest);
    for number in 0..3 {
        let ended = run(&bench, &file);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let branch = ended.run_ended()["branch"]
            .as_str()
            .expect("a branch")
            .to_owned();
        assert_eq!(
            git(&root, &["show", &format!("{branch}:out")]),
            number.to_string()
        );
        assert_eq!(
            git(&root, &["diff", "--name-only", "main", &branch]),
            "out\nprompt"
        );
        let prompt = git(&root, &["show", &format!("{branch}:prompt")]);
        assert_eq!(prompt.matches("seen").count(), number, "{prompt}");
    }
    assert_eq!(
        git(&root, &["status", "--porcelain", "--", ".", ":!.ronde"]),
        ""
    );
}

#[test]
fn setup_runs_in_every_fresh_checkout_and_its_failure_is_told() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n"), (".gitignore", "ready\n")]);
    let worker = "[worker]\ncommand = [\"sh\", \"-c\", \"test -e ready && echo x > out\"]\n";
    let check = "[[check]]\nrun = \"test -e ready && test -e out\"\n";
    let file = a_loop(
        &root,
        "ready",
        &format!("{worker}{check}[workspace]\nsetup = \"echo x > ready\"\n"),
    );
    let ended = run(&bench, &file);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let branch = ended.run_ended()["branch"]
        .as_str()
        .expect("a branch")
        .to_owned();
    assert_eq!(git(&root, &["diff", "--name-only", "main", &branch]), "out");

    let file = a_loop(
        &root,
        "broken",
        &format!("{worker}{check}[workspace]\nsetup = \"echo no network today >&2; exit 3\"\n"),
    );
    let ended = run(&bench, &file);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let reason = ended.run_ended()["reason"].to_string();
    assert!(
        reason.contains("setup") && reason.contains("no network today"),
        "{reason}"
    );
}

const CANARY: &str = "canary-5f1d0c";

/// Files that hold a text.
fn holding(root: &Path, text: &str) -> Vec<String> {
    contents(root)
        .into_iter()
        .filter(|(_, bytes)| {
            bytes
                .windows(text.len())
                .any(|window| window == text.as_bytes())
        })
        .map(|(path, _)| path.display().to_string())
        .collect()
}

#[test]
fn secrets_of_the_environment_come_nowhere_unless_named() {
    let bench = bench();
    let root = bench.project("project", &[("README", "x\n")]);
    let tell = format!("#!/bin/sh\nenv > '{}'\n", bench.path("told").display());
    write(
        &root,
        &[
            ("tell.sh", &tell),
            (
                ".ronde/config.toml",
                "[notify.phone]\ncommand = [\"./tell.sh\"]\n",
            ),
        ],
    );
    let look = "env; cat /proc/$PPID/environ 2>/dev/null; true";
    let rest = |env: &str| {
        format!(
            "[worker]\ncommand = [\"sh\", \"-c\", \"{look}; echo x > out; {env}\"]\n{}[[check]]\nname = \"there\"\nrun = \"{look}; test -e out\"\n\
             [handoff]\nnotify = [\"phone\"]\n[workspace]\nsetup = \"{look}\"\n",
            if env.is_empty() {
                ""
            } else {
                "env = [\"MY_TOKEN\"]\n"
            }
        )
    };
    let with_secret = |args: &[&str]| {
        let mut command = bench.command(args);
        end_of(command.env("MY_TOKEN", CANARY).env("RONDE_LOG", "trace"))
    };
    let file = a_loop(&root, "secret", &rest("")).display().to_string();
    let ended = with_secret(&["run", &file, "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let id = ended.run_ended()["run"].as_str().expect("a run").to_owned();
    for (what, text) in [("stdout", &ended.stdout), ("stderr", &ended.stderr)] {
        assert!(!text.contains(CANARY), "{what}: {text}");
    }
    let logs = bench.ronde(["logs", &id, "--attempt", "1"]).stdout;
    assert!(logs.contains("PATH="), "the worker has looked: {logs}");
    assert_eq!(holding(&bench.home(), CANARY), Vec::<String>::new());
    assert_eq!(holding(&root, CANARY), Vec::<String>::new());

    // Named, it comes to the worker alone.
    let named = a_loop(&root, "named", &rest("test -n \\\"$MY_TOKEN\\\" || rm out"))
        .display()
        .to_string();
    let ended = with_secret(&["run", &named, "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let id = ended.run_ended()["run"].as_str().expect("a run").to_owned();
    assert!(
        !bench
            .ronde(["logs", &id, "--check", "there"])
            .stdout
            .contains(CANARY)
    );
}
