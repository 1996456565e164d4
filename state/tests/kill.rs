//! A crash on demand: the process dies right after the N-th durable record, and that record is there.
//! A test program of its own: a child that is being started holds, for a moment, every lock its
//! parent has.

#![cfg(debug_assertions)]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{os::unix::process::ExitStatusExt as _, path::Path, pin::Pin, sync::Arc};

use ronde_protocol::{
    ArtefactId, Clock, LoopName, ProjectId, RunId, SlotId, Timestamp,
    firing::{Cause, Firing},
};
use ronde_state::{
    event::{HomeEvent, RunEvent},
    local::{LocalReader, LocalStore},
    store::Store,
};

const HOME: &str = "RONDE_TEST_KILL_HOME";
const NOW: Timestamp = Timestamp::UNIX_EPOCH;

struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        NOW
    }

    fn reached(&self, _: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }
}

fn firing() -> Firing {
    let loop_name = LoopName::new("nightly").unwrap();
    let project = ProjectId::of("/p");
    let slot = SlotId::manual(&project, &loop_name, "a");
    Firing {
        run: RunId::of(&loop_name, &slot),
        slot,
        project,
        loop_name,
        cause: Cause::Person,
        due: NOW,
        definition: ArtefactId::of("definition"),
    }
}

/// Nine records: five of the home, then two of a run, then two of the home in one commit.
async fn nine_records(home: &Path) {
    let Firing {
        run,
        project,
        loop_name,
        ..
    } = firing();
    let mark = HomeEvent::Watermark {
        project,
        loop_name,
        trigger: "t".into(),
        upto: NOW,
    };
    let store = LocalStore::open(home, std::process::id(), Arc::new(Stopped)).unwrap();
    store.timer_at("t", NOW).await.unwrap();
    store.timer_at("u", NOW).await.unwrap();
    store
        .fire_once(firing(), Path::new("/p"), None)
        .await
        .unwrap();
    let lease = store.lease(&run, "me", NOW, NOW).await.unwrap();
    let fired = RunEvent::Fired {
        firing: firing(),
        root: "/p".into(),
    };
    store.append(&lease, 1, NOW, &fired).await.unwrap();
    store
        .append(&lease, 2, NOW, &RunEvent::TimeUp)
        .await
        .unwrap();
    store.record(vec![mark.clone(), mark]).await.unwrap();
}

/// Runs as a child of the test below; by itself it has nothing to do.
#[tokio::test]
async fn child() {
    if let Some(home) = std::env::var_os(HOME) {
        nine_records(Path::new(&home)).await;
    }
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the child is this test program itself"
)]
fn the_process_dies_after_each_record() {
    for last in 1..=10_u64 {
        let dir = tempfile::tempdir().unwrap();
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child"])
            .env("RONDE_TEST_KILL_AFTER", last.to_string())
            .env(HOME, dir.path())
            .output()
            .unwrap();
        let killed = child.status.signal() == Some(9);
        assert_eq!(killed, last <= 9, "{last}: {child:?}");
        let reader = LocalReader::open(dir.path()).unwrap();
        let run = reader.read_run(&firing().run, 1).unwrap_or_default().len() as u64;
        assert_eq!(reader.home().seq() + run, last.min(9));
        assert_eq!(run, last.clamp(5, 7) - 5);
    }
}
