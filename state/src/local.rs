//! The store of one machine: journals on disk, an index beside them, blobs and files. One process owns a
//! home at a time, by a lock that ends with it. Other processes read: see [`LocalReader`].

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, mpsc as std_mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use ronde_protocol::{ArtefactId, Clock, RunId, Seq};
use tokio::sync::{mpsc, watch};

pub use crate::reader::LocalReader;
use crate::{
    artefacts::{Artefacts, io_error},
    backend::{Backend, FileKey, Shelf},
    book::{Book, Published, Request},
    disk::{Disk, RealDisk, create_dirs},
    event::{HomeEvent, RunEvent},
    files::{Files, Temp},
    home::RunSummary,
    index::{Change, Index},
    journal::{Record, Torn},
    runfiles::RunFiles,
    segments::{self, HomeJournal, Recovered},
    store::{Error, Result},
};

/// Requests that are made durable in one step, at most.
const BATCH: usize = 1024;

/// Where things are within a home.
#[derive(Debug, Clone)]
pub(crate) struct Layout(PathBuf);

impl Layout {
    pub(crate) fn new(home: &Path) -> Self {
        Self(home.to_owned())
    }

    fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    pub(crate) fn runs(&self) -> PathBuf {
        self.0.join("runs")
    }

    pub(crate) fn artefacts(&self) -> PathBuf {
        self.0.join("artefacts")
    }

    fn files(&self) -> PathBuf {
        self.0.join("state")
    }

    fn temp(&self) -> PathBuf {
        self.0.join("tmp")
    }

    fn index(&self) -> PathBuf {
        self.0.join("index")
    }
}

/// The store in a folder of this machine. It blocks while it is opened and while it is dropped.
pub struct LocalStore {
    layout: Layout,
    published: Arc<Published>,
    requests: Option<mpsc::UnboundedSender<Request>>,
    writer: Option<JoinHandle<()>>,
    index: Index,
    shelf: Arc<LocalShelf>,
    torn: Option<Torn>,
}

impl LocalStore {
    /// Takes over the home at `home`, which is made if it is not there, for the process `pid`. Records
    /// are stamped by `clock`.
    ///
    /// # Errors
    /// [`Error::Owned`] where another process has it; [`Error::Corrupt`] or [`Error::TooNew`] where
    /// its journal cannot be read; else as the disk says.
    pub fn open(home: &Path, pid: u32, clock: Arc<dyn Clock>) -> Result<Self> {
        Self::open_on(Arc::new(RealDisk), home, pid, clock, segments::SEGMENT)
    }

    /// As [`LocalStore::open`], with the journals on another disk and segments of another length.
    pub(crate) fn open_on(
        disk: Arc<dyn Disk>,
        home: &Path,
        pid: u32,
        clock: Arc<dyn Clock>,
        segment: u64,
    ) -> Result<Self> {
        let layout = Layout::new(home);
        create_dirs(&RealDisk, home).map_err(|e| io_error("create", home, e))?;
        let lock = take_lock(&layout, pid)?;
        let temp = Temp::open(layout.temp()).map_err(|e| io_error("open", &layout.temp(), e))?;
        let runs = layout.runs();
        create_dirs(&*disk, &runs).map_err(|e| io_error("create", &runs, e))?;

        let Recovered {
            mut journal,
            home: mut fold,
            torn,
        } = HomeJournal::open(Arc::clone(&disk), home, segment)?;
        let epoch = fold.epoch() + 1;
        let opened = HomeEvent::Opened { epoch, pid };
        let opened = Record::new(fold.seq() + 1, epoch, clock.now(), opened);
        fold.apply(&opened).map_err(|illegal| Error::Illegal {
            what: home.display().to_string(),
            reason: illegal.to_string(),
        })?;
        journal.append(std::slice::from_ref(&opened))?;

        let shelf = Arc::new(LocalShelf {
            _lock: lock,
            root: home.to_owned(),
            disk: Arc::clone(&disk),
            runs: RunFiles::new(disk, runs),
            artefacts: Artefacts::new(layout.artefacts(), temp.clone()),
            files: Files::new(layout.files(), temp),
        });
        let book = Book::new(fold);
        let published = book.published();
        let index = Index::start(layout.index(), published.home())?;
        let (requests, incoming) = mpsc::unbounded_channel();
        let writer = Writer {
            journal,
            book,
            clock,
            changes: index.changes(),
        };
        let writer = thread::Builder::new()
            .name("ronde-journal".to_owned())
            .spawn(move || writer.run(incoming))
            .map_err(|e| io_error("start a thread for", home, e))?;
        Ok(Self {
            layout,
            published,
            requests: Some(requests),
            writer: Some(writer),
            index,
            shelf,
            torn,
        })
    }

    /// What was cut off the end of the home journal when it was opened.
    pub fn torn(&self) -> Option<Torn> {
        self.torn
    }

    /// The home's folder.
    pub fn path(&self) -> &Path {
        &self.layout.0
    }

    /// The newest runs, newest first, from the index; from the fold while that cannot be used.
    pub async fn newest(&self, limit: usize) -> Vec<RunSummary> {
        let home = self.published.home();
        if self.index.reached(home.seq()).await
            && let Some(rows) = self.index.newest(limit).await
        {
            let rows = rows.into_iter();
            let whole = rows.map(|(run, row)| row.or_else(|| home.run(&run).cloned()));
            if let Some(runs) = whole.collect() {
                return runs;
            }
        }
        home.runs().rev().take(limit).cloned().collect()
    }
}

#[cfg(test)]
impl LocalStore {
    /// Whether the index answers, and not the fold.
    pub(crate) async fn index_in_use(&self) -> bool {
        self.index.reached(self.published.home().seq()).await
    }
}

impl Drop for LocalStore {
    fn drop(&mut self) {
        // The writer ends once it has written what was asked.
        self.requests = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the home journal's writer has panicked");
        }
    }
}

impl Backend for LocalStore {
    fn published(&self) -> &Arc<Published> {
        &self.published
    }

    fn submit(&self, request: Request) -> Result<()> {
        let sent = self
            .requests
            .as_ref()
            .is_some_and(|requests| requests.send(request).is_ok());
        if sent {
            Ok(())
        } else {
            let gone = io::Error::other("its writer died");
            Err(io_error(
                "write to",
                &segments::journal_dir(&self.layout.0),
                gone,
            ))
        }
    }

    fn shelf(&self) -> Arc<dyn Shelf> {
        Arc::clone(&self.shelf) as Arc<dyn Shelf>
    }
}

/// The thread that owns the home journal.
struct Writer {
    journal: HomeJournal,
    book: Book,
    clock: Arc<dyn Clock>,
    changes: Option<std_mpsc::Sender<Change>>,
}

impl Writer {
    fn run(mut self, mut incoming: mpsc::UnboundedReceiver<Request>) {
        let published = self.book.published();
        let mut batch = Vec::new();
        while incoming.blocking_recv_many(&mut batch, BATCH) > 0 {
            let mut touched = Vec::new();
            let journal = &mut self.journal;
            self.book
                .commit(std::mem::take(&mut batch), self.clock.now(), |records| {
                    journal.append(records)?;
                    touched.extend(
                        records
                            .iter()
                            .filter_map(|record| run_of(&record.event))
                            .cloned(),
                    );
                    Ok(())
                });
            let home = published.home();
            if let Some(changes) = &self.changes {
                let runs = touched
                    .iter()
                    .filter_map(|run| home.run(run))
                    .cloned()
                    .collect();
                // The index may have given up; the fold answers then.
                let _ = changes.send(Change {
                    seq: home.seq(),
                    runs,
                });
            }
            self.journal.tend(&home);
        }
    }
}

/// The run whose summary an event changes.
fn run_of(event: &HomeEvent) -> Option<&RunId> {
    match event {
        HomeEvent::SlotFired { firing, .. } => Some(&firing.run),
        HomeEvent::RunRested { run, .. } | HomeEvent::RunWoken { run } => Some(run),
        _ => None,
    }
}

/// Takes the lock of a home. The lock is the kernel's and ends with its process, whatever the file says:
/// its text is for people. A program that a dead owner was just starting holds it a moment longer.
#[expect(
    clippy::disallowed_methods,
    reason = "nobody is told when the lock is free"
)]
fn take_lock(layout: &Layout, pid: u32) -> Result<File> {
    let path = layout.lock();
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600);
    let mut file = options
        .open(&path)
        .map_err(|e| io_error("open", &path, e))?;
    let mut tries = 5;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if tries > 0 => {
                tries -= 1;
                thread::sleep(Duration::from_millis(10));
            }
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // Whoever has it may not have written its id yet: 0 then.
                let _ = file.read_to_string(&mut text);
                let (home, pid) = (layout.0.clone(), text.trim().parse().unwrap_or(0));
                return Err(Error::Owned { home, pid });
            }
            Err(TryLockError::Error(e)) => return Err(io_error("lock", &path, e)),
        }
    }
    let told = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{pid}"));
    told.map_err(|e| io_error("write", &path, e))?;
    Ok(file)
}

/// What is kept beside the home journal. It holds the lock: work that is under way when the store is
/// dropped ends before another process can take the home over.
struct LocalShelf {
    root: PathBuf,
    disk: Arc<dyn Disk>,
    runs: RunFiles,
    artefacts: Artefacts,
    files: Files,
    _lock: File,
}

impl Shelf for LocalShelf {
    fn read_home(&self, from: Seq, upto: Seq) -> Result<Vec<Record<HomeEvent>>> {
        segments::read_range(&*self.disk, &self.root, from, upto)
    }

    fn append_run(
        &self,
        run: &RunId,
        record: Record<RunEvent>,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        self.runs.append(run, record, check)
    }

    fn close_run(&self, run: &RunId) {
        self.runs.close(run);
    }

    fn read_run(&self, run: &RunId, from: Seq) -> Result<Vec<Record<RunEvent>>> {
        self.runs.read(run, from)
    }

    fn watch_run(&self, run: &RunId) -> Result<watch::Receiver<Seq>> {
        self.runs.watch(run)
    }

    fn put(&self, bytes: &[u8]) -> Result<ArtefactId> {
        self.artefacts.put(bytes)
    }

    fn put_file(&self, file: &Path) -> Result<ArtefactId> {
        self.artefacts.put_file(file)
    }

    fn get(&self, id: &ArtefactId) -> Result<Vec<u8>> {
        self.artefacts.get(id)
    }

    fn file(&self, key: &FileKey) -> Result<Option<Vec<u8>>> {
        self.files.get(key)
    }

    fn set_file(&self, key: &FileKey, bytes: &[u8]) -> Result<()> {
        self.files.set(key, bytes)
    }
}
