//! The store trait: everything durable that the engine asks for, small enough to sit on JSONL files
//! and an index here, or on a distributed engine past one machine.
//!
//! Every operation that writes is on stable storage when it returns `Ok`. `Fenced` means that a newer
//! owner exists and the caller must stop; `Ambiguous` that nobody knows whether the write took place,
//! and the caller must read back before it does anything else.

use std::path::Path;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use jiff::Timestamp;
use ronde_protocol::{
    Amount, ArtefactId, CallId, Epoch, ItemNumber, ProjectId, RunId, Seq,
    firing::Firing,
    handoff::{Answer, Item},
    outcome::Limit,
};

use crate::{
    event::{HomeEvent, QueueItem, RunEvent, ScopeLimit},
    home::Home,
    journal::Record,
};

/// What can go wrong in a store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A newer owner exists.
    #[error("{what} belongs to a newer owner (epoch {epoch})")]
    Fenced {
        /// What was written to.
        what: String,
        /// The newer epoch.
        epoch: Epoch,
    },
    /// The write may or may not have taken place. The store takes no more writes there.
    #[error("cannot tell whether {what} was written: {source}")]
    Ambiguous {
        /// What was written.
        what: String,
        /// What the disk said.
        source: std::io::Error,
    },
    /// The event cannot follow what is there.
    #[error("illegal event for {what}: {reason}")]
    Illegal {
        /// What was written to.
        what: String,
        /// Why.
        reason: String,
    },
    /// A record in the middle of a journal is not what was written there.
    #[error("{file} is damaged at byte {offset}: {reason}")]
    Corrupt {
        /// The file.
        file: std::path::PathBuf,
        /// Where.
        offset: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The journal was written by a newer ronde.
    #[error("{file} was written by a newer ronde (format {found}, this one reads up to {known})")]
    TooNew {
        /// The file.
        file: std::path::PathBuf,
        /// Its version.
        found: u16,
        /// The highest version this program reads.
        known: u16,
    },
    /// Another process owns the home.
    #[error("{home} is owned by process {pid}")]
    Owned {
        /// The home.
        home: std::path::PathBuf,
        /// Its owner.
        pid: u32,
    },
    /// Something that was named is not there.
    #[error("no such {what}")]
    Missing {
        /// What.
        what: String,
    },
    /// The disk refused; nothing was written.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: std::path::PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A result of the store.
pub type Result<T> = std::result::Result<T, Error>;

/// What came of a firing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fired {
    /// The slot was free; the run is the caller's to begin.
    Won(RunId),
    /// The slot was taken before.
    Already(RunId),
}

/// What came of a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reserved {
    /// It is set aside.
    Granted,
    /// The same call was reserved before: it may have been made.
    Already,
    /// A budget does not hold it.
    Refused {
        /// The tightest limit.
        limit: Limit,
        /// What is left under all limits: the call would fit if it asked for no more than this.
        left: Amount,
    },
}

/// The right to write to a run's journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The run.
    pub run: RunId,
    /// The lease's epoch.
    pub epoch: Epoch,
}

/// A place in the home journal: everything up to it was seen.
pub type Cursor = Seq;

/// Where everything durable is kept.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The state of the home as it is now: the fold of its journal.
    fn home(&self) -> std::sync::Arc<Home>;

    /// This process's epoch.
    fn epoch(&self) -> Epoch;

    /// Writes events that need no decision of the store, in one commit. Events that the other methods
    /// write are refused as [`Error::Illegal`].
    async fn record(&self, events: Vec<HomeEvent>) -> Result<Seq>;

    /// Claims a slot. `trigger` is the hash of the trigger whose watermark moves, none by hand.
    async fn fire_once(
        &self,
        firing: Firing,
        root: &Path,
        trigger: Option<ronde_protocol::Digest>,
    ) -> Result<Fired>;

    /// Appends to a run's journal; `expected` is the number the record will have. The first append
    /// (`expected` 1) makes the journal. `Fenced` if the lease is not the newest.
    async fn append(
        &self,
        lease: &Lease,
        expected: Seq,
        at: Timestamp,
        event: &RunEvent,
    ) -> Result<Seq>;

    /// Reads a run's journal from a record on (1 is the first). An unknown run is `Missing`.
    async fn read_run(&self, run: &RunId, from: Seq) -> Result<Vec<Record<RunEvent>>>;

    /// Takes a run over: valid until `until`. A valid lease of another holder is `Fenced`, unless it
    /// was given in an older epoch of this store's owner.
    async fn lease(
        &self,
        run: &RunId,
        holder: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Lease>;

    /// Says that the owner lives.
    async fn heartbeat(&self, lease: &Lease, until: Timestamp) -> Result<()>;

    /// Gives a run up.
    async fn release(&self, lease: &Lease) -> Result<()>;

    /// Sets part of some budgets aside, all or none.
    async fn reserve(
        &self,
        call: &CallId,
        amount: Amount,
        scopes: &[ScopeLimit],
    ) -> Result<Reserved>;

    /// Ends a reservation with what was used; `None` settles at the whole. Settling twice changes
    /// nothing. Used may exceed reserved only by a provider's fault; it is recorded as it is.
    async fn settle(&self, call: &CallId, used: Option<Amount>) -> Result<()>;

    /// Settles at the whole every open reservation whose run is this one: a call of a dead process.
    async fn settle_lost(&self, run: &RunId) -> Result<u64>;

    /// Sets a timer; setting it again moves it.
    async fn timer_at(&self, id: &str, at: Timestamp) -> Result<()>;

    /// Clears a timer; clearing one that is not there changes nothing.
    async fn cancel_timer(&self, id: &str) -> Result<()>;

    /// Puts an item into the inbox; the same key twice is one item.
    async fn await_answer(&self, item: Item) -> Result<ItemNumber>;

    /// Answers an item. False if it was answered before; the first answer stands.
    async fn resolve(&self, number: ItemNumber, answer: Answer) -> Result<bool>;

    /// Puts a task into a queue; the same id twice is one task. False if it was there.
    async fn push(&self, task: QueueItem) -> Result<bool>;

    /// Takes the oldest free task of a class out of a queue, until `until`.
    async fn pull(
        &self,
        queue: &str,
        class: &str,
        holder: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Option<QueueItem>>;

    /// Finishes a task.
    async fn ack(&self, queue: &str, id: &str) -> Result<()>;

    /// Every home record after a cursor, then each new one as it is committed.
    fn subscribe(&self, after: Cursor) -> BoxStream<'static, Result<Record<HomeEvent>>>;

    /// Every record of a run after a number, then each new one as it is committed.
    fn follow(&self, run: &RunId, after: Seq) -> BoxStream<'static, Result<Record<RunEvent>>>;

    /// Stores a blob.
    async fn put_artefact(&self, bytes: &[u8]) -> Result<ArtefactId>;

    /// Stores a file by moving or copying it, without reading it into memory.
    async fn put_artefact_file(&self, file: &Path) -> Result<ArtefactId>;

    /// Reads a blob; its hash is checked.
    async fn get_artefact(&self, id: &ArtefactId) -> Result<Vec<u8>>;

    /// Reads a state file of a loop, as the last run left it.
    async fn state_file(
        &self,
        project: &ProjectId,
        loop_name: &str,
        name: &str,
    ) -> Result<Option<Vec<u8>>>;

    /// Replaces a state file of a loop, atomically.
    async fn set_state_file(
        &self,
        project: &ProjectId,
        loop_name: &str,
        name: &str,
        bytes: &[u8],
    ) -> Result<()>;
}
