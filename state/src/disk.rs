//! The few things a journal asks of a disk, as a trait, so that a test can put a disk beneath it that
//! loses power, fills up or fails. The journals and snapshots go through it; it decides nothing.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::Path,
};

/// A place for files.
pub trait Disk: Send + Sync + 'static {
    /// Makes a file that must not exist, open for appending. Its name is not durable before
    /// [`Disk::sync_dir`] on its folder.
    ///
    /// # Errors
    /// What the system says.
    fn create(&self, file: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens an existing file for appending.
    ///
    /// # Errors
    /// What the system says; `NotFound` where there is no such file.
    fn open(&self, file: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Reads a whole file.
    ///
    /// # Errors
    /// What the system says; `NotFound` where there is no such file.
    fn read(&self, file: &Path) -> io::Result<Vec<u8>>;

    /// The names in a folder, in no order; names that are not UTF-8 are left out.
    ///
    /// # Errors
    /// What the system says; `NotFound` where there is no such folder.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Makes one folder, readable by its owner alone.
    ///
    /// # Errors
    /// What the system says; `AlreadyExists` where there is one.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Makes the names in a folder durable.
    ///
    /// # Errors
    /// What the system says.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Renames a file, replacing what has the new name.
    ///
    /// # Errors
    /// What the system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// What the system says.
    fn remove(&self, file: &Path) -> io::Result<()>;
}

/// An open file that is only ever appended to.
pub trait DiskFile: Send {
    /// Appends some of the bytes and says how many.
    ///
    /// # Errors
    /// What the system says.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Makes what was written durable, its length too.
    ///
    /// # Errors
    /// What the system says. What is on the disk is then unknown.
    fn sync(&mut self) -> io::Result<()>;

    /// Cuts the file.
    ///
    /// # Errors
    /// What the system says.
    fn truncate(&mut self, len: u64) -> io::Result<()>;
}

/// The disk of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create(&self, file: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(
            OpenOptions::new()
                .append(true)
                .create_new(true)
                .open(file)?,
        ))
    }

    fn open(&self, file: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(OpenOptions::new().append(true).open(file)?))
    }

    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        fs::read(file)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        fs::DirBuilder::new().mode(0o700).create(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        fs::remove_file(file)
    }
}

impl DiskFile for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        // fdatasync(2): the data and the length, not the times.
        self.sync_data()
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }
}

/// Makes a folder and those above it that are missing, each of them durable.
///
/// # Errors
/// What the system says.
pub fn create_dirs(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    match disk.create_dir(dir) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let Some(parent) = dir.parent() else {
                return Err(e);
            };
            create_dirs(disk, parent)?;
            match disk.create_dir(dir) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                _ => {}
            }
        }
        Err(e) => return Err(e),
    }
    match dir.parent() {
        Some(parent) if parent.as_os_str().is_empty() => disk.sync_dir(Path::new(".")),
        Some(parent) => disk.sync_dir(parent),
        None => Ok(()),
    }
}

/// Puts bytes into a file under a temporary name next to it and renames it: a reader sees the old file
/// or the new one, whole. Durable when it returns.
///
/// # Errors
/// What the system says; the file is then as it was, or new.
pub fn replace(disk: &dyn Disk, temp: &Path, file: &Path, bytes: &[u8]) -> io::Result<()> {
    // One may be left from a process that died.
    let _ = disk.remove(temp);
    let written = (|| {
        let mut open = disk.create(temp)?;
        write_all(&mut *open, bytes)?;
        open.sync()?;
        disk.rename(temp, file)
    })();
    if let Err(e) = written {
        // Rubbish under a temporary name harms nobody; what went wrong before matters more.
        let _ = disk.remove(temp);
        return Err(e);
    }
    disk.sync_dir(file.parent().unwrap_or(Path::new(".")))
}

/// Writes all bytes, in as many calls as it takes.
///
/// # Errors
/// What the system says; some of the bytes may be written.
pub fn write_all(file: &mut dyn DiskFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
