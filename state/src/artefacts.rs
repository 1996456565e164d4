//! Blobs by the SHA-256 of their bytes: written once, never changed, checked when read.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use ronde_protocol::ArtefactId;
use sha2::{Digest as _, Sha256};

use crate::{
    files::Temp,
    store::{Error, Result},
};

/// The blobs below one folder, by the first two digits of their ids.
pub(crate) struct Artefacts {
    dir: PathBuf,
    temp: Temp,
}

impl Artefacts {
    pub(crate) fn new(dir: PathBuf, temp: Temp) -> Self {
        Self { dir, temp }
    }

    pub(crate) fn put(&self, bytes: &[u8]) -> Result<ArtefactId> {
        let id = ArtefactId::of(bytes);
        let path = self.path(&id)?;
        if path.exists() {
            // Who has written it may not have made its name durable yet.
            return self.synced(&path, id);
        }
        let (temp, mut file) = self.temp.create()?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        self.place(&temp, written, &path, id)
    }

    pub(crate) fn put_file(&self, source: &Path) -> Result<ArtefactId> {
        let read = |e| io_error("read", source, e);
        let mut input = File::open(source).map_err(read)?;
        let (temp, mut file) = self.temp.create()?;
        let mut hash = Sha256::new();
        let mut buf = vec![0; 64 << 10];
        let copied = (|| loop {
            match input.read(&mut buf) {
                Ok(0) => return file.sync_all(),
                Ok(count) => {
                    hash.update(&buf[..count]);
                    file.write_all(&buf[..count])?;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        })();
        let id = ArtefactId::new(hex(&hash.finalize()));
        let path = self.path(&id)?;
        self.place(&temp, copied, &path, id)
    }

    pub(crate) fn get(&self, id: &ArtefactId) -> Result<Vec<u8>> {
        get(&self.dir, id)
    }

    fn path(&self, id: &ArtefactId) -> Result<PathBuf> {
        path(&self.dir, id)
    }

    /// Gives a temporary file its name.
    fn place(
        &self,
        temp: &Path,
        written: io::Result<()>,
        path: &Path,
        id: ArtefactId,
    ) -> Result<ArtefactId> {
        let dir = path.parent().unwrap_or(&self.dir);
        let placed = written.and_then(|()| {
            if !dir.is_dir() {
                crate::disk::create_dirs(&crate::disk::RealDisk, dir)?;
            }
            fs::rename(temp, path)
        });
        if let Err(e) = placed {
            // Emptied when the home is opened next, if not now.
            let _ = fs::remove_file(temp);
            return Err(io_error("write", path, e));
        }
        self.synced(path, id)
    }

    fn synced(&self, path: &Path, id: ArtefactId) -> Result<ArtefactId> {
        let dir = path.parent().unwrap_or(&self.dir);
        let synced = File::open(dir).and_then(|dir| dir.sync_all());
        synced.map_err(|e| io_error("write", path, e))?;
        Ok(id)
    }
}

/// Reads a blob below `dir` and checks that it is what its id says.
pub(crate) fn get(dir: &Path, id: &ArtefactId) -> Result<Vec<u8>> {
    let path = path(dir, id)?;
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return missing(id),
        Err(e) => return Err(io_error("read", &path, e)),
    };
    if ArtefactId::of(&bytes) != *id {
        return Err(Error::Corrupt {
            file: path,
            offset: 0,
            reason: "its bytes do not hash to its name".to_owned(),
        });
    }
    Ok(bytes)
}

fn path(dir: &Path, id: &ArtefactId) -> Result<PathBuf> {
    let text = id.as_str();
    if text.len() != 64 || !text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return missing(id);
    }
    Ok(dir.join(&text[..2]).join(&text[2..]))
}

fn missing<T>(id: &ArtefactId) -> Result<T> {
    Err(Error::Missing {
        what: format!("artefact {id}"),
    })
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            write!(text, "{byte:02x}").expect("writing to a String cannot fail");
            text
        })
}

pub(crate) fn io_error(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Io {
        action,
        path: path.to_owned(),
        source,
    }
}
