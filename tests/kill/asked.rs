//! A run that asks a person, killed after each record, of the question and of the answer.

use ronde_protocol::{handoff::Answer, outcome::Outcome};

use super::{By, Project, sweep, tree_of};

const FILES: &[(&str, &str)] = &[
    ("port", "\n"),
    (
        "work.sh",
        r#"#!/bin/sh
if grep -q 'Answer: 8443'; then
    echo 8443 > port
else
    echo draft > port
    echo 'Which port?' > "$RONDE_QUESTION_FILE"
fi
"#,
    ),
    (
        ".ronde/loops/it.toml",
        r#"
name = "it"
goal = "port must name the port"
[worker]
command = ["sh", "work.sh"]
[[check]]
run = "grep -qx 8443 port"
"#,
    ),
];

const ANSWER: &[&str] = &["answer", "1", "8443", "--json"];

#[test]
fn one_item_and_the_answer_is_not_lost() {
    let whole = Project::new(FILES);
    assert_eq!(whole.run().code, Some(20));
    let run = whole.the_run().expect("a run");
    let asking = whole.records(&run);
    assert_eq!(whole.bench.ronde(ANSWER).code, Some(0));
    let answering = whole.records(&run) - asking;
    let tree = tree_of(&whole.root, &format!("ronde/{run}"));
    let so_far = |run: &_| vec![format!("ronde/wip/{run}-1")];
    whole.assert_done(&run, &tree, &so_far(&run));

    sweep(asking.max(answering), |after| {
        let project = Project::new(FILES);
        let by = By::of(after);
        let open = || {
            let home = project.home();
            let entries: Vec<_> = home.inbox().entries().cloned().collect();
            assert!(entries.len() <= 1, "one question is one item: {entries:?}");
            entries.first().is_some_and(|entry| entry.answer.is_none())
        };

        // Asked, and killed on the way.
        let ended = project.maybe_killed(after, &["run", &project.file(), "--json"]);
        assert_eq!(ended.code.is_none(), after <= asking, "{ended:?}");
        let run = project.the_run().unwrap_or_else(|| {
            assert_eq!(project.run().code, Some(20));
            project.the_run().expect("a run")
        });
        // An item that can be seen can be answered, whatever its run knows of it.
        if !open() {
            assert_eq!(project.take_up(&run, by), Outcome::HandedOff);
        }
        assert!(open());

        // Answered, and killed on the way. An answer that was not written is given again.
        project.maybe_killed(after, ANSWER);
        if open() {
            let ended = project.bench.ronde(ANSWER);
            assert_eq!(ended.code, Some(0), "{ended:?}");
        } else {
            let state = project.state(&run).expect("the run has begun");
            if state.ended.is_some() {
                project.serve_once();
            } else {
                assert_eq!(project.take_up(&run, by), Outcome::Done);
            }
        }

        let state = project.assert_done(&run, &tree, &so_far(&run));
        assert_eq!(state.answers.len(), 1);
        assert_eq!(
            state.answers[0].answer,
            Answer::Text {
                text: "8443".to_owned()
            }
        );
        assert!(!open());
    });
}

/// The item is in the inbox a moment before the run is known to wait for it. Who answers it then sees the
/// run to its end.
#[test]
fn an_item_that_is_seen_can_be_answered_whatever_its_run_knows() {
    let whole = Project::new(FILES);
    assert_eq!(whole.run().code, Some(20));
    let asking = whole.records(&whole.the_run().expect("a run"));

    let mut seen = 0;
    for after in (1..=asking).rev() {
        let project = Project::new(FILES);
        project.killed(after, &["run", &project.file(), "--json"]);
        if project.home().inbox().entries().count() == 0 {
            break;
        }
        seen += 1;
        let ended = project.bench.ronde(ANSWER);
        let ends = ended.stdout.matches("run_ended").count();
        assert_eq!((ended.code, ends), (Some(0), 1), "{ended:?}");
        assert_eq!(ended.run_ended()["outcome"], "done");
    }
    assert!(seen >= 3, "item opened, waiting, rested: {seen}");
}
