//! Files a loop keeps between its runs, replaced as a whole; and the folder in which every new file is
//! made before it gets its name.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    artefacts::io_error,
    backend::FileKey,
    disk::{RealDisk, create_dirs},
    store::Result,
};

/// The folder for files that have no name yet. It is on the same file system as all else in the home.
#[derive(Clone)]
pub(crate) struct Temp {
    dir: PathBuf,
    next: Arc<AtomicU64>,
}

impl Temp {
    /// Makes the folder, or empties it of what a process that died has left.
    pub(crate) fn open(dir: PathBuf) -> io::Result<Self> {
        create_dirs(&RealDisk, &dir)?;
        for entry in fs::read_dir(&dir)? {
            fs::remove_file(entry?.path())?;
        }
        Ok(Self {
            dir,
            next: Arc::default(),
        })
    }

    pub(crate) fn create(&self) -> Result<(PathBuf, File)> {
        let path = self
            .dir
            .join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        let file = file.map_err(|e| io_error("create", &path, e))?;
        Ok((path, file))
    }
}

/// The state files below one folder: `<project>/<loop>/<file>`.
pub(crate) struct Files {
    dir: PathBuf,
    temp: Temp,
}

impl Files {
    pub(crate) fn new(dir: PathBuf, temp: Temp) -> Self {
        Self { dir, temp }
    }

    pub(crate) fn get(&self, key: &FileKey) -> Result<Option<Vec<u8>>> {
        let path = self.path(key);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(io_error("read", &path, e)),
        }
    }

    pub(crate) fn set(&self, key: &FileKey, bytes: &[u8]) -> Result<()> {
        let path = self.path(key);
        let dir = path.parent().unwrap_or(Path::new("."));
        let (temp, mut file) = self.temp.create()?;
        let placed = (|| {
            file.write_all(bytes)?;
            file.sync_all()?;
            create_dirs(&RealDisk, dir)?;
            fs::rename(&temp, &path)
        })();
        if let Err(e) = placed {
            // Emptied when the home is opened next, if not now.
            let _ = fs::remove_file(&temp);
            return Err(io_error("write", &path, e));
        }
        let synced = File::open(dir).and_then(|dir| dir.sync_all());
        synced.map_err(|e| io_error("write", &path, e))
    }

    fn path(&self, key: &FileKey) -> PathBuf {
        key.parts
            .iter()
            .fold(self.dir.clone(), |path, part| path.join(part))
    }
}
