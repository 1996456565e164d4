//! A process's hold on what is durable, which can be made to die at any of its writes, and a clock that
//! is set by hand. Everything else is the real store.

use std::{
    future::Future,
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use ronde_protocol::{
    Amount, ArtefactId, CallId, Clock, Digest, Epoch, ItemNumber, ProjectId, RunId, Seq, Timestamp,
    firing::Firing,
    handoff::{Answer, Item},
};
use ronde_state::{
    event::{HomeEvent, QueueItem, RunEvent, ScopeLimit},
    home::Home,
    journal::Record,
    local::LocalStore,
    store::{Cursor, Error, Fired, Lease, Reserved, Result, Store},
};

/// A clock that shows what it was set to.
pub(super) struct SetClock(Mutex<Timestamp>);

impl SetClock {
    pub(super) fn new(at: Timestamp) -> Self {
        Self(Mutex::new(at))
    }

    pub(super) fn turn(&self, seconds: i64) {
        let mut now = self.0.lock().expect("nobody panics with the clock in hand");
        *now += jiff::SignedDuration::from_secs(seconds);
    }
}

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().expect("nobody panics with the clock in hand")
    }

    fn reached(&self, _: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }
}

/// How a process dies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fuse {
    /// Writes it still makes.
    pub(super) after: u8,
    /// Whether the write it dies at reaches the disk all the same.
    pub(super) written: bool,
}

/// The store of a process that can die.
pub(super) struct Mortal {
    pub(super) store: LocalStore,
    fuse: Mutex<State>,
}

#[derive(Clone, Copy)]
enum State {
    Alive,
    Lit(Fuse),
    Dead,
}

enum Fate {
    Done,
    Lost,
    Unheard,
}

impl Mortal {
    pub(super) fn new(store: LocalStore) -> Self {
        Self {
            store,
            fuse: Mutex::new(State::Alive),
        }
    }

    pub(super) fn light(&self, fuse: Fuse) {
        *self.fuse() = State::Lit(fuse);
    }

    pub(super) fn dead(&self) -> bool {
        matches!(*self.fuse(), State::Dead)
    }

    fn fuse(&self) -> std::sync::MutexGuard<'_, State> {
        self.fuse
            .lock()
            .expect("nobody panics with the fuse in hand")
    }

    fn fate(&self) -> Fate {
        let mut state = self.fuse();
        match *state {
            State::Alive => Fate::Done,
            State::Dead => Fate::Lost,
            State::Lit(Fuse { after: 0, written }) => {
                *state = State::Dead;
                if written { Fate::Unheard } else { Fate::Lost }
            }
            State::Lit(fuse) => {
                let after = fuse.after - 1;
                *state = State::Lit(Fuse { after, ..fuse });
                Fate::Done
            }
        }
    }

    async fn write<T>(&self, write: impl Future<Output = Result<T>> + Send) -> Result<T> {
        match self.fate() {
            Fate::Done => return write.await,
            Fate::Lost => {}
            Fate::Unheard => drop(write.await),
        }
        Err(Error::Missing {
            what: "process any more".to_owned(),
        })
    }
}

#[async_trait]
impl Store for Mortal {
    fn home(&self) -> Arc<Home> {
        self.store.home()
    }

    fn epoch(&self) -> Epoch {
        self.store.epoch()
    }

    async fn record(&self, events: Vec<HomeEvent>) -> Result<Seq> {
        self.write(self.store.record(events)).await
    }

    async fn fire_once(
        &self,
        firing: Firing,
        root: &Path,
        trigger: Option<Digest>,
    ) -> Result<Fired> {
        self.write(self.store.fire_once(firing, root, trigger))
            .await
    }

    async fn append(
        &self,
        lease: &Lease,
        expected: Seq,
        at: Timestamp,
        event: &RunEvent,
    ) -> Result<Seq> {
        self.write(self.store.append(lease, expected, at, event))
            .await
    }

    async fn read_run(&self, run: &RunId, from: Seq) -> Result<Vec<Record<RunEvent>>> {
        self.store.read_run(run, from).await
    }

    async fn lease(
        &self,
        run: &RunId,
        holder: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Lease> {
        self.write(self.store.lease(run, holder, now, until)).await
    }

    async fn heartbeat(&self, lease: &Lease, until: Timestamp) -> Result<()> {
        self.write(self.store.heartbeat(lease, until)).await
    }

    async fn release(&self, lease: &Lease) -> Result<()> {
        self.write(self.store.release(lease)).await
    }

    async fn reserve(
        &self,
        call: &CallId,
        amount: Amount,
        scopes: &[ScopeLimit],
    ) -> Result<Reserved> {
        self.write(self.store.reserve(call, amount, scopes)).await
    }

    async fn settle(&self, call: &CallId, used: Option<Amount>) -> Result<()> {
        self.write(self.store.settle(call, used)).await
    }

    async fn settle_lost(&self, run: &RunId) -> Result<u64> {
        self.write(self.store.settle_lost(run)).await
    }

    async fn timer_at(&self, id: &str, at: Timestamp) -> Result<()> {
        self.write(self.store.timer_at(id, at)).await
    }

    async fn cancel_timer(&self, id: &str) -> Result<()> {
        self.write(self.store.cancel_timer(id)).await
    }

    async fn await_answer(&self, item: Item) -> Result<ItemNumber> {
        self.write(self.store.await_answer(item)).await
    }

    async fn resolve(&self, number: ItemNumber, answer: Answer) -> Result<bool> {
        self.write(self.store.resolve(number, answer)).await
    }

    async fn push(&self, task: QueueItem) -> Result<bool> {
        self.write(self.store.push(task)).await
    }

    async fn pull(
        &self,
        queue: &str,
        class: &str,
        holder: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Option<QueueItem>> {
        self.write(self.store.pull(queue, class, holder, now, until))
            .await
    }

    async fn ack(&self, queue: &str, id: &str) -> Result<()> {
        self.write(self.store.ack(queue, id)).await
    }

    fn subscribe(&self, after: Cursor) -> BoxStream<'static, Result<Record<HomeEvent>>> {
        self.store.subscribe(after)
    }

    fn follow(&self, run: &RunId, after: Seq) -> BoxStream<'static, Result<Record<RunEvent>>> {
        self.store.follow(run, after)
    }

    async fn put_artefact(&self, bytes: &[u8]) -> Result<ArtefactId> {
        self.write(self.store.put_artefact(bytes)).await
    }

    async fn put_artefact_file(&self, file: &Path) -> Result<ArtefactId> {
        self.write(self.store.put_artefact_file(file)).await
    }

    async fn get_artefact(&self, id: &ArtefactId) -> Result<Vec<u8>> {
        self.store.get_artefact(id).await
    }

    async fn state_file(
        &self,
        project: &ProjectId,
        loop_name: &str,
        name: &str,
    ) -> Result<Option<Vec<u8>>> {
        self.store.state_file(project, loop_name, name).await
    }

    async fn set_state_file(
        &self,
        project: &ProjectId,
        loop_name: &str,
        name: &str,
        bytes: &[u8],
    ) -> Result<()> {
        self.write(self.store.set_state_file(project, loop_name, name, bytes))
            .await
    }
}
