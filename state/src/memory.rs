//! A store that keeps everything in memory: for tests, and as the second opinion in the conformance
//! suite. It makes the same decisions as the local one; nothing outlives it.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ronde_protocol::{ArtefactId, Clock, RunId, Seq};
use tokio::sync::watch;

use crate::{
    backend::{Backend, FileKey, Shelf},
    book::{Book, Published, Request},
    event::{HomeEvent, RunEvent},
    home::Home,
    journal::Record,
    store::{Error, Result},
};

/// The store in memory.
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    book: Mutex<Book>,
    published: Arc<Published>,
    shelf: Arc<MemoryShelf>,
}

impl MemoryStore {
    /// A new home, opened for the first time by process `pid`; records are stamped by `clock`.
    pub fn new(pid: u32, clock: Arc<dyn Clock>) -> Self {
        let opened = Record::new(1, 1, clock.now(), HomeEvent::Opened { epoch: 1, pid });
        let home = Home::fold([&opened]).expect("a home begins with `opened`");
        let book = Book::new(home);
        let shelf = MemoryShelf {
            home: Mutex::new(vec![opened]),
            ..MemoryShelf::default()
        };
        Self {
            clock,
            published: book.published(),
            book: Mutex::new(book),
            shelf: Arc::new(shelf),
        }
    }
}

impl Backend for MemoryStore {
    fn published(&self) -> &Arc<Published> {
        &self.published
    }

    fn submit(&self, request: Request) -> Result<()> {
        let mut book = lock(&self.book);
        book.commit(vec![request], self.clock.now(), |records| {
            lock(&self.shelf.home).extend_from_slice(records);
            Ok(())
        });
        Ok(())
    }

    fn shelf(&self) -> Arc<dyn Shelf> {
        Arc::clone(&self.shelf) as Arc<dyn Shelf>
    }
}

#[derive(Default)]
struct MemoryShelf {
    home: Mutex<Vec<Record<HomeEvent>>>,
    runs: Mutex<HashMap<RunId, MemoryRun>>,
    artefacts: Mutex<HashMap<ArtefactId, Vec<u8>>>,
    files: Mutex<BTreeMap<FileKey, Vec<u8>>>,
}

struct MemoryRun {
    records: Vec<Record<RunEvent>>,
    committed: watch::Sender<Seq>,
}

impl Default for MemoryRun {
    fn default() -> Self {
        Self {
            records: Vec::new(),
            committed: watch::Sender::new(0),
        }
    }
}

impl Shelf for MemoryShelf {
    fn read_home(&self, from: Seq, upto: Seq) -> Result<Vec<Record<HomeEvent>>> {
        let home = lock(&self.home);
        Ok(home
            .iter()
            .filter(|record| (from..=upto).contains(&record.seq))
            .cloned()
            .collect())
    }

    fn append_run(
        &self,
        run: &RunId,
        record: Record<RunEvent>,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let mut runs = lock(&self.runs);
        check()?;
        let entry = runs.entry(run.clone()).or_default();
        let next = entry.records.len() as Seq + 1;
        if record.seq != next {
            return Err(Error::Illegal {
                what: format!("run {run}"),
                reason: format!("record {next} is next, not {}", record.seq),
            });
        }
        entry.records.push(record);
        entry.committed.send_replace(next);
        Ok(())
    }

    fn close_run(&self, _: &RunId) {}

    fn read_run(&self, run: &RunId, from: Seq) -> Result<Vec<Record<RunEvent>>> {
        let runs = lock(&self.runs);
        let records = runs.get(run).into_iter().flat_map(|run| &run.records);
        Ok(records
            .filter(|record| record.seq >= from)
            .cloned()
            .collect())
    }

    fn watch_run(&self, run: &RunId) -> Result<watch::Receiver<Seq>> {
        Ok(lock(&self.runs)
            .entry(run.clone())
            .or_default()
            .committed
            .subscribe())
    }

    fn put(&self, bytes: &[u8]) -> Result<ArtefactId> {
        let id = ArtefactId::of(bytes);
        lock(&self.artefacts).insert(id.clone(), bytes.to_vec());
        Ok(id)
    }

    fn put_file(&self, file: &Path) -> Result<ArtefactId> {
        let bytes = std::fs::read(file).map_err(|source| Error::Io {
            action: "read",
            path: file.to_owned(),
            source,
        })?;
        self.put(&bytes)
    }

    fn get(&self, id: &ArtefactId) -> Result<Vec<u8>> {
        lock(&self.artefacts)
            .get(id)
            .cloned()
            .ok_or_else(|| Error::Missing {
                what: format!("artefact {id}"),
            })
    }

    fn file(&self, key: &FileKey) -> Result<Option<Vec<u8>>> {
        Ok(lock(&self.files).get(key).cloned())
    }

    fn set_file(&self, key: &FileKey, bytes: &[u8]) -> Result<()> {
        lock(&self.files).insert(key.clone(), bytes.to_vec());
        Ok(())
    }
}

/// What a thread that panicked left is whole: each change under these locks is one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
