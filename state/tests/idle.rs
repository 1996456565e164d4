//! An open home that nobody uses wakes nobody. A test program of its own: the index's threads belong to
//! the process, and another test may have started them first.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{fs, io::ErrorKind, pin::Pin, sync::Arc};

use ronde_protocol::{Clock, Timestamp};
use ronde_state::{local::LocalStore, store::Store as _};

/// An hour, in nanoseconds.
const LATE: u64 = 3_600_000_000_000;

struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn reached(&self, _: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn the_threads_of_the_index_sleep_through() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::open(dir.path(), std::process::id(), Arc::new(Stopped)).unwrap();
    store.timer_at("a", Timestamp::UNIX_EPOCH).await.unwrap();
    // Comes back once the index stands.
    store.newest(1).await;

    let mut seen = 0;
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap();
        let Ok(name) = fs::read_to_string(task.path().join("comm")) else {
            continue;
        };
        if !name.starts_with("sled-io-") {
            continue;
        }
        seen += 1;
        let of_thread = std::path::Path::new("/proc").join(task.file_name());
        match fs::read_to_string(of_thread.join("timerslack_ns")) {
            Ok(slack) => assert_eq!(slack.trim().parse::<u64>().unwrap(), LATE, "{name}"),
            // Only who may set the priority of others may see how late their timers may be.
            Err(error) => assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{name}"),
        }
    }
    assert!(seen > 0, "sled has threads of another name now");
}
