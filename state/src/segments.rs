//! The home journal on disk: segments, each named after the number of its first record, and snapshots
//! beside them. Only the last segment is ever written to; no segment is ever removed.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use ronde_protocol::Seq;

use crate::{
    disk::{self, Disk},
    event::HomeEvent,
    home::Home,
    journal::{self, Journal, Opened, Record, Torn},
    snapshot,
    store::{Error, Result},
};

/// A segment of this length, in bytes, is followed by a new one.
pub(crate) const SEGMENT: u64 = 8 << 20;
/// With more records than this after the last snapshot, a new one is written.
const REPLAY: Seq = 20_000;

/// Where the segments are within a home.
pub(crate) fn journal_dir(root: &Path) -> PathBuf {
    root.join("home").join("journal")
}

fn snapshot_dir(root: &Path) -> PathBuf {
    root.join("home").join("snapshots")
}

/// The home journal, open for appending.
pub(crate) struct HomeJournal {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    current: Journal<HomeEvent>,
    /// Bytes after which a segment is full.
    limit: u64,
    /// The record up to which there is a snapshot.
    snapshot: Seq,
}

/// What opening the home journal gave.
pub(crate) struct Recovered {
    pub(crate) journal: HomeJournal,
    pub(crate) home: Home,
    pub(crate) torn: Option<Torn>,
}

impl HomeJournal {
    /// Opens or makes the home journal below `root`, and folds it. A torn end is cut off and told.
    pub(crate) fn open(disk: Arc<dyn Disk>, root: &Path, limit: u64) -> Result<Recovered> {
        let dir = journal_dir(root);
        for dir in [&dir, &snapshot_dir(root)] {
            let made = disk::create_dirs(&*disk, dir);
            made.map_err(|source| Error::Io {
                action: "create",
                path: dir.clone(),
                source,
            })?;
        }
        let mut current = None;
        let replay = replay(&*disk, root, &mut |path, first| {
            let (journal, opened) = Journal::open(&*disk, path, first)?;
            current = Some(journal);
            Ok(opened)
        })?;
        let current = match current {
            Some(journal) => journal,
            None => Journal::create(&*disk, &segment(&dir, 1), 1)?,
        };
        let journal = Self {
            disk,
            root: root.to_owned(),
            current,
            limit,
            snapshot: replay.snapshot,
        };
        Ok(Recovered {
            journal,
            home: replay.home,
            torn: replay.torn,
        })
    }

    /// Appends records; they are durable when it returns.
    pub(crate) fn append(&mut self, records: &[Record<HomeEvent>]) -> Result<()> {
        self.current.append(records)
    }

    /// Begins a new segment where the last is full, and writes a snapshot where that saves time.
    /// `home` is the fold of all that was appended. What fails here is tried again later.
    pub(crate) fn tend(&mut self, home: &Home) {
        let full = self.current.len() >= self.limit && !self.current.poisoned();
        if full {
            let first = self.current.next();
            match Journal::create(
                &*self.disk,
                &segment(&journal_dir(&self.root), first),
                first,
            ) {
                Ok(journal) => self.current = journal,
                Err(error) => tracing::warn!(%error, "goes on with a full segment"),
            }
        }
        if full || home.seq() > self.snapshot + REPLAY {
            // Also where it fails: not again at every record.
            self.snapshot = home.seq();
            if let Err(error) = snapshot::write(&*self.disk, &snapshot_dir(&self.root), home) {
                tracing::warn!(%error, "could not write a snapshot; the journal has it all");
            }
        }
    }
}

/// What was read.
struct Replay {
    home: Home,
    torn: Option<Torn>,
    snapshot: Seq,
}

/// Reads the last segment in the way its caller wants it.
type ReadLast<'a> = dyn FnMut(&Path, Seq) -> Result<Opened<HomeEvent>> + 'a;

/// Folds the home journal from the newest snapshot that fits it, else from its beginning.
fn replay(disk: &dyn Disk, root: &Path, read_last: &mut ReadLast<'_>) -> Result<Replay> {
    let dir = journal_dir(root);
    let segments = list(disk, &dir)?;
    let Some(((first, path), before)) = segments.split_last() else {
        return Ok(Replay {
            home: Home::default(),
            torn: None,
            snapshot: 0,
        });
    };
    let last = read_last(path, *first)?;
    let end = first + last.records.len() as Seq - 1;
    let after = |home: Home| fold(disk, home, before, (*first, path, &last.records));
    let snapshot = snapshot::newest(disk, &snapshot_dir(root), end);
    let seq = snapshot.as_ref().map_or(0, Home::seq);
    let folded = match snapshot.map(after) {
        Some(Ok(home)) => Some((home, seq)),
        Some(Err(error)) => {
            tracing::warn!(%error, "passed over a snapshot that does not fit the journal");
            None
        }
        None => None,
    };
    let (home, snapshot) = match folded {
        Some(folded) => folded,
        None => (after(Home::default())?, 0),
    };
    Ok(Replay {
        home,
        torn: last.torn,
        snapshot,
    })
}

/// Folds what comes after `home`: from the segments `before` the last, and from the last.
fn fold(
    disk: &dyn Disk,
    mut home: Home,
    before: &[(Seq, PathBuf)],
    last: (Seq, &PathBuf, &[Record<HomeEvent>]),
) -> Result<Home> {
    let (last_first, last_path, last) = last;
    for (place, (first, path)) in before.iter().enumerate() {
        let next = before.get(place + 1).map_or(last_first, |(next, _)| *next);
        if next <= home.seq() + 1 {
            continue;
        }
        let records = whole(disk, path, *first, next)?;
        apply(&mut home, path, &records)?;
    }
    apply(&mut home, last_path, last)?;
    Ok(home)
}

fn apply(home: &mut Home, path: &Path, records: &[Record<HomeEvent>]) -> Result<()> {
    for record in records {
        if record.seq > home.seq() {
            home.apply(record).map_err(|illegal| Error::Illegal {
                what: path.display().to_string(),
                reason: illegal.to_string(),
            })?;
        }
    }
    Ok(())
}

/// A segment that others follow: it must be whole.
fn whole(disk: &dyn Disk, path: &Path, first: Seq, next: Seq) -> Result<Vec<Record<HomeEvent>>> {
    let corrupt = |offset, reason: String| Error::Corrupt {
        file: path.to_owned(),
        offset,
        reason,
    };
    let opened = journal::read::<HomeEvent>(disk, path, first)?;
    if let Some(torn) = opened.torn {
        return Err(corrupt(
            torn.offset,
            "a bad line in a segment that is not the last".to_owned(),
        ));
    }
    let end = first + opened.records.len() as Seq;
    if end != next {
        return Err(corrupt(
            0,
            format!("it ends before record {end}, the next begins at {next}"),
        ));
    }
    Ok(opened.records)
}

/// Folds the home journal of another process, or of none, and changes nothing.
pub(crate) fn read(disk: &dyn Disk, root: &Path) -> Result<(Home, Option<Torn>)> {
    let replay = replay(disk, root, &mut |path, first| {
        journal::read(disk, path, first)
    })?;
    Ok((replay.home, replay.torn))
}

/// The records from number `from` up to `upto`, which must be durable.
pub(crate) fn read_range(
    disk: &dyn Disk,
    root: &Path,
    from: Seq,
    upto: Seq,
) -> Result<Vec<Record<HomeEvent>>> {
    let segments = list(disk, &journal_dir(root))?;
    let mut records = Vec::new();
    for (place, (first, path)) in segments.iter().enumerate() {
        let next = segments.get(place + 1).map(|(next, _)| *next);
        if *first > upto || next.is_some_and(|next| next <= from) {
            continue;
        }
        let read = match next {
            Some(next) => whole(disk, path, *first, next)?,
            None => journal::read(disk, path, *first)?.records,
        };
        records.extend(
            read.into_iter()
                .filter(|record| (from..=upto).contains(&record.seq)),
        );
    }
    Ok(records)
}

fn segment(dir: &Path, first: Seq) -> PathBuf {
    dir.join(format!("{first:012}.jsonl"))
}

/// First record and path of each segment, in order; none where there is no journal.
fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<(Seq, PathBuf)>> {
    let names = match disk.list(dir) {
        Ok(names) => names,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => {
            return Err(Error::Io {
                action: "read",
                path: dir.to_owned(),
                source,
            });
        }
    };
    let number = |name: &str| name.strip_suffix(".jsonl")?.parse().ok();
    let mut segments: Vec<_> = names
        .iter()
        .filter_map(|name| Some((number(name)?, dir.join(name))))
        .collect();
    segments.sort();
    Ok(segments)
}
