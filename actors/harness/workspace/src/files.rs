//! Files and folders of a run: made whole or not at all, removed without following a link.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{Error, removal::remove_tree};

/// Runs file work off the async threads.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// A path below `folder` at which there is nothing. A process id alone would not do: in a container
/// it is the same after each restart, and what was left half made is still there.
pub(crate) fn unused(folder: &Path) -> PathBuf {
    unused_named(folder, "")
}

/// The same, with a name that begins so.
pub(crate) fn unused_named(folder: &Path, prefix: &str) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{prefix}{}-{count}", std::process::id()));
        if fs::symlink_metadata(&path).is_err() {
            return path;
        }
    }
}

/// Makes a folder and those above it.
pub(crate) fn make(folder: &Path) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(Error::io("make the folder", folder))
}

/// Writes a file.
pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), Error> {
    fs::write(path, bytes).map_err(Error::io("write", path))
}

/// Reads a file; `None` if there is none.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

/// Writes a file so that a reader, also after a power cut, sees the old one or the new one.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let new = unused_named(folder, "new-");
    let written = (|| {
        let mut file = fs::File::create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        sync_folder(folder)
    })();
    written.map_err(Error::io("write", path))
}

/// Puts the names in a folder on disk.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}

/// Puts a folder with all in it on disk.
pub(crate) fn sync(folder: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let entry = entry.map_err(Error::io("read", folder))?;
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            sync(&path)?;
        } else {
            sync_folder(&path).map_err(Error::io("write", path))?;
        }
    }
    sync_folder(folder).map_err(Error::io("write", folder))
}

/// Renames.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    fs::rename(from, to).map_err(Error::io("rename", from))
}

/// Copies a file with its time of modification. For an index that matters: git takes an entry for
/// unchanged only if the file is older than the index, so a copy must not look younger.
pub(crate) fn copy_with_time(from: &Path, to: &Path) -> Result<(), Error> {
    let copied = (|| {
        fs::copy(from, to)?;
        let modified = fs::metadata(from)?.modified()?;
        fs::File::options()
            .write(true)
            .open(to)?
            .set_modified(modified)
    })();
    copied.map_err(Error::io("copy", from))
}

/// Copies the files of one folder (no folders in it) into another.
pub(crate) fn copy_flat(from: &Path, to: &Path) -> Result<(), Error> {
    make(to)?;
    for entry in fs::read_dir(from).map_err(Error::io("read", from))? {
        let path = entry.map_err(Error::io("read", from))?.path();
        if let Some(name) = path.file_name() {
            fs::copy(&path, to.join(name)).map_err(Error::io("copy", &path))?;
        }
    }
    Ok(())
}

/// Removes a file, a link (not what it leads to) or a folder with all in it, also where its folders
/// were made read-only. Nothing there is fine.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    remove_tree(path).map_err(Error::io("remove", path))
}

/// Gives the owner back what a program may have taken: reading files, and all of folders. As far as
/// that works; what comes after says what did not.
pub(crate) fn mend(path: &Path) {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return;
    };
    let mode = meta.permissions().mode();
    let want = if meta.is_dir() {
        mode | 0o700
    } else {
        mode | 0o400
    };
    if (meta.is_dir() || meta.is_file()) && want != mode {
        // A failure shows in the reading or removing that follows.
        let _ = fs::set_permissions(path, fs::Permissions::from_mode(want & 0o7777));
    }
    if meta.is_dir()
        && let Ok(entries) = fs::read_dir(path)
    {
        for entry in entries.flatten() {
            mend(&entry.path());
        }
    }
}

/// Whether an error says that there is no such thing.
pub(crate) fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// A name that is one plain part of a path.
pub(crate) fn plain<'a>(what: &'static str, name: &'a str) -> Result<&'a str, Error> {
    let good = !name.is_empty()
        && name.len() <= 200
        && name != "."
        && name != ".."
        && !name.ends_with(".lock")
        && !name.contains(['/', '\0', '\n']);
    if good {
        Ok(name)
    } else {
        Err(Error::Name {
            what,
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn what_a_process_of_the_same_id_left_is_not_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = unused(folder.path());
        let name = first
            .file_name()
            .expect("named")
            .to_string_lossy()
            .into_owned();
        let (id, count) = name.split_once('-').expect("two parts");
        let count: u64 = count.parse().expect("a number");
        for count in count..count + 100 {
            fs::create_dir(folder.path().join(format!("{id}-{count}"))).expect("made");
        }
        assert!(!unused(folder.path()).exists());
    }

    #[test]
    fn a_copy_does_not_look_younger() {
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&from, "x").expect("written");
        let old = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 5_000);
        fs::File::options()
            .write(true)
            .open(&from)
            .expect("open")
            .set_modified(old)
            .expect("set");
        copy_with_time(&from, &to).expect("copied");
        assert_eq!(
            fs::metadata(&to).expect("there").modified().expect("known"),
            old
        );
    }

    #[test]
    fn a_link_is_removed_and_not_what_it_leads_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let (kept, gone) = (folder.path().join("kept"), folder.path().join("gone"));
        fs::create_dir(&kept).expect("made");
        fs::write(kept.join("x"), "").expect("written");
        fs::create_dir(&gone).expect("made");
        for name in ["gone/to-folder", "link"] {
            std::os::unix::fs::symlink(&kept, folder.path().join(name)).expect("linked");
        }
        remove(&folder.path().join("link")).expect("removed");
        remove(&gone).expect("removed");
        remove(&gone).expect("nothing there is fine");
        remove(&kept.join("x/y")).expect("nothing there is fine");
        assert!(kept.join("x").exists() && !gone.exists());
        // Shut folders and files.
        fs::create_dir_all(gone.join("a/b")).expect("made");
        fs::set_permissions(gone.join("a/b"), fs::Permissions::from_mode(0o000)).expect("shut");
        fs::set_permissions(gone.join("a"), fs::Permissions::from_mode(0o500)).expect("shut");
        remove(&gone).expect("removed");
        assert!(!gone.exists());
    }
}
