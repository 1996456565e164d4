//! The command line as people and scripts meet it: every verb, every exit code, every list.

mod limits;
mod offline;
mod people;
mod served;
mod signals;
mod views;

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use ronde_tests::{Bench, Ended, write};
use serde_json::Value;

/// Writes a loop file of a project and gives its path; the loop and the file have one name.
fn a_loop(root: &Path, name: &str, rest: &str) -> PathBuf {
    let file = format!(".ronde/loops/{name}.toml");
    let text = format!("name = \"{name}\"\ngoal = \"out is there\"\n{rest}");
    write(root, &[(&file, &text)]);
    root.join(file)
}

/// Runs a loop file to its end.
fn run(bench: &Bench, file: &Path) -> Ended {
    bench.ronde([OsStr::new("run"), file.as_os_str(), OsStr::new("--json")])
}

/// The run of a line of `--json`.
fn run_of(line: &str) -> String {
    let event: Value = serde_json::from_str(line).expect("JSON");
    event["run"].as_str().expect("a run").to_owned()
}

/// A worker and a check that reach the goal.
const GREEN: &str = r#"
[worker]
command = ["sh", "-c", "echo says hello; echo x > out"]
[[check]]
name = "there"
run = "echo looks; test -e out"
"#;

/// A worker that is at work until `go` is there.
fn waits_for(go: &Path) -> String {
    let go = go.display();
    format!(
        r#"
[worker]
command = ["sh", "-c", "echo at work; until test -e '{go}'; do sleep 0.1; done; echo x > out"]
[[check]]
run = "test -e out"
"#
    )
}

/// A script of the built-in agent beside the loop file, and the tables that choose it.
fn scripted(root: &Path, name: &str, script: &Value, worker: &str) -> String {
    let file = format!("{name}.json");
    write(&root.join(".ronde/loops"), &[(&file, &script.to_string())]);
    format!("[worker]\nagent = \"ronde\"\nmodel = \"scripted/{file}\"\n{worker}\n")
}
