//! The journals of runs on disk, one file each, opened when they are needed. Each run has one writer at
//! a time; what is read of a run is only what is durable.

use std::{
    collections::{HashMap, VecDeque},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ronde_protocol::{RunId, Seq};
use tokio::sync::watch;

use crate::{
    backend::plain_name,
    disk::{self, Disk},
    event::RunEvent,
    journal::{self, Journal, Record},
    store::{Error, Result},
};

/// Records of a run kept in memory for those who follow it; older ones are read from its journal.
const KEPT: usize = 256;

/// The journals below one folder.
pub(crate) struct RunFiles {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    runs: Mutex<HashMap<RunId, Arc<RunFile>>>,
}

struct RunFile {
    path: PathBuf,
    open: Mutex<Open>,
    /// The last durable record; 0 also where nobody has looked yet.
    committed: watch::Sender<Seq>,
}

#[derive(Default)]
struct Open {
    journal: Option<Journal<RunEvent>>,
    /// The last records, while the journal is open.
    tail: VecDeque<Record<RunEvent>>,
}

/// Where the journal of a run is within the folder of runs.
pub(crate) fn journal_file(dir: &Path, run: &RunId) -> Result<PathBuf> {
    plain_name(run.as_str()).map_err(|reason| Error::Illegal {
        what: format!("run {run}"),
        reason,
    })?;
    Ok(dir.join(run.as_str()).join("journal.jsonl"))
}

impl RunFiles {
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: PathBuf) -> Self {
        Self {
            disk,
            dir,
            runs: Mutex::default(),
        }
    }

    /// Appends a record, if `check` holds while nobody else can append.
    pub(crate) fn append(
        &self,
        run: &RunId,
        record: Record<RunEvent>,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let file = self.file(run)?;
        let mut open = lock(&file.open);
        check()?;
        if open.journal.is_none() {
            self.open(&file, &mut open, record.seq == 1)?;
        }
        let Some(journal) = &mut open.journal else {
            return Err(Error::Illegal {
                what: format!("run {run}"),
                reason: format!("record 1 is next, not {}", record.seq),
            });
        };
        journal.append(std::slice::from_ref(&record))?;
        file.committed.send_replace(record.seq);
        open.tail.push_back(record);
        if open.tail.len() > KEPT {
            open.tail.pop_front();
        }
        Ok(())
    }

    /// Closes the file of a run that nobody here writes to for now.
    pub(crate) fn close(&self, run: &RunId) {
        if let Ok(file) = self.file(run) {
            let mut open = lock(&file.open);
            // A journal that may not be written to stays so.
            if open
                .journal
                .as_ref()
                .is_some_and(|journal| !journal.poisoned())
            {
                *open = Open::default();
            }
        }
    }

    /// The durable records from number `from` on.
    pub(crate) fn read(&self, run: &RunId, from: Seq) -> Result<Vec<Record<RunEvent>>> {
        let file = self.file(run)?;
        let mut open = lock(&file.open);
        if open.tail.front().is_some_and(|record| record.seq <= from) {
            return Ok(open
                .tail
                .iter()
                .filter(|record| record.seq >= from)
                .cloned()
                .collect());
        }
        let mut records = match &open.journal {
            Some(journal) => {
                let mut records = journal::read(&*self.disk, &file.path, 1)?.records;
                records.retain(|record| record.seq < journal.next());
                records
            }
            None => {
                let records = self.open(&file, &mut open, false)?;
                // Reading alone keeps no file open.
                *open = Open::default();
                records
            }
        };
        records.retain(|record| record.seq >= from);
        Ok(records)
    }

    pub(crate) fn watch(&self, run: &RunId) -> Result<watch::Receiver<Seq>> {
        let file = self.file(run)?;
        if *file.committed.borrow() == 0 {
            self.read(run, Seq::MAX)?;
        }
        Ok(file.committed.subscribe())
    }

    fn file(&self, run: &RunId) -> Result<Arc<RunFile>> {
        let mut runs = lock(&self.runs);
        if let Some(file) = runs.get(run) {
            return Ok(Arc::clone(file));
        }
        let path = journal_file(&self.dir, run)?;
        let file = RunFile {
            path,
            open: Mutex::default(),
            committed: watch::Sender::new(0),
        };
        Ok(Arc::clone(
            runs.entry(run.clone()).or_insert(Arc::new(file)),
        ))
    }

    /// Opens the journal of a run and gives its records; makes it if there is none and `make` says so.
    fn open(&self, file: &RunFile, open: &mut Open, make: bool) -> Result<Vec<Record<RunEvent>>> {
        let records = match Journal::open(&*self.disk, &file.path, 1) {
            Ok((journal, opened)) => {
                open.journal = Some(journal);
                opened.records
            }
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                if make {
                    open.journal = Some(self.create(&file.path)?);
                }
                Vec::new()
            }
            Err(error) => return Err(error),
        };
        file.committed.send_replace(records.len() as Seq);
        let kept = records.len().saturating_sub(KEPT);
        open.tail = records[kept..].iter().cloned().collect();
        Ok(records)
    }

    fn create(&self, path: &Path) -> Result<Journal<RunEvent>> {
        let dir = path.parent().unwrap_or(&self.dir);
        // Somebody else may have made the folder a moment ago: its name is made durable all the same.
        disk::create_dirs(&*self.disk, dir)
            .and_then(|()| self.disk.sync_dir(&self.dir))
            .map_err(|source| Error::Io {
                action: "create",
                path: dir.to_owned(),
                source,
            })?;
        Journal::create(&*self.disk, path, 1)
    }
}

/// What a thread that panicked left is what was durable before.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
