//! A home as another process sees it that does not own it: read once, from the journals alone, and
//! nothing is changed. A line that is being written at this moment is not seen.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use ronde_protocol::{ArtefactId, RunId, Seq};

use crate::{
    artefacts,
    disk::RealDisk,
    event::RunEvent,
    home::Home,
    journal::{self, Record},
    local::Layout,
    runfiles, segments,
    store::{Error, Result},
};

/// A home that is only read.
pub struct LocalReader {
    layout: Layout,
    home: Arc<Home>,
}

impl LocalReader {
    /// Reads the journal of the home at `home`. A folder that is not there is a home in which nothing
    /// has happened.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::TooNew`], or as the disk says.
    pub fn open(home: &Path) -> Result<Self> {
        let (fold, _) = segments::read(&RealDisk, home)?;
        Ok(Self {
            layout: Layout::new(home),
            home: Arc::new(fold),
        })
    }

    /// The state of the home when it was read.
    pub fn home(&self) -> Arc<Home> {
        Arc::clone(&self.home)
    }

    /// Where the journal of a run is.
    ///
    /// # Errors
    /// [`Error::Illegal`] where this cannot be the id of a run.
    pub fn run_journal(&self, run: &RunId) -> Result<PathBuf> {
        runfiles::journal_file(&self.layout.runs(), run)
    }

    /// Reads a run's journal, as it is now, from record `from` on (1 is the first).
    ///
    /// # Errors
    /// [`Error::Missing`] for a run the home did not know when it was read; else as the disk says.
    pub fn read_run(&self, run: &RunId, from: Seq) -> Result<Vec<Record<RunEvent>>> {
        if self.home.run(run).is_none() {
            return Err(Error::Missing {
                what: format!("run {run}"),
            });
        }
        let path = self.run_journal(run)?;
        match journal::read::<RunEvent>(&RealDisk, &path, 1) {
            Ok(opened) => Ok(opened
                .records
                .into_iter()
                .filter(|r| r.seq >= from)
                .collect()),
            // It was fired and has not begun.
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        }
    }

    /// Reads a blob; its hash is checked.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Corrupt`], or as the disk says.
    pub fn get_artefact(&self, id: &ArtefactId) -> Result<Vec<u8>> {
        artefacts::get(&self.layout.artefacts(), id)
    }
}
