//! The folder of one verification: the `HOME` and `TMPDIR` of its checks, and their output on its way.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// Where the `HOME` of checks is.
pub(crate) fn home(scratch: &Path) -> PathBuf {
    scratch.join("home")
}

/// Where the `TMPDIR` of checks is.
pub(crate) fn tmp(scratch: &Path) -> PathBuf {
    scratch.join("tmp")
}

/// Makes the folder anew.
pub(crate) fn make(scratch: &Path) -> io::Result<()> {
    remove(scratch)?;
    fs::create_dir_all(home(scratch))?;
    fs::create_dir_all(tmp(scratch))
}

/// Removes the folder with all in it, also where a check made folders read-only, as Go's module cache
/// does. Follows no link. Nothing there is fine.
pub(crate) fn remove(scratch: &Path) -> io::Result<()> {
    let removed = match fs::remove_dir_all(scratch) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open(scratch);
            fs::remove_dir_all(scratch)
        }
        other => other,
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Gives the owner of folders back what a check took. Where that fails, the removal says why.
fn open(folder: &Path) {
    let Ok(meta) = fs::symlink_metadata(folder) else {
        return;
    };
    if !meta.is_dir() {
        return;
    }
    let mode = meta.permissions().mode() & 0o7777;
    let _told_by_the_removal =
        fs::set_permissions(folder, fs::Permissions::from_mode(mode | 0o700));
    if let Ok(entries) = fs::read_dir(folder) {
        for entry in entries.flatten() {
            open(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_folders_are_opened_and_links_are_not_followed() {
        let dir = tempfile::tempdir().expect("a folder");
        let (scratch, outside) = (dir.path().join("s"), dir.path().join("outside"));
        make(&scratch).expect("a new folder");
        let deep = home(&scratch).join("a/b");
        fs::create_dir_all(&deep).expect("a folder");
        fs::create_dir(&outside).expect("a folder");
        std::os::unix::fs::symlink(&outside, deep.join("link")).expect("a link");
        for folder in [&deep, &home(&scratch).join("a"), &outside] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o555)).expect("a mode");
        }
        open(&scratch);
        let mode = |path: &Path| {
            fs::metadata(path)
                .expect("it is there")
                .permissions()
                .mode()
        };
        assert_eq!(mode(&deep) & 0o777, 0o755);
        assert_eq!(mode(&outside) & 0o777, 0o555);
        remove(&scratch).expect("removed");
        assert!(!scratch.exists() && outside.exists());
        remove(&scratch).expect("nothing there is fine");
    }
}
