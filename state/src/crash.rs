//! A crash on demand, for tests of the whole program, in debug builds only: with
//! `RONDE_TEST_KILL_AFTER=N` the process kills itself right after the N-th record it made durable, before
//! anybody is told of it. In a release build nothing of this is there.

/// Whether a crash is ordered: each record is then made durable by itself, so that every one of them
/// can be the last.
#[cfg(debug_assertions)]
pub(crate) fn armed() -> bool {
    kill_after().is_some()
}

#[cfg(not(debug_assertions))]
pub(crate) const fn armed() -> bool {
    false
}

/// Counts a record that is on stable storage, and does not return if it was the last.
#[cfg(debug_assertions)]
pub(crate) fn durable() {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);

    let Some(last) = kill_after() else { return };
    if COUNT.fetch_add(1, Ordering::SeqCst) + 1 >= last {
        loop {
            // SIGKILL cannot fail on oneself; should it be late, nothing more happens here.
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
            std::thread::park();
        }
    }
}

#[cfg(not(debug_assertions))]
pub(crate) const fn durable() {}

#[cfg(debug_assertions)]
fn kill_after() -> Option<u64> {
    use std::sync::LazyLock;
    static KILL_AFTER: LazyLock<Option<u64>> =
        LazyLock::new(|| std::env::var("RONDE_TEST_KILL_AFTER").ok()?.parse().ok());
    *KILL_AFTER
}
