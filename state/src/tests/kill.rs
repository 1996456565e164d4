//! A crash on demand: the process dies right after the N-th durable record, and that record is there.

use std::{os::unix::process::ExitStatusExt as _, path::Path};

use super::local::{first, open};
use crate::{
    conformance::{at, firing, loop_name, project},
    event::{HomeEvent, RunEvent},
    local::LocalReader,
    store::Store,
};

const HOME: &str = "RONDE_TEST_KILL_HOME";

/// Nine records: five of the home, then two of a run and two of the home in one commit.
async fn nine_records(home: &Path) {
    let mark = |n| HomeEvent::Watermark {
        project: project(),
        loop_name: loop_name(),
        trigger: "t".into(),
        upto: at(n),
    };
    let store = open(home);
    store.timer_at("t", at(1)).await.unwrap();
    store.timer_at("u", at(1)).await.unwrap();
    store
        .fire_once(firing("a"), Path::new("/p"), None)
        .await
        .unwrap();
    let lease = store
        .lease(&firing("a").run, "me", at(0), at(60))
        .await
        .unwrap();
    store.append(&lease, 1, at(1), &first("a")).await.unwrap();
    store
        .append(&lease, 2, at(1), &RunEvent::TimeUp)
        .await
        .unwrap();
    store.record(vec![mark(1), mark(2)]).await.unwrap();
}

/// Runs as a child of the test below; by itself it has nothing to do.
#[tokio::test]
async fn child() {
    if let Some(home) = std::env::var_os(HOME) {
        nine_records(Path::new(&home)).await;
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "this test itself is the child")]
fn the_process_dies_after_each_record() {
    for last in 1..=10_u64 {
        let dir = tempfile::tempdir().unwrap();
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::kill::child"])
            .env("RONDE_TEST_KILL_AFTER", last.to_string())
            .env(HOME, dir.path())
            .output()
            .unwrap();
        let killed = child.status.signal() == Some(9);
        assert_eq!(killed, last <= 9, "{last}: {child:?}");
        let reader = LocalReader::open(dir.path()).unwrap();
        let run = reader
            .read_run(&firing("a").run, 1)
            .unwrap_or_default()
            .len() as u64;
        assert_eq!(reader.home().seq() + run, last.min(9));
        assert_eq!(run, last.clamp(5, 7) - 5);
    }
}
