//! The ways a turn ends other than by being finished.

use std::{future::pending, sync::Arc};

use ronde_model::{CallPlace, Model, ModelError, Prices, wire};
use ronde_protocol::{
    Amount, Digest, MicroUsd,
    access::{Level, OnAsk, Rules},
    outcome::Limit,
    work::{EndReason, ToolOutcome, TurnEvent},
};
use serde_json::{Value, json};

use crate::support::{Noted, Setting, bed, check_laws, priced, with_model};

fn failed(reason: &EndReason) -> &str {
    match reason {
        EndReason::Failed { error } => error,
        other => panic!("{other:?}"),
    }
}

fn read(path: &str) -> Value {
    json!({ "tools": [{ "name": "read", "input": { "path": path } }] })
}

#[tokio::test]
async fn a_question_ends_the_turn_and_what_came_before_it_is_done() {
    let script = json!([{ "tools": [
        { "name": "write", "input": { "path": "a", "content": "1" } },
        { "name": "ask_person", "input": { "question": " Which one? " } },
        { "name": "write", "input": { "path": "b", "content": "1" } }
    ] }]);
    let bed = bed(&script, Setting::default());
    let end = bed.run().await;
    assert_eq!(
        end.reason,
        EndReason::Question {
            text: "Which one?".into()
        }
    );
    assert_eq!((bed.get("a").as_deref(), bed.get("b")), (Some("1"), None));
    let transcript = bed.log().artefacts.last().cloned().expect("a transcript");
    let transcript = String::from_utf8(transcript).expect("text");
    assert_eq!(transcript.matches("not run: the turn ended").count(), 2);
}

#[tokio::test]
async fn what_needs_a_yes_waits_for_it_or_is_refused() {
    let script = json!([
        { "tools": [{ "name": "shell", "input": { "command": "touch made" } }] },
        { "text": "ok", "expect": { "prompt_contains": "nobody is there" } }
    ]);
    let rules = Rules {
        ask: vec!["shell(touch *)".into()],
        ..Rules::default()
    };
    let with = |on_ask| {
        bed(
            &script,
            Setting {
                rules: rules.clone(),
                on_ask,
                ..Setting::default()
            },
        )
    };

    let refused = with(OnAsk::Refuse);
    assert_eq!(refused.run().await.reason, EndReason::Finished);
    assert!(refused.get("made").is_none());
    let outcome = refused
        .log()
        .events()
        .into_iter()
        .find_map(|event| match event {
            TurnEvent::ToolEnded { outcome, .. } => Some(outcome),
            _ => None,
        });
    assert_eq!(outcome, Some(ToolOutcome::Refused));

    let mut waits = with(OnAsk::Wait);
    let EndReason::Approval { action, text } = waits.run().await.reason else {
        panic!("it waits for a yes");
    };
    assert!(
        text.contains("touch made") && waits.get("made").is_none(),
        "{text}"
    );
    // Nothing began, so nothing is written down as begun.
    let started = waits
        .log()
        .events()
        .iter()
        .any(|e| matches!(e, TurnEvent::ToolStarted { .. }));
    assert!(!started);

    waits.ports.approved.insert(Digest::of("something else"));
    assert!(matches!(
        waits.run().await.reason,
        EndReason::Approval { .. }
    ));
    waits.ports.approved.insert(action);
    // The second answer of the script expects a refusal, so it fails; the action was done.
    waits.run().await;
    assert!(waits.get("made").is_some());
}

#[tokio::test]
async fn a_yes_to_a_change_is_not_a_yes_to_another_one_of_the_same_file() {
    let write = |content: &str| json!({ "name": "write", "input": { "path": "secret.txt", "content": content } });
    let edit = |new: &str| json!({ "name": "edit", "input": { "path": "secret.txt", "old": "first", "new": new } });
    let waits = |call: &Value| {
        let rules = Rules {
            ask: vec!["edit(secret.txt)".into()],
            ..Rules::default()
        };
        let setting = Setting {
            rules,
            on_ask: OnAsk::Wait,
            ..Setting::default()
        };
        let bed = bed(&json!([{ "tools": [call] }, { "text": "ok" }]), setting);
        bed.put("secret.txt", "first");
        bed
    };
    let table = [
        (write("harmless"), write("harmful"), "harmless"),
        (edit("harmless"), edit("harmful"), "harmless"),
        (edit("harmless"), write("harmless"), "harmless"),
    ];
    for (call, other, after) in table {
        let mut asks = waits(&call);
        let EndReason::Approval { action, text } = asks.run().await.reason else {
            panic!("it waits for a yes");
        };
        assert!(text.starts_with("edit: secret.txt\n"), "{text}");
        assert!(text.contains("\n+ harmless\n"), "{text}");
        assert_eq!(asks.get("secret.txt").as_deref(), Some("first"));

        let mut another = waits(&other);
        another.ports.approved.insert(action.clone());
        let EndReason::Approval { action: asked, .. } = another.run().await.reason else {
            panic!("{other} was done with the yes to {call}");
        };
        assert_ne!(asked, action);
        assert_eq!(another.get("secret.txt").as_deref(), Some("first"));

        asks.ports.approved.insert(action);
        assert_eq!(asks.run().await.reason, EndReason::Finished);
        assert_eq!(asks.get("secret.txt").as_deref(), Some(after));
    }
}

#[tokio::test]
async fn a_denied_tool_is_a_result_the_model_reads() {
    let rules = Rules {
        deny: vec!["edit(secret/**)".into()],
        ..Rules::default()
    };
    let script = json!([
        { "tools": [{ "name": "write", "input": { "path": "secret/x", "content": "" } }] },
        { "text": "ok", "expect": { "prompt_contains": "edit(secret/**)" } }
    ]);
    let bed = bed(
        &script,
        Setting {
            rules,
            ..Setting::default()
        },
    );
    assert_eq!(bed.run().await.reason, EndReason::Finished);
    assert!(bed.get("secret/x").is_none());
}

#[tokio::test]
async fn with_read_only_access_no_tool_changes_a_file() {
    let script = json!([
        { "tools": [
            { "name": "write", "input": { "path": "x", "content": "" } },
            { "name": "edit", "input": { "path": "a", "old": "1", "new": "2" } },
            { "name": "shell", "input": { "command": "echo 2 > a" } }
        ] },
        { "text": "ok" }
    ]);
    let bed = bed(
        &script,
        Setting {
            level: Level::ReadOnly,
            ..Setting::default()
        },
    );
    bed.put("a", "1");
    assert_eq!(bed.run().await.reason, EndReason::Finished);
    assert_eq!((bed.get("a").as_deref(), bed.get("x")), (Some("1"), None));
    assert!(bed.log().results().iter().all(|(_, is_error)| *is_error));
}

#[tokio::test]
async fn circles_end_the_turn() {
    let script: Vec<_> = (0..9).map(|_| read("a")).collect();
    let one = bed(&json!(script), Setting::default());
    let end = one.run().await;
    assert!(
        failed(&end.reason).contains("5 times in a row"),
        "{:?}",
        end.reason
    );
    assert_eq!(end.iterations, 5);
    // Two calls in turn, over many answers.
    let script: Vec<_> = (0..20).map(|n| read(["a", "b"][n % 2])).collect();
    let two = bed(&json!(script), Setting::default());
    let end = two.run().await;
    assert!(failed(&end.reason).contains("circles"), "{:?}", end.reason);
    assert_eq!(end.iterations, 8);
}

#[tokio::test]
async fn limits_end_the_turn_before_the_call() {
    let script: Vec<_> = (0..30).map(|n| read(&n.to_string())).collect();
    let mut few = bed(&json!(script), Setting::default());
    few.turn.iterations = 2;
    let end = few.run().await;
    assert_eq!(
        (end.reason, end.iterations),
        (
            EndReason::Limit {
                limit: Limit::Iterations
            },
            2
        )
    );

    let left = Amount {
        tokens: 20_000,
        cost: MicroUsd(u64::MAX),
    };
    let poor = bed(
        &json!(script),
        Setting {
            left,
            ..Setting::default()
        },
    );
    let end = poor.run().await;
    assert_eq!(
        end.reason,
        EndReason::Limit {
            limit: Limit::Tokens
        }
    );
    assert!(end.iterations > 0 && end.usage.amount().tokens <= 20_000);
    let asked = poor.log().requests.last().map(|request| request.max_output);
    assert!(
        asked < Some(ronde_turn::MAX_OUTPUT),
        "the output shrinks before a call is refused"
    );
    check_laws(&poor.log()).expect("the laws hold");
}

#[tokio::test]
async fn a_budget_of_money_is_never_overdrawn() {
    let calls: Vec<_> = (0..30).map(|n| read(&n.to_string())).collect();
    let script = json!({
        "attempts": [calls],
        "price": { "input": 3_000_000, "cached": 300_000, "cache_write": 3_750_000, "output": 15_000_000 }
    });
    let left = Amount {
        tokens: u64::MAX,
        cost: MicroUsd(60_000),
    };
    let bed = priced(
        &script,
        Setting {
            left,
            ..Setting::default()
        },
    );
    let end = bed.run().await;
    assert!(
        matches!(end.reason, EndReason::Limit { .. }),
        "{:?}",
        end.reason
    );
    assert!(
        end.usage.cost > MicroUsd(0) && end.usage.cost <= MicroUsd(60_000),
        "{:?}",
        end.usage
    );
}

#[tokio::test(start_paused = true)]
async fn errors_that_may_pass_are_tried_again_and_others_are_not() {
    let error = |kind: &str| json!({ "error": { "kind": kind, "message": "529 overloaded" } });
    let busy = error("retryable");
    let passes = bed(
        &json!([busy, error("unknown"), busy, { "text": "ok" }]),
        Setting::default(),
    );
    let end = passes.run().await;
    assert_eq!((end.reason, end.iterations), (EndReason::Finished, 4));
    let settled: Vec<_> = passes
        .log()
        .noted
        .iter()
        .filter_map(|noted| match noted {
            Noted::Settled(usage) => Some(usage.map(|usage| usage.amount().tokens > 0)),
            _ => None,
        })
        .collect();
    // What nobody knows is booked whole.
    assert_eq!(settled, [Some(false), None, Some(false), Some(true)]);
    let unknown = passes
        .log()
        .events()
        .into_iter()
        .filter_map(|event| match event {
            TurnEvent::CallEnded {
                usage,
                error: Some(_),
                ..
            } => Some(usage.amount().tokens),
            _ => None,
        });
    let unknown: Vec<_> = unknown.collect();
    assert!(unknown[0] == 0 && unknown[1] > u64::from(ronde_turn::MAX_OUTPUT) && unknown[2] == 0);

    let lasting = bed(
        &json!([busy, busy, busy, busy, { "text": "ok" }]),
        Setting::default(),
    );
    let end = lasting.run().await;
    assert!(failed(&end.reason).contains("529 overloaded"));
    assert_eq!(end.iterations, 4);

    for kind in ["fatal", "refused", "context_overflow"] {
        let bed = bed(&json!([error(kind), { "text": "ok" }]), Setting::default());
        let end = bed.run().await;
        assert!(failed(&end.reason).contains("529 overloaded"));
        assert_eq!(end.iterations, 1, "{kind}");
    }
}

#[tokio::test]
async fn the_end_of_the_script_is_an_error_and_never_a_success() {
    let bed = bed(&json!([read("a")]), Setting::default());
    let end = bed.run().await;
    assert!(
        failed(&end.reason).contains("the script ends after call 1"),
        "{:?}",
        end.reason
    );
}

#[tokio::test]
async fn nothing_of_an_answer_that_was_cut_off_is_run() {
    let write = json!({ "name": "write", "input": { "path": "x", "content": "" } });
    let script = json!([
        { "tools": [write], "stop": "max_tokens" },
        { "text": "half", "stop": "max_tokens", "expect": { "prompt_contains": "ask for less" } },
        { "text": "ok", "expect": { "prompt_contains": "smaller steps" } }
    ]);
    let cut = bed(&script, Setting::default());
    assert_eq!(cut.run().await.reason, EndReason::Finished);
    assert!(cut.get("x").is_none());
    check_laws(&cut.log()).expect("the laws hold");

    let script: Vec<_> = (0..4)
        .map(|_| json!({ "text": "half", "stop": "max_tokens" }))
        .collect();
    let end = bed(&json!(script), Setting::default()).run().await;
    assert!(failed(&end.reason).contains("cut off"), "{:?}", end.reason);
    assert_eq!(end.iterations, 3);

    let end = bed(
        &json!([{ "text": "no", "stop": "refusal" }]),
        Setting::default(),
    )
    .run()
    .await;
    assert!(failed(&end.reason).contains("refused"), "{:?}", end.reason);
}

/// A model that never answers.
struct Silent;

#[async_trait::async_trait]
impl Model for Silent {
    async fn call(&self, _: &wire::Request, _: CallPlace) -> Result<wire::Response, ModelError> {
        pending().await
    }

    fn prices(&self) -> Prices {
        Prices::FREE
    }
}

#[tokio::test]
async fn a_stop_leaves_a_call_and_books_it_whole() {
    let bed = with_model(Arc::new(Silent), Setting::default());
    let run = bed.run();
    tokio::pin!(run);
    // Until the call is made.
    while bed.log().requests.is_empty() {
        tokio::select! {
            end = &mut run => panic!("{end:?}"),
            () = tokio::task::yield_now() => {}
        }
    }
    bed.stop.send_replace(true);
    let end = run.await;
    assert_eq!(end.reason, EndReason::Stopped);
    assert!(end.usage.amount().tokens > u64::from(ronde_turn::MAX_OUTPUT));
    assert!(bed.log().noted.contains(&Noted::Settled(None)));
    check_laws(&bed.log()).expect("the laws hold");
    // Stopped before it begins, it does nothing.
    let calls = bed.log().requests.len();
    let end = bed.run().await;
    assert_eq!((end.reason, end.iterations), (EndReason::Stopped, 0));
    assert_eq!(bed.log().requests.len(), calls);
}

#[tokio::test]
async fn without_a_workspace_it_cannot_start() {
    let mut bed = bed(&json!([{ "text": "ok" }]), Setting::default());
    bed.turn.folder.push("gone");
    let end = bed.run().await;
    assert!(
        matches!(end.reason, EndReason::Unstartable { .. }),
        "{:?}",
        end.reason
    );
}
