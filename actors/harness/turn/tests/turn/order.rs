//! What holds for every turn, whatever the model says: journal first, one result a call, exact prefix.

use std::path::PathBuf;

use proptest::prelude::*;
use ronde_protocol::work::{EndReason, ToolOutcome, TurnEvent};
use serde_json::{Value, json};

use crate::support::{Noted, Setting, bed, check_laws};

fn long_script() -> Value {
    json!([
        { "text": "I look.", "tools": [
            { "name": "read", "input": { "path": "a" } },
            { "name": "read", "input": { "path": "none" } },
            { "name": "edit", "input": { "path": "a", "old": "1", "new": "2" } },
            { "name": "read", "input": { "path": "a" } },
            { "name": "fly", "input": {} },
            { "name": "write", "input": { "path": "d/new", "content": "x" } }
        ] },
        { "tools": [{ "name": "shell", "input": { "command": "cat a d/new; echo y > made" } }] },
        { "text": "Done." }
    ])
}

#[tokio::test]
async fn a_whole_turn() {
    let bed = bed(&long_script(), Setting::default());
    bed.put("a", "1\n");
    let end = bed.run().await;
    assert_eq!(end.reason, EndReason::Finished);
    assert_eq!(
        (end.claim.as_str(), end.iterations, end.metered),
        ("Done.", 3, true)
    );
    let log = bed.log();
    check_laws(&log).expect("the laws hold");
    let results = log.results();
    let shown: Vec<_> = results
        .iter()
        .map(|(text, error)| (text.as_str(), *error))
        .collect();
    assert_eq!(
        shown,
        [
            ("1\n", false),
            (
                "cannot read none: No such file or directory (os error 2)",
                true
            ),
            ("edited a", false),
            ("2\n", false),
            (
                "there is no tool `fly`; the tools are read, edit, write, shell, ask_person",
                true
            ),
            ("wrote d/new (1 bytes)", false),
            ("2\nx\n[exit code 0]", false),
        ]
    );
    assert_eq!(bed.get("made").as_deref(), Some("y\n"));
    // The transcript is the last thing stored, and holds the whole conversation.
    let transcript = String::from_utf8(log.artefacts.last().expect("a transcript").clone());
    let transcript = transcript.expect("text");
    for part in ["Do it.", "Be brief.", "I look.", "wrote d/new", "Done."] {
        assert!(transcript.contains(part), "{part}");
    }
    assert!(end.output.is_some() && end.usage.input > 0 && end.usage.output > 0);
}

#[tokio::test]
async fn nothing_is_done_before_it_is_written_down() {
    let file = std::sync::Arc::new(std::sync::OnceLock::<PathBuf>::new());
    let seen = std::sync::Arc::new(std::sync::Mutex::new(vec![]));
    let (path, saw) = (file.clone(), seen.clone());
    let setting = Setting {
        look: Some(Box::new(move |event| {
            let exists = path.get().expect("set before the turn").exists();
            match event {
                TurnEvent::ToolStarted { tool, .. } => {
                    saw.lock().expect("lock").push((tool.clone(), exists))
                }
                TurnEvent::ToolEnded { .. } => {
                    saw.lock().expect("lock").push(("end".into(), exists))
                }
                _ => {}
            }
        })),
        ..Setting::default()
    };
    let script = json!([
        { "tools": [{ "name": "write", "input": { "path": "x", "content": "" } }] },
        { "tools": [{ "name": "shell", "input": { "command": "rm x" } }] },
        { "text": "ok" }
    ]);
    let bed = bed(&script, setting);
    file.set(bed.file("x")).expect("once");
    bed.run().await;
    let want = [
        ("write", false),
        ("end", true),
        ("shell", true),
        ("end", false),
    ];
    let seen = seen.lock().expect("lock");
    let seen: Vec<_> = seen
        .iter()
        .map(|(tool, exists)| (tool.as_str(), *exists))
        .collect();
    assert_eq!(seen, want);
}

/// Wherever the journal says stop, nothing happens after it but settling what was begun.
#[tokio::test]
async fn stopped_at_any_event_it_does_nothing_more() {
    let whole = bed(&long_script(), Setting::default());
    whole.put("a", "1\n");
    whole.run().await;
    let all = whole.log().events();
    for at in 1..all.len() {
        let bed = bed(
            &long_script(),
            Setting {
                stop_at: Some(at),
                ..Setting::default()
            },
        );
        bed.put("a", "1\n");
        let end = bed.run().await;
        assert_eq!(end.reason, EndReason::Stopped, "stopped at event {at}");
        let log = bed.log();
        check_laws(&log).expect("the laws hold");
        // Beside each other, several reads are begun before the first ends.
        let events = log.events();
        assert_eq!(events, all[..events.len()], "stopped at event {at}");
        assert_eq!(events.len(), at, "stopped at event {at}");
        let last = log
            .noted
            .iter()
            .rposition(|noted| matches!(noted, Noted::Event(_)));
        for noted in &log.noted[last.expect("an event") + 1..] {
            assert!(
                matches!(noted, Noted::Settled(_) | Noted::Stored(_)),
                "{noted:?}"
            );
        }
        let write = all.iter().find_map(|event| match event {
            TurnEvent::ToolStarted { id, tool, .. } if tool == "write" => Some(id),
            _ => None,
        });
        let written = events
            .iter()
            .any(|event| matches!(event, TurnEvent::ToolEnded { id, .. } if Some(id) == write));
        assert_eq!(bed.get("d/new").is_some(), written, "stopped at event {at}");
    }
}

/// Answers of a model that knows the tools badly.
fn answers() -> impl Strategy<Value = Vec<Value>> {
    let path = prop::sample::select(vec!["a", "b", "d/c", "../x", ".git/x", "", "link"]);
    let text = "[ab\n]{0,3}";
    let tool = prop_oneof![
        path.clone()
            .prop_map(|path| json!({ "name": "read", "input": { "path": path } })),
        (path.clone(), text).prop_map(
            |(path, text)| json!({ "name": "write", "input": { "path": path, "content": text } })
        ),
        (path, text, text, any::<bool>()).prop_map(|(path, old, new, all)| json!({
            "name": "edit",
            "input": { "path": path, "old": old, "new": new, "replace_all": all }
        })),
        Just(json!({ "name": "read", "input": { "pth": "a" } })),
        Just(json!({ "name": "nothing" })),
        Just(json!({ "name": "shell", "input": { "command": "rm a", "timeout": 0 } })),
    ];
    let answer = (
        prop::option::of("[a-z]{1,8}"),
        prop::collection::vec(tool, 0..6),
        prop::option::weighted(0.1, Just("max_tokens")),
    )
        .prop_map(|(text, tools, stop)| {
            let mut answer = json!({ "text": text.unwrap_or_else(|| "go".into()), "tools": tools });
            if let Some(stop) = stop {
                answer["stop"] = json!(stop);
            }
            answer
        });
    let failure = prop::sample::select(vec!["retryable", "unknown"]).prop_map(
        |kind| json!({ "error": { "kind": kind, "message": "busy", "retry_after_ms": 0 } }),
    );
    prop::collection::vec(prop_oneof![6 => answer, 1 => failure], 1..9)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]
    #[test]
    fn the_laws_hold_for_any_script(answers in answers(), stop_at in prop::option::weighted(0.3, 1usize..20)) {
        let bed = bed(&Value::Array(answers), Setting { stop_at, ..Setting::default() });
        bed.put("a", "ab\nab");
        std::os::unix::fs::symlink("..", bed.file("link")).expect("a link");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let end = runtime.block_on(bed.run());
        let log = bed.log();
        prop_assert_eq!(check_laws(&log), Ok(()));
        prop_assert!(bed.get("../x").is_none());
        let calls = log.events().iter().filter(|event| matches!(event, TurnEvent::CallStarted { .. })).count();
        prop_assert!(usize::try_from(end.iterations).expect("few") <= calls);
        let refused_or_failed = log.events().iter().all(|event| {
            !matches!(event, TurnEvent::ToolEnded { outcome: ToolOutcome::Unknown, .. })
        });
        prop_assert!(refused_or_failed, "a tool broke");
    }
}
