//! Verbs that start nothing: help, `validate`, `schema`, `plan`, `init`, `completions`, `doctor`.

use std::fs;

use ronde_tests::{Bench, end_of, write};
use serde_json::{Value, json};

use super::{GREEN, a_loop};
use crate::bench;

const VERBS: [&str; 19] = [
    "init",
    "validate",
    "schema",
    "plan",
    "run",
    "continue",
    "serve",
    "status",
    "runs",
    "show",
    "logs",
    "inbox",
    "answer",
    "approve",
    "deny",
    "close",
    "stop",
    "doctor",
    "completions",
];

#[test]
fn every_verb_has_help_without_a_home() {
    let bench = bench();
    let whole = bench.ronde(["--help"]);
    assert_eq!(whole.code, Some(0));
    for code in [
        "0 done",
        "1 any other failure",
        "2 usage",
        "20 handed off",
        "21 stopped",
        "22 cancelled",
    ] {
        let help = whole.stdout.replace('\n', " ");
        assert!(help.contains(code), "no {code:?} in {help}");
    }
    for verb in VERBS {
        assert!(
            whole.stdout.contains(&format!("\n  {verb} ")),
            "{verb} is not listed"
        );
        let help = bench.ronde([verb, "--help"]);
        assert_eq!(help.code, Some(0), "{verb}");
        assert!(
            help.stdout.contains(&format!("Usage: ronde {verb}")),
            "{}",
            help.stdout
        );
        let about = help.stdout.lines().next().unwrap_or_default();
        assert!(about.split(' ').count() >= 4, "{verb}: {about:?}");
    }
    let version = bench.ronde(["--version"]);
    assert_eq!(
        version.stdout,
        format!("ronde {}\n", env!("CARGO_PKG_VERSION"))
    );
    assert!(!bench.home().exists(), "a home is made");
}

#[test]
fn usage_that_is_wrong_is_2() {
    let bench = bench();
    for (args, says) in [
        (vec![], "Usage"),
        (vec!["rnu"], "'runs'"),
        (vec!["run"], "<FILE>"),
        (vec!["run", "x.toml", "--jsno"], "--json"),
        (vec!["plan", "x.toml", "--from", "yesterday"], "yesterday"),
        (vec!["answer", "one", "text"], "one"),
        (vec!["answer", "1", "  "], "the answer is empty"),
        (vec!["init", "--template", "nope"], "nightly-green"),
    ] {
        let ended = bench.ronde(&args);
        assert_eq!(ended.code, Some(2), "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(says), "no {says:?} in {ended:?}");
    }
    assert!(!bench.home().exists(), "a home is made");
}

#[test]
fn what_is_not_there_is_1() {
    let bench = bench();
    for args in [
        vec!["continue", "no-run"],
        vec!["stop", "no-run"],
        vec!["show", "no-run"],
        vec!["logs", "no-run"],
        vec!["logs", "no-run", "--follow"],
        vec!["inbox", "show", "7"],
        vec!["answer", "7", "x"],
        vec!["approve", "7"],
    ] {
        let ended = bench.ronde(&args);
        assert_eq!(ended.code, Some(1), "{args:?}: {ended:?}");
        let what = if args[1] == "no-run" {
            "no-run"
        } else {
            "item 7"
        };
        assert!(ended.stderr.contains(what), "{args:?}: {ended:?}");
    }
    // Ids are no paths.
    for run in ["../../etc", "/etc/passwd", ".", ""] {
        let ended = bench.ronde(["show", run]);
        assert_eq!(ended.code, Some(1), "{run:?}: {ended:?}");
    }
}

fn plan(bench: &Bench, args: &[&str]) -> Vec<(String, u64)> {
    let ended = bench.ronde(args);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.stdout.lines().count(), 1, "one array: {ended:?}");
    let array: Vec<Value> = serde_json::from_str(&ended.stdout).expect("an array");
    let start = |start: &Value| {
        assert_eq!(start.as_object().expect("an object").len(), 2);
        let at = start["at"].as_str().expect("an instant").to_owned();
        (at, start["trigger"].as_u64().expect("a number"))
    };
    array.iter().map(start).collect()
}

#[test]
fn a_plan_is_one_array_strictly_after_its_beginning() {
    let bench = bench();
    let root = bench.project("project", &[]);
    let triggers = "[[trigger]]\ncron = \"0 2 * * *\"\ntimezone = \"Europe/Paris\"\n[[trigger]]\ncron = \"30 0 * * *\"\ntimezone = \"UTC\"\n";
    let file = a_loop(&root, "it", &format!("{triggers}{GREEN}"))
        .display()
        .to_string();
    let at = |at: &str, trigger| (at.to_owned(), trigger);
    // In the night to 2026-03-29 there is no 02:00 in Paris: it starts right after the gap.
    let starts = plan(
        &bench,
        &[
            "plan",
            &file,
            "--from",
            "2026-03-28T01:00:00Z",
            "--count",
            "4",
            "--json",
        ],
    );
    assert_eq!(
        starts,
        [
            at("2026-03-29T00:30:00Z", 1),
            at("2026-03-29T01:00:00Z", 0),
            at("2026-03-30T00:00:00Z", 0),
            at("2026-03-30T00:30:00Z", 1),
        ]
    );
    let before = plan(
        &bench,
        &[
            "plan",
            &file,
            "--from",
            "2026-03-28T00:59:59Z",
            "--count",
            "1",
            "--json",
        ],
    );
    assert_eq!(
        before,
        [at("2026-03-28T01:00:00Z", 0)],
        "the instant itself comes just before"
    );
    let none = plan(
        &bench,
        &[
            "plan",
            &file,
            "--from",
            "2026-03-28T00:59:59Z",
            "--count",
            "0",
            "--json",
        ],
    );
    assert!(none.is_empty());

    let words = bench.ronde([
        "plan",
        &file,
        "--from",
        "2026-03-28T01:00:00Z",
        "--count",
        "2",
    ]);
    assert_eq!(words.stdout.lines().count(), 2, "{words:?}");
    assert!(
        words.stdout.contains("2026-03-29 03:00:00 CEST  trigger 0"),
        "{words:?}"
    );
    let by_hand = a_loop(&root, "hand", GREEN).display().to_string();
    assert!(plan(&bench, &["plan", &by_hand, "--json"]).is_empty());
    assert!(!bench.home().exists(), "a home is made");
}

#[test]
fn validate_takes_files_names_and_folders() {
    let bench = bench();
    let root = bench.project("project", &[]);
    let good = a_loop(&root, "good", GREEN);
    let bad = bench.path("bad.toml");
    fs::write(&bad, "name = 3\n").expect("a file");

    let here = |args: &[&str]| {
        let mut command = bench.command(args);
        end_of(command.current_dir(&root))
    };
    assert_eq!(here(&["validate"]).code, Some(0));
    assert_eq!(here(&["validate", "good"]).code, Some(0));
    let one = bench.ronde(["validate".as_ref(), good.as_os_str()]);
    assert_eq!(one.code, Some(0), "{one:?}");
    assert!(one.stdout.ends_with("good.toml: valid\n"), "{one:?}");

    let both = bench.ronde([
        "validate".as_ref(),
        bad.as_os_str(),
        good.as_os_str(),
        "--json".as_ref(),
    ]);
    assert_eq!(both.code, Some(2), "{both:?}");
    let lines = both.json();
    assert_eq!(lines.len(), 2, "an object a file: {both:?}");
    assert_eq!(
        (&lines[0]["valid"], &lines[1]["valid"]),
        (&json!(false), &json!(true))
    );
    assert!(
        lines[0]["errors"].as_array().expect("a list").len() >= 3,
        "{both:?}"
    );
    let of_name = |error: &&Value| {
        let message = error["message"].as_str();
        message.is_some_and(|text| text.contains("`name` is a string"))
    };
    let errors = lines[0]["errors"].as_array().expect("a list");
    let error = errors.iter().find(of_name).expect("one is of the name");
    assert_eq!(
        (&error["line"], &error["column"]),
        (&json!(1), &json!(8)),
        "{error}"
    );
    assert_eq!(lines[0]["file"], bad.display().to_string());
    assert_eq!(lines[1]["errors"], json!([]));
    // Where there are no loops, that is said.
    let none = bench.ronde(["validate"]);
    assert_eq!(none.code, Some(2), "{none:?}");
    assert!(none.stderr.contains("ronde init"), "{none:?}");
    assert!(!bench.home().exists(), "a home is made");
}

#[test]
fn the_schema_knows_the_keys() {
    let bench = bench();
    let schema = |args: &[&str]| -> Value {
        let ended = bench.ronde(args);
        assert_eq!(ended.code, Some(0));
        serde_json::from_str(&ended.stdout).expect("JSON")
    };
    let of_loop = schema(&["schema"]);
    for key in [
        "name",
        "description",
        "goal",
        "goal_file",
        "enabled",
        "overlap",
        "skip_if_green",
        "trigger",
        "workspace",
        "worker",
        "check",
        "budget",
        "handoff",
        "state",
    ] {
        assert!(
            of_loop["properties"][key].is_object(),
            "no {key} in {of_loop:#}"
        );
    }
    let of_config = schema(&["schema", "--config"]);
    for key in ["notify", "budget"] {
        assert!(
            of_config["properties"][key].is_object(),
            "no {key} in {of_config:#}"
        );
    }
}

#[test]
fn every_template_is_valid_and_nothing_is_overwritten() {
    let bench = bench();
    let help = bench.ronde(["init", "--help"]).stdout;
    let names: Vec<_> = help
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- ")?.split(':').next())
        .collect();
    assert!(names.len() >= 2, "{help}");
    for name in names {
        let root = bench.project(&format!("of-{name}"), &[("Cargo.toml", "")]);
        let init = |more: &[&str]| {
            let mut command = bench.command(["init", "--template", name]);
            end_of(command.args(more).current_dir(&root))
        };
        let first = init(&[]);
        assert_eq!(first.code, Some(0), "{first:?}");
        let file = root.join(format!(".ronde/loops/{name}.toml"));
        let text = fs::read_to_string(&file).expect("a loop file");
        assert!(text.contains("cargo test"), "the check is guessed: {text}");

        fs::write(&file, "mine\n").expect("a file");
        let again = init(&[]);
        assert_eq!(again.code, Some(1), "{again:?}");
        assert!(
            again.stderr.contains("is there already") && again.stderr.contains("--name"),
            "{again:?}"
        );
        assert_eq!(fs::read_to_string(&file).expect("a file"), "mine\n");
        fs::write(&file, text).expect("a file");

        assert_eq!(
            init(&["--name", "other", "--check", "make \"it\" 'now'"]).code,
            Some(0)
        );
        let mut command = bench.command(["validate"]);
        let valid = end_of(command.current_dir(&root));
        assert_eq!(valid.code, Some(0), "{valid:?}");
        assert_eq!(valid.stdout.lines().count(), 2, "{valid:?}");
    }
    let bad = bench.ronde(["init", "--name", "a/b"]);
    assert_eq!(bad.code, Some(2), "{bad:?}");
}

#[test]
fn completions_are_for_a_shell() {
    let bench = bench();
    let script = bench.ronde(["completions", "bash"]);
    assert_eq!(script.code, Some(0));
    write(&bench.path("shell"), &[("ronde.bash", &script.stdout)]);
    let ask = "source ./ronde.bash; COMP_WORDS=(ronde val); COMP_CWORD=1; _ronde ronde val ronde; echo \"${COMPREPLY[@]}\"";
    let mut bash = ronde_tests::program("bash");
    let answered = end_of(bash.args(["-c", ask]).current_dir(bench.path("shell")));
    assert_eq!(answered.stdout.trim(), "validate", "{answered:?}");
    assert_eq!(bench.ronde(["completions", "nosh"]).code, Some(2));
}

#[test]
fn doctor_says_what_this_machine_holds() {
    let bench = bench();
    let rows = bench.lines(["doctor", "--json"]);
    let words = bench.ronde(["doctor"]);
    assert_eq!(words.code, Some(0));
    assert_eq!(words.stdout.lines().count(), rows.len());
    for row in &rows {
        assert!(row["ok"].is_boolean() && row["detail"].is_string(), "{row}");
        let name = row["name"].as_str().expect("a name");
        assert!(words.stdout.contains(name), "{words:?}");
    }
    let home = rows
        .iter()
        .find(|row| row["name"] == "home")
        .expect("a row");
    assert_eq!(home["detail"], bench.home().display().to_string());
    assert!(rows.len() >= 4, "{rows:?}");
    assert!(!bench.home().exists(), "a home is made");
}
