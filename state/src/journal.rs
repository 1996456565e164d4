//! An append-only file of records. What [`Journal::append`] has accepted is on stable storage; what it
//! could not accept leaves the file as it was, or closes the journal for good. It knows the order of
//! the records and nothing of what they mean.

use std::{
    io,
    marker::PhantomData,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use ronde_protocol::{Epoch, Seq};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    crash,
    disk::{self, Disk, DiskFile},
    event::VERSION,
    line,
    store::{Error, Result},
};

/// An event as it stands in a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record<E> {
    /// The version of the format it was written in.
    pub v: u16,
    /// Its place in the journal, from 1, without gaps.
    pub seq: Seq,
    /// The epoch of who wrote it.
    pub epoch: Epoch,
    /// When it was written.
    pub at: Timestamp,
    /// What happened.
    pub event: E,
}

impl<E> Record<E> {
    /// A record of this program's version.
    pub fn new(seq: Seq, epoch: Epoch, at: Timestamp, event: E) -> Self {
        Self {
            v: VERSION,
            seq,
            epoch,
            at,
            event,
        }
    }
}

/// The end of a journal that was being written when the power went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Torn {
    /// How many bytes are not a record.
    pub bytes: u64,
    /// Where they begin.
    pub offset: u64,
}

/// What was found in a journal on opening it.
#[derive(Debug)]
pub struct Opened<E> {
    /// Its records, in order.
    pub records: Vec<Record<E>>,
    /// What was cut off its end.
    pub torn: Option<Torn>,
}

/// A journal that is open for appending.
pub struct Journal<E> {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    /// The length that is whole and durable.
    len: u64,
    next: Seq,
    /// After a failed sync nobody knows what is on the disk: nothing more is written.
    poisoned: bool,
    buf: Vec<u8>,
    event: PhantomData<fn(E)>,
}

impl<E: Serialize + DeserializeOwned> Journal<E> {
    /// Makes a new journal whose first record will be number `first`. Its folder must exist.
    ///
    /// # Errors
    /// [`Error::Io`] as the disk says; a file of that name is an error.
    pub fn create(disk: &dyn Disk, path: &Path, first: Seq) -> Result<Self> {
        let io = |source| Error::Io {
            action: "create",
            path: path.to_owned(),
            source,
        };
        let file = disk.create(path).map_err(io)?;
        disk.sync_dir(path.parent().unwrap_or(Path::new(".")))
            .map_err(io)?;
        Ok(Self::over(file, path, 0, first))
    }

    /// Opens a journal and reads it. A torn end is cut off and told. What is returned is durable, even
    /// if it was written by a process that died before it could make it so.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::TooNew`], or [`Error::Io`] as the disk says.
    pub fn open(disk: &dyn Disk, path: &Path, first: Seq) -> Result<(Self, Opened<E>)> {
        let io = |action| {
            move |source| Error::Io {
                action,
                path: path.to_owned(),
                source,
            }
        };
        let mut file = disk.open(path).map_err(io("open"))?;
        // The name too: whoever made the file may have died before that was durable.
        disk.sync_dir(path.parent().unwrap_or(Path::new(".")))
            .map_err(io("open"))?;
        let bytes = disk.read(path).map_err(io("read"))?;
        let scan = line::scan(&bytes, path, first)?;
        if let Some(torn) = scan.torn {
            tracing::warn!(
                file = %path.display(), offset = torn.offset, bytes = torn.bytes,
                "cut off the end of a journal: it was being written when ronde died"
            );
            file.truncate(scan.good).map_err(io("cut"))?;
        }
        file.sync().map_err(io("sync"))?;
        let next = first + scan.records.len() as Seq;
        let journal = Self::over(file, path, scan.good, next);
        Ok((
            journal,
            Opened {
                records: scan.records,
                torn: scan.torn,
            },
        ))
    }

    fn over(file: Box<dyn DiskFile>, path: &Path, len: u64, next: Seq) -> Self {
        Self {
            file,
            path: path.to_owned(),
            len,
            next,
            poisoned: false,
            buf: Vec::new(),
            event: PhantomData,
        }
    }

    /// The number the next record must have.
    pub fn next(&self) -> Seq {
        self.next
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no record.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it takes no more records until it is opened again.
    pub fn poisoned(&self) -> bool {
        self.poisoned
    }

    /// Appends records in one write and one sync.
    ///
    /// # Errors
    /// [`Error::Illegal`] where a number does not follow or an event cannot be written as JSON;
    /// [`Error::Io`] where nothing was written; [`Error::Ambiguous`] where nobody knows. After the last
    /// one, every append is refused.
    pub fn append(&mut self, records: &[Record<E>]) -> Result<()> {
        if crash::armed() {
            for record in records {
                self.commit(std::slice::from_ref(record))?;
                crash::durable();
            }
            Ok(())
        } else {
            self.commit(records)
        }
    }

    fn commit(&mut self, records: &[Record<E>]) -> Result<()> {
        let Some(group) = records.first().map(|record| record.seq) else {
            return Ok(());
        };
        if self.poisoned {
            let refused = "an earlier write failed, it takes no more until it is opened again";
            return Err(self.io("append to", io::Error::other(refused)));
        }
        self.buf.clear();
        for (next, record) in (self.next..).zip(records) {
            if record.seq != next {
                return Err(self.illegal(format!("record {next} is next, not {}", record.seq)));
            }
            line::encode(record, group, &mut self.buf)
                .map_err(|e| self.illegal(format!("cannot be written as JSON: {e}")))?;
        }
        if let Err(e) = disk::write_all(&mut *self.file, &self.buf) {
            return Err(self.unwritten(e));
        }
        if let Err(e) = self.file.sync() {
            self.poisoned = true;
            return Err(self.ambiguous(e));
        }
        self.len += self.buf.len() as u64;
        self.next += records.len() as Seq;
        Ok(())
    }

    /// A write failed before anything was synced. On a full disk the part that was written is taken
    /// back, durably; then, and only then, it is certain that nothing was written.
    fn unwritten(&mut self, source: io::Error) -> Error {
        let full = matches!(
            source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        );
        if full && self.file.truncate(self.len).is_ok() && self.file.sync().is_ok() {
            return self.io("append to", source);
        }
        self.poisoned = true;
        self.ambiguous(source)
    }

    fn ambiguous(&self, source: io::Error) -> Error {
        Error::Ambiguous {
            what: format!("a record of {}", self.path.display()),
            source,
        }
    }

    fn io(&self, action: &'static str, source: io::Error) -> Error {
        Error::Io {
            action,
            path: self.path.clone(),
            source,
        }
    }

    fn illegal(&self, reason: String) -> Error {
        Error::Illegal {
            what: self.path.display().to_string(),
            reason,
        }
    }
}

/// Reads a journal without opening it for writing: a torn end is left alone and told.
///
/// # Errors
/// As [`Journal::open`].
pub fn read<E: DeserializeOwned>(disk: &dyn Disk, path: &Path, first: Seq) -> Result<Opened<E>> {
    let bytes = disk.read(path).map_err(|source| Error::Io {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    let scan = line::scan(&bytes, path, first)?;
    Ok(Opened {
        records: scan.records,
        torn: scan.torn,
    })
}
