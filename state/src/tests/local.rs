//! The conformance suite over both stores, and what only the one on disk must do.

use std::{path::Path, sync::Arc};

use ronde_protocol::Clock;

use crate::{
    conformance::{self, SetClock},
    local::LocalStore,
    memory::MemoryStore,
    store::Store,
};

fn clock() -> Arc<dyn Clock> {
    Arc::new(SetClock::default())
}

fn open(home: &Path) -> LocalStore {
    LocalStore::open(home, std::process::id(), clock()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_conforms() {
    conformance::all(async || Arc::new(MemoryStore::new(1, clock())) as Arc<dyn Store>).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn local_conforms() {
    let dir = tempfile::tempdir().unwrap();
    let next = std::sync::atomic::AtomicU32::new(0);
    conformance::all(async || {
        let n = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Arc::new(open(&dir.path().join(n.to_string()))) as Arc<dyn Store>
    })
    .await;
}
