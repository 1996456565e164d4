//! The presets, over stand-ins: shell scripts named `claude`, `codex` and `opencode` that speak the
//! protocol of those programs. The real ones need keys and a network, so they are not run here.

use ronde_protocol::{
    MicroUsd, Usage,
    outcome::{Exit, Limit},
    work::{AttemptEnd, EndReason, Progress},
};
use ronde_worker::Agent;

use crate::support::{Bed, CANARY, canary, failed};

const RESULT: &str = r#"{"type":"result","subtype":"success","is_error":false,"num_turns":2,"result":"Done.","total_cost_usd":0.01,"usage":{"input_tokens":1,"output_tokens":2}}"#;

async fn claude(script: &str) -> (Bed, AttemptEnd) {
    let bed = Bed::new();
    bed.program("claude", script);
    let end = bed
        .run(Agent::Claude {
            model: Some("opus".into()),
        })
        .await;
    (bed, end)
}

#[tokio::test]
async fn a_stand_in_for_claude_that_finishes() {
    let script = format!(
        r#"printf '%s\n' "$@" > args; env > env; cat > prompt; echo state > "$HOME/.claude/x" || exit 9
echo noise >&2
echo '{{"type":"assistant","message":{{"content":[{{"type":"text","text":"I look."}}]}},"parent_tool_use_id":null}}'
echo 'not json'
echo '{RESULT}'"#
    );
    let (bed, end) = claude(&script).await;
    assert_eq!(end.reason, EndReason::Finished, "{end:?}");
    let usage = Usage {
        input: 1,
        output: 2,
        cost: MicroUsd(10_000),
        ..Usage::default()
    };
    assert_eq!(
        (end.claim.as_str(), end.iterations, end.usage),
        ("Done.", 2, usage)
    );
    let read = |name: &str| std::fs::read_to_string(bed.path(name)).expect("a file");
    assert!(
        read("work/args")
            .contains("--permission-mode\nbypassPermissions\n--max-turns\n9\n--model\nopus")
    );
    let prompt = read("work/prompt");
    assert!(prompt.starts_with("The prompt, é.") && prompt.contains("RONDE_QUESTION_FILE"));
    let env = read("work/env");
    assert!(
        env.contains("IS_SANDBOX=1") && env.contains("DISABLE_AUTOUPDATER=1"),
        "{env}"
    );
    assert!(!env.contains(&canary()) && !env.contains(CANARY), "{env}");
    assert!(bed.path("home/.claude/x").exists());
    let news = bed.news.lock().expect("lock");
    assert!(
        news.contains(&Progress::Text {
            text: "I look.".into()
        }),
        "{news:?}"
    );
}

#[tokio::test]
async fn a_stand_in_for_claude_that_does_not_finish() {
    // An interrupted tool: exit code 0, and still no success.
    let broken = RESULT
        .replace("false", "true")
        .replace("success", "error_during_execution");
    let (_, end) = claude(&format!("echo '{broken}'")).await;
    assert!(failed(&end).contains("error_during_execution"), "{end:?}");
    assert_eq!(end.exit, Some(Exit::Code { code: 0 }));
    // A good result and a bad exit.
    let (_, end) = claude(&format!("echo '{RESULT}'; exit 1")).await;
    assert!(failed(&end).contains("exit code 1"), "{end:?}");
    // No result at all.
    let (_, end) = claude("echo oops >&2").await;
    assert!(
        failed(&end).contains("without a result line") && failed(&end).contains("oops"),
        "{end:?}"
    );
    let turns = r#"{"type":"result","subtype":"error_max_turns","is_error":true}"#;
    let (_, end) = claude(&format!("echo '{turns}'; exit 1")).await;
    assert_eq!(
        end.reason,
        EndReason::Limit {
            limit: Limit::Iterations
        }
    );
    let (_, end) = claude(&format!(
        "echo Why > \"$RONDE_QUESTION_FILE\"; echo '{RESULT}'"
    ))
    .await;
    assert_eq!(end.reason, EndReason::Question { text: "Why".into() });
    let mut none = Bed::new();
    none.request.env[0].1 = none.path("bin").into();
    let end = none.run(Agent::Claude { model: None }).await;
    assert!(
        matches!(&end.reason, EndReason::Unstartable { error } if error.contains("claude")),
        "{end:?}"
    );
}

#[tokio::test]
async fn a_result_after_more_output_than_is_read_at_once() {
    let script = format!("head -c 20000000 /dev/zero | tr '\\0' x; echo; echo '{RESULT}'");
    let (_, end) = claude(&script).await;
    assert_eq!(
        (end.reason, end.claim.as_str()),
        (EndReason::Finished, "Done.")
    );
}

#[tokio::test]
async fn a_stand_in_for_codex() {
    let mut bed = Bed::new();
    bed.set("CODEX_HOME", bed.path("home/codex"));
    bed.program(
        "codex",
        r#"test "$(eval echo \${$#})" = - || exit 8; cat > prompt; echo x > "$CODEX_HOME/x" || exit 9
echo '{"type":"item.completed","item":{"type":"agent_message","text":"Done."}}'
echo '{"type":"turn.completed","usage":{"input_tokens":9,"cached_input_tokens":4,"output_tokens":1}}'"#,
    );
    let end = bed.run(Agent::Codex { model: None }).await;
    assert_eq!(
        (end.reason, end.claim.as_str()),
        (EndReason::Finished, "Done.")
    );
    assert_eq!((end.usage.input, end.usage.cached), (5, 4));
    bed.program(
        "codex",
        r#"echo '{"type":"turn.failed","error":{"message":"no quota"}}'; exit 1"#,
    );
    let end = bed.run(Agent::Codex { model: None }).await;
    assert!(failed(&end).contains("codex: no quota"), "{end:?}");
}

#[tokio::test]
async fn a_stand_in_for_opencode() {
    let bed = Bed::new();
    bed.program(
        "opencode",
        r#"cat > prompt; echo x > "$HOME/.local/share/opencode/x" || exit 9
echo '{"type":"step_start","part":{}}'
echo '{"type":"text","part":{"text":"Done."}}'
echo '{"type":"step_finish","part":{"reason":"stop","tokens":{"input":1,"output":2},"cost":0}}'"#,
    );
    let end = bed.run(Agent::OpenCode { model: None }).await;
    assert_eq!(
        (end.reason, end.claim.as_str(), end.iterations),
        (EndReason::Finished, "Done.", 1)
    );
    // A permission that was refused: exit code 0 and no last word.
    bed.program(
        "opencode",
        r#"echo '{"type":"step_start","part":{}}'; echo '{"type":"step_finish","part":{"reason":"tool-calls"}}'"#,
    );
    let end = bed.run(Agent::OpenCode { model: None }).await;
    assert!(
        failed(&end).contains("opencode: it ended in the middle"),
        "{end:?}"
    );
}
