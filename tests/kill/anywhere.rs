//! A run of two attempts, killed after each of its records.

use ronde_protocol::outcome::Outcome;

use super::{By, Project, sweep, tree_of};

/// Any program as the worker. It goes by what it finds, as every step that is taken twice has to: the
/// first attempt makes 1 of 0, which is wrong, and the second makes 2 of it.
const COMMAND: &[(&str, &str)] = &[
    ("value", "0\n"),
    (
        "work.sh",
        "#!/bin/sh\nif grep -qx 0 value; then echo 1 > value; else echo 2 > value; fi\n",
    ),
    (
        ".ronde/loops/it.toml",
        r#"
name = "it"
goal = "value must be 2"
[worker]
command = ["sh", "work.sh"]
[[check]]
run = "grep -qx 2 value"
"#,
    ),
];

/// The built-in agent, which reads, writes and runs a command, and pays for each call.
const SCRIPTED: &[(&str, &str)] = &[
    ("value", "0\n"),
    (
        ".ronde/loops/session.json",
        r#"{ "attempts": [
  [ { "text": "I write.", "tools": [
        { "name": "write", "input": { "path": "value", "content": "1\n" } },
        { "name": "shell", "input": { "command": "cat value" } } ] },
    { "text": "Done." } ],
  [ { "text": "Once more.", "expect": { "prompt_contains": "check-1" }, "tools": [
        { "name": "edit", "input": { "path": "value", "old": "1\n", "new": "2\n" } } ] },
    { "text": "Now it is 2." } ]
] }"#,
    ),
    (
        ".ronde/loops/it.toml",
        r#"
name = "it"
goal = "value must be 2"
[worker]
agent = "ronde"
model = "scripted/session.json"
[[check]]
run = "grep -qx 2 value"
"#,
    ),
];

fn killed_after_every_record(files: &[(&str, &str)]) {
    let whole = Project::new(files);
    let ended = whole.run();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let run = whole.the_run().expect("a run");
    let tree = tree_of(&whole.root, &format!("ronde/{run}"));
    let state = whole.assert_done(&run, &tree, &[]);
    assert_eq!(state.attempts.len(), 2);
    let records = whole.records(&run);

    sweep(records, |after| {
        let project = Project::new(files);
        project.killed(after, &["run", &project.file(), "--json"]);
        let by = By::of(after);
        let run = match project.the_run() {
            // The slot was not claimed: nothing was promised, and nothing stands in the way.
            None => {
                project.serve_once();
                assert_eq!(project.the_run(), None);
                let ended = project.run();
                assert_eq!(ended.code, Some(0), "{ended:?}");
                project.the_run().expect("a run")
            }
            Some(run) => {
                let ended = project
                    .state(&run)
                    .is_some_and(|state| state.ended.is_some());
                match by {
                    By::Serve if ended => project.serve_once(),
                    By::Continue if ended => {
                        let refused = project.bench.ronde(["continue", run.as_str()]);
                        assert_eq!(refused.code, Some(1), "{refused:?}");
                        assert!(refused.stderr.contains("has ended: done"), "{refused:?}");
                    }
                    by => assert_eq!(project.take_up(&run, by), Outcome::Done),
                }
                run
            }
        };
        let state = project.assert_done(&run, &tree, &[]);
        assert_eq!(state.attempts.len(), 2, "as in the run that nobody killed");
    });
}

#[test]
fn a_command_at_work_is_killed_after_every_record() {
    killed_after_every_record(COMMAND);
}

#[test]
fn the_built_in_agent_is_killed_after_every_record() {
    killed_after_every_record(SCRIPTED);
}
