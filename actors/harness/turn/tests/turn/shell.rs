//! The shell tool with real processes.

use ronde_protocol::work::EndReason;
use serde_json::{Value, json};

use crate::support::{Bed, Setting, bed};

fn shell(command: &str) -> Value {
    json!({ "name": "shell", "input": { "command": command } })
}

async fn outputs(commands: &[&str]) -> (Bed, Vec<(String, bool)>) {
    let tools: Vec<_> = commands.iter().map(|command| shell(command)).collect();
    let bed = bed(
        &json!([{ "tools": tools }, { "text": "ok" }]),
        Setting::default(),
    );
    assert_eq!(bed.run().await.reason, EndReason::Finished);
    let results = bed.log().results();
    (bed, results)
}

#[tokio::test]
async fn output_exit_and_odd_bytes() {
    let (_bed, results) = outputs(&[
        "echo out; echo err >&2; exit 3",
        "true",
        "printf 'caf\\351'",
        "kill -9 $$",
        "cat",
    ])
    .await;
    let want = [
        ("out\nerr\n[exit code 3]", true),
        ("[no output, exit code 0]", false),
        ("caf\u{fffd}\n[exit code 0]", false),
        ("[killed by signal 9]", true),
        ("[no output, exit code 0]", false),
    ];
    assert_eq!(
        results,
        want.map(|(text, is_error)| (text.to_owned(), is_error))
    );
}

#[tokio::test]
async fn it_writes_in_the_workspace_and_in_its_own_folder_only() {
    let outside = tempfile::tempdir().expect("a folder");
    let path = outside.path().join("x").display().to_string();
    let (bed, results) = outputs(&[
        &format!("echo > {path}"),
        "echo in > a && echo tmp > $TMPDIR/b && cat $TMPDIR/b",
        "env",
    ])
    .await;
    assert!(
        results[0].1 && !outside.path().join("x").exists(),
        "{results:?}"
    );
    assert_eq!(results[1], ("tmp\n[exit code 0]".to_owned(), false));
    assert_eq!(bed.get("a").as_deref(), Some("in\n"));
    // The test's own environment does not reach it.
    let env = &results[2].0;
    assert!(
        env.contains("PATH=") && !env.contains("CARGO_PKG_NAME"),
        "{env}"
    );
}

#[tokio::test]
async fn long_output_is_cut_and_kept_whole() {
    let (bed, results) = outputs(&["seq 1 20000; echo end"]).await;
    let (text, _) = &results[0];
    assert!(text.len() < 32 * 1024, "{}", text.len());
    assert!(
        text.starts_with("1\n2\n") && text.contains("\nend\n"),
        "{text}"
    );
    let log = bed.log();
    let whole = log
        .artefacts
        .iter()
        .find(|bytes| bytes.ends_with(b"20000\nend\n"))
        .expect("the whole");
    assert!(whole.starts_with(b"1\n2\n"));
    let id = ronde_protocol::ArtefactId::of(whole);
    assert!(text.contains(id.as_str()), "the result names it: {text}");
    assert!(!bed.turn.spool.exists());
}

#[tokio::test]
async fn a_time_limit_kills_the_tree() {
    let input = json!({ "command": "(trap '' TERM; while :; do sleep 1; done) & echo $! > pid; wait", "timeout": 1 });
    let script = json!([{ "tools": [{ "name": "shell", "input": input }] }, { "text": "ok" }]);
    let bed = bed(&script, Setting::default());
    assert_eq!(bed.run().await.reason, EndReason::Finished);
    let (text, is_error) = bed.log().results().remove(0);
    assert!(
        is_error && text.contains("killed after 1 seconds"),
        "{text}"
    );
    gone(&bed);
}

#[tokio::test]
async fn a_stop_kills_the_tree_and_ends_the_turn() {
    let command = "mkfifo up; (while :; do sleep 1; done) & echo $! > pid; echo > up; wait";
    let bed = bed(
        &json!([{ "tools": [shell(command)] }, { "text": "ok" }]),
        Setting::default(),
    );
    let up = bed.file("up");
    let run = bed.run();
    let stop = async {
        // The command makes the pipe; opening it waits until the command writes to it.
        while !up.exists() {
            tokio::task::yield_now().await;
        }
        tokio::task::spawn_blocking(move || std::fs::read(up))
            .await
            .expect("no panic")
            .expect("a pipe");
        bed.stop.send_replace(true);
    };
    let (end, ()) = tokio::join!(run, stop);
    assert_eq!(end.reason, EndReason::Stopped);
    assert_eq!(end.iterations, 1);
    gone(&bed);
}

fn gone(bed: &Bed) {
    let pid = bed.get("pid").expect("a pid");
    assert!(
        !std::path::Path::new("/proc").join(pid.trim()).exists(),
        "{pid} is alive"
    );
}
