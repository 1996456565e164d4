//! A worker that puts a process of its own beside ronde: when ronde dies, so does all of it.

use super::{By, Project, tree_of};
use ronde_protocol::outcome::Outcome;
use ronde_tests::start;

const FILES: &[(&str, &str)] = &[
    ("value", "0\n"),
    (
        "work.sh",
        r#"#!/bin/sh
if [ "$PATIENT" = yes ]; then
    # A grandchild in a session of its own, with no terminal, no parent and no pipe.
    setsid sh -c '(trap "" TERM HUP INT; exec sleep 1000) </dev/null >/dev/null 2>&1 &'
    echo begun
    trap '' TERM
    while :; do sleep 1000; done
fi
echo 1 > value
"#,
    ),
    (
        ".ronde/loops/it.toml",
        r#"
name = "it"
goal = "value must be 1"
[worker]
command = ["sh", "work.sh"]
env = ["PATIENT"]
[[check]]
run = "grep -qx 1 value"
"#,
    ),
];

#[test]
fn nothing_outlives_ronde_and_the_run_goes_on() {
    for by in [By::Continue, By::Serve] {
        let project = Project::new(FILES);
        let mut command = project.bench.command(["run", &project.file(), "--json"]);
        let mut running = start(command.env("PATIENT", "yes"));
        running.wait_for("\"progress\"");
        assert!(
            project
                .bench
                .leftovers()
                .iter()
                .any(|process| process.contains("sleep 1000")),
            "the test sees the worker: {:?}",
            project.bench.leftovers()
        );
        running.kill();
        project.bench.wait_until_nothing_is_left();
        let run = project.the_run().expect("a run");
        assert_eq!(project.take_up(&run, by), Outcome::Done);
        let tree = tree_of(&project.root, &format!("ronde/{run}"));
        let state = project.assert_done(&run, &tree, &[]);
        assert_eq!(state.attempts.len(), 1, "the attempt was made again");
        assert_eq!(
            ronde_tests::git(&project.root, &["show", &format!("ronde/{run}:value")]),
            "1"
        );
    }
}
