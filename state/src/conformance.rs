//! What every store must do, as tests that any implementation runs: `all` with a way to make a new,
//! empty store. They panic where a store does not hold.

mod budget;
mod fire;
mod follow;
mod inbox;
mod keep;
mod queue;
mod run;

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use ronde_protocol::{
    ArtefactId, Clock, LoopName, ProjectId, RunId, SlotId,
    firing::{Cause, Firing},
};

use crate::store::{Error, Fired, Lease, Store};

/// Runs every test, each on a store of its own.
///
/// # Panics
/// Where the store does not hold.
pub async fn all(fresh: impl AsyncFn() -> Arc<dyn Store>) {
    fire::one_winner(fresh().await).await;
    fire::events_without_a_decision(fresh().await).await;
    fire::all_or_none(fresh().await).await;
    fire::rests_and_ends(fresh().await).await;
    run::journal(fresh().await).await;
    run::leases(fresh().await).await;
    run::an_old_owner_is_fenced(fresh().await).await;
    run::of_many_appends_one_wins(fresh().await).await;
    budget::never_over_a_limit(fresh().await).await;
    budget::settling(fresh().await).await;
    budget::a_run_that_has_ended_pays_no_more(fresh().await).await;
    inbox::items(fresh().await).await;
    inbox::the_first_answer_stands(fresh().await).await;
    queue::tasks(fresh().await).await;
    queue::each_task_once(fresh().await).await;
    queue::timers(fresh().await).await;
    follow::home(fresh().await).await;
    follow::from_the_middle(fresh().await).await;
    follow::run(fresh().await).await;
    keep::artefacts(fresh().await).await;
    keep::state_files(fresh().await).await;
}

/// A clock that shows what it is told.
#[derive(Debug)]
pub struct SetClock(Mutex<Timestamp>);

impl Default for SetClock {
    fn default() -> Self {
        Self(Mutex::new(at(0)))
    }
}

impl SetClock {
    /// Sets it.
    pub fn set(&self, now: Timestamp) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reached(
        &self,
        _: Timestamp,
    ) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + 'static>> {
        // The store only ever asks for the time.
        Box::pin(std::future::pending())
    }
}

#[cfg(test)]
pub(crate) use inbox::item;

/// Seconds after an instant of 2026.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_780_000_000 + seconds)
}

pub(crate) fn project() -> ProjectId {
    ProjectId::of("/p")
}

pub(crate) fn loop_name() -> LoopName {
    LoopName::new("nightly").expect("a good name")
}

/// The firing of a slot named by `nonce`.
pub(crate) fn firing(nonce: &str) -> Firing {
    let slot = SlotId::manual(&project(), &loop_name(), nonce);
    Firing {
        run: RunId::of(&loop_name(), &slot),
        slot,
        project: project(),
        loop_name: loop_name(),
        cause: Cause::Person,
        due: at(0),
        definition: ArtefactId::of("definition"),
    }
}

/// Fires a slot that is free.
async fn fired(store: &Arc<dyn Store>, nonce: &str) -> RunId {
    match store
        .fire_once(firing(nonce), Path::new("/p"), None)
        .await
        .expect("fires")
    {
        Fired::Won(run) => run,
        Fired::Already(run) => panic!("{nonce} was {run} already"),
    }
}

/// Fires a slot and takes its run.
async fn begun(store: &Arc<dyn Store>, nonce: &str) -> Lease {
    let run = fired(store, nonce).await;
    store
        .lease(&run, "me", at(0), at(60))
        .await
        .expect("a lease")
}

#[track_caller]
fn illegal<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert!(
        matches!(result, Err(Error::Illegal { .. })),
        "{result:?} is not `Illegal`"
    );
}

#[track_caller]
fn missing<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert!(
        matches!(result, Err(Error::Missing { .. })),
        "{result:?} is not `Missing`"
    );
}

#[track_caller]
fn fenced<T: std::fmt::Debug>(result: Result<T, Error>, newest: u64) {
    match result {
        Err(Error::Fenced { epoch, .. }) if epoch == newest => {}
        other => panic!("{other:?} is not `Fenced` by {newest}"),
    }
}
