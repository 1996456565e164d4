//! An index of runs on disk: one run by id, and the newest first. It only ever repeats the fold: whatever
//! is wrong with it, it is set aside and made again, and while it cannot be used the fold answers.
//! One thread owns it; nobody waits for its disk but those who ask it.

use std::{
    fs,
    io::{Error as IoError, ErrorKind},
    num::NonZeroU64,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use ronde_protocol::{RunId, Seq};
use tokio::sync::watch;

use crate::{
    home::{Home, RunSummary},
    store::{Error, Result},
};

/// Bytes of memory it may use for its cache.
const CACHE: u64 = 8 << 20;
/// A longer value is not put in, and its run is looked up in the fold.
const LONGEST: usize = 60 << 10;
/// An index of more bytes than this and than 64 times what is in it is made again: it does not shrink
/// by itself.
const LARGE: u64 = 32 << 20;
/// In nanoseconds.
const HOUR: Option<NonZeroU64> = NonZeroU64::new(3_600_000_000_000);

/// The index of one home.
pub(crate) struct Index {
    changes: Option<mpsc::Sender<Change>>,
    db: Arc<RwLock<Option<sled::Db>>>,
    applied: watch::Receiver<Seq>,
    thread: Option<JoinHandle<()>>,
}

/// Runs that changed, up to a record.
pub(crate) struct Change {
    pub(crate) seq: Seq,
    pub(crate) runs: Vec<RunSummary>,
}

impl Index {
    /// Begins to open the index at `dir` and to bring it to the state of `home`.
    pub(crate) fn start(dir: PathBuf, home: Arc<Home>) -> Result<Self> {
        let (changes, incoming) = mpsc::channel();
        let (applied, watch) = watch::channel(0);
        let db = Arc::new(RwLock::new(None));
        let shared = Arc::clone(&db);
        let path = dir.clone();
        let thread = thread::Builder::new()
            .name("ronde-index".to_owned())
            .spawn(move || own(&dir, &home, &shared, &incoming, &applied))
            .map_err(|source| Error::Io {
                action: "start a thread for",
                path,
                source,
            })?;
        Ok(Self {
            changes: Some(changes),
            db,
            applied: watch,
            thread: Some(thread),
        })
    }

    /// Where changes are told.
    pub(crate) fn changes(&self) -> Option<mpsc::Sender<Change>> {
        self.changes.clone()
    }

    /// Waits until everything up to record `seq` is in it. False if the index cannot be used.
    pub(crate) async fn reached(&self, seq: Seq) -> bool {
        self.applied
            .clone()
            .wait_for(|applied| *applied >= seq)
            .await
            .is_ok()
    }

    /// The newest runs, newest first; none where the index cannot be used. A run whose summary is too
    /// long for it comes without one.
    pub(crate) async fn newest(&self, limit: usize) -> Option<Vec<(RunId, Option<RunSummary>)>> {
        let db = Arc::clone(&self.db);
        tokio::task::spawn_blocking(move || {
            let db = db.read().unwrap_or_else(PoisonError::into_inner);
            newest(db.as_ref()?, limit)
        })
        .await
        .ok()?
    }
}

fn newest(db: &sled::Db, limit: usize) -> Option<Vec<(RunId, Option<RunSummary>)>> {
    let rows = db.scan_prefix(ORDER).values().rev().take(limit);
    rows.map(|row| {
        let run = RunId::new(String::from_utf8(row.ok()?.to_vec()).ok()?);
        let value = db.get(run_key(&run)).ok()??;
        let summary = if value.is_empty() {
            None
        } else {
            Some(serde_json::from_slice(&value).ok()?)
        };
        Some((run, summary))
    })
    .collect()
}

impl Drop for Index {
    fn drop(&mut self) {
        self.changes = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the index's thread has panicked; the index will be made again");
        }
    }
}

const RUN: &[u8] = b"run/";
const ORDER: &[u8] = b"order/";

fn run_key(run: &RunId) -> Vec<u8> {
    [RUN, run.as_str().as_bytes()].concat()
}

/// `place` is the run's place in the order of firing.
fn order_key(place: u64) -> Vec<u8> {
    [ORDER, &place.to_be_bytes()].concat()
}

fn value(summary: &RunSummary) -> Vec<u8> {
    let json = serde_json::to_vec(summary).unwrap_or_default();
    if json.len() > LONGEST {
        Vec::new()
    } else {
        json
    }
}

/// The thread that owns the index.
fn own(
    dir: &Path,
    home: &Home,
    shared: &RwLock<Option<sled::Db>>,
    incoming: &mpsc::Receiver<Change>,
    applied: &watch::Sender<Seq>,
) {
    timers_may_be_late(HOUR);
    let set = |db| *shared.write().unwrap_or_else(PoisonError::into_inner) = db;
    let mut places = home.runs().len() as u64;
    let db = match open(dir, home) {
        Ok(db) => db,
        Err(error) => {
            tracing::warn!(dir = %dir.display(), %error, "goes on without the index");
            return;
        }
    };
    set(Some(db.clone()));
    applied.send_replace(home.seq());
    while let Ok(mut change) = incoming.recv() {
        let mut runs = change.runs;
        while let Ok(more) = incoming.try_recv() {
            change.seq = more.seq;
            runs.extend(more.runs);
        }
        if let Err(error) = put(&db, &runs, &mut places) {
            tracing::warn!(dir = %dir.display(), %error, "set the index aside: it will be made again");
            set(None);
            drop(db);
            // What cannot be set aside now is found to be wrong at the next opening.
            let _ = set_aside(dir);
            return;
        }
        applied.send_replace(change.seq);
    }
    set(None);
}

/// Writes runs that changed, in one step.
fn put(db: &sled::Db, runs: &[RunSummary], places: &mut u64) -> sled::Result<()> {
    if runs.is_empty() {
        return Ok(());
    }
    for run in runs {
        let key = run_key(&run.run);
        let mut batch = sled::Batch::default();
        if db.get(&key)?.is_none() {
            batch.insert(order_key(*places), run.run.as_str());
            *places += 1;
        }
        batch.insert(key, value(run));
        db.apply_batch(batch)?;
    }
    // Blocking, and only ever from this thread: `flush_async` can hang.
    db.flush().map(drop)
}

/// Opens the index and brings it to the state of the fold; whatever is wrong with it, makes it again.
fn open(dir: &Path, home: &Home) -> std::io::Result<sled::Db> {
    match checked(dir, home) {
        Ok(db) => return Ok(db),
        Err(Wrong::Locked) => return Err(IoError::other("another process has it open")),
        Err(Wrong::Missing) => {}
        Err(Wrong::Damaged(reason)) => {
            tracing::warn!(dir = %dir.display(), reason, "set the index aside and makes it again");
            set_aside(dir)?;
        }
    }
    // Under a name that is not looked at: an index that was only half made never opens again.
    let new = dir.with_extension("new");
    remove(&new)?;
    let made = open_db(&new).and_then(|db| fill(&db, home));
    made.map_err(|wrong| IoError::other(format!("cannot make it: {wrong:?}")))?;
    fs::rename(&new, dir)?;
    checked(dir, home).map_err(|wrong| IoError::other(format!("cannot open it: {wrong:?}")))
}

#[derive(Debug)]
enum Wrong {
    Missing,
    Locked,
    Damaged(String),
}

impl From<sled::Error> for Wrong {
    fn from(error: sled::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}

fn checked(dir: &Path, home: &Home) -> std::result::Result<sled::Db, Wrong> {
    match fs::symlink_metadata(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(Wrong::Missing),
        Err(e) => return Err(Wrong::Damaged(e.to_string())),
        Ok(meta) if !meta.is_dir() => return Err(Wrong::Damaged("not a folder".to_owned())),
        Ok(_) => {}
    }
    let db = open_db(dir)?;
    let guarded = catch_unwind(AssertUnwindSafe(|| {
        let content = fill(&db, home)?;
        if db.size_on_disk()? > LARGE.max(64 * content) {
            return Err(Wrong::Damaged(
                "it has grown far beyond what is in it".to_owned(),
            ));
        }
        Ok(())
    }));
    guarded.unwrap_or_else(|_| Err(Wrong::Damaged("it panicked".to_owned())))?;
    Ok(db)
}

/// Says how late the timers of this thread may be, and of those it starts from here on. sled keeps a
/// pool of threads for the life of the process, each of which looks every second whether it is still
/// wanted; what they have to do they are woken for. Allowed to be an hour late, they sleep through.
/// Nothing else on this thread waits for a time, but for the lock in [`open_db`].
fn timers_may_be_late(by: Option<NonZeroU64>) {
    if let Err(error) = rustix::thread::set_current_timer_slack(by) {
        // They wake for nothing then, and that is all.
        tracing::debug!(%error, "timers keep their slack");
    }
}

/// Opens sled. It may panic on what it finds, and its lock may be held for a moment by a database of
/// this process that is being closed.
#[expect(
    clippy::disallowed_methods,
    reason = "nobody is told when the lock is free"
)]
fn open_db(dir: &Path) -> std::result::Result<sled::Db, Wrong> {
    for _ in 0..50 {
        // No flushing by the clock: a thread that wakes for nothing.
        let config = sled::Config::new()
            .path(dir)
            .cache_capacity(CACHE)
            .flush_every_ms(None);
        match catch_unwind(AssertUnwindSafe(|| config.open())) {
            Ok(Ok(db)) => return Ok(db),
            Ok(Err(sled::Error::Io(e))) if e.to_string().contains("could not acquire lock") => {
                timers_may_be_late(None);
                thread::sleep(Duration::from_millis(20));
                timers_may_be_late(HOUR);
            }
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => return Err(Wrong::Damaged("it panicked".to_owned())),
        }
    }
    Err(Wrong::Locked)
}

/// Makes the content what the fold says, and gives its size in bytes. All of it is compared: sled may
/// have lost the end of what it was told without knowing.
fn fill(db: &sled::Db, home: &Home) -> std::result::Result<u64, Wrong> {
    let mut expected = std::collections::BTreeMap::new();
    for (place, run) in home.runs().enumerate() {
        expected.insert(
            order_key(place as u64),
            run.run.as_str().as_bytes().to_vec(),
        );
        expected.insert(run_key(&run.run), value(run));
    }
    let content = expected
        .iter()
        .map(|(key, value)| (key.len() + value.len()) as u64)
        .sum();
    let mut batch = sled::Batch::default();
    for row in db.iter() {
        let (key, value) = row?;
        match expected.remove(&*key) {
            Some(wanted) if wanted == *value => {}
            Some(wanted) => batch.insert(key, wanted),
            None => batch.remove(key),
        }
    }
    for (key, value) in expected {
        batch.insert(key, value);
    }
    db.apply_batch(batch)?;
    db.flush()?;
    Ok(content)
}

fn set_aside(dir: &Path) -> std::io::Result<()> {
    let aside = dir.with_extension("damaged");
    remove(&aside)?;
    fs::rename(dir, aside)
}

fn remove(path: &Path) -> std::io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    }
}
