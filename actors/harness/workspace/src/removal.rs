//! Removes what programs left, whatever they made of it: folders that are read-only, folders in folders
//! beyond any path's length. It follows no link, and its stack does not grow with the depth.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use crate::files::{is_missing, unused_named};

/// Removes a file, a link (not what it leads to), or a folder with all in it. Nothing there is fine.
///
/// Each folder is moved up beside the first before it is looked into: no path is ever deep, and what
/// still writes in there cannot lead the way elsewhere.
///
/// # Errors
/// What the file system says; the rest then lies in a folder `.gone-…` beside it.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => return fine_if_missing(fs::remove_file(path)),
        Err(error) if is_missing(&error) => return Ok(()),
        Err(error) => return Err(error),
    }
    let parent = path.parent().unwrap_or(Path::new("."));
    let gone = unused_named(parent, ".gone-");
    fs::create_dir(&gone)?;
    let mut count = 0_u64;
    let mut waiting = Vec::new();
    take(path, &gone, &mut count, &mut waiting)?;
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?.path();
            match fs::symlink_metadata(&entry) {
                Ok(meta) if meta.is_dir() => take(&entry, &gone, &mut count, &mut waiting)?,
                Ok(_) => fine_if_missing(fs::remove_file(&entry))?,
                Err(error) => fine_if_missing(Err(error))?,
            }
        }
        fine_if_missing(fs::remove_dir(&folder))?;
    }
    fs::remove_dir(&gone)
}

/// Opens a folder to its owner and moves it up.
fn take(from: &Path, gone: &Path, count: &mut u64, waiting: &mut Vec<PathBuf>) -> io::Result<()> {
    let mode = fs::symlink_metadata(from)?.permissions().mode() & 0o7777;
    if mode & 0o700 != 0o700 {
        // Where it fails, the moving or reading says why.
        let _said_later = fs::set_permissions(from, fs::Permissions::from_mode(mode | 0o700));
    }
    let to = gone.join(count.to_string());
    *count += 1;
    fs::rename(from, &to)?;
    waiting.push(to);
    Ok(())
}

fn fine_if_missing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if is_missing(&error) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deeper than any path can name, and than recursion has stack for.
    #[test]
    fn depth_is_no_obstacle() {
        use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
        let dir = tempfile::tempdir().expect("a folder");
        let top = dir.path().join("top");
        fs::create_dir(&top).expect("a folder");
        let flags = OFlags::DIRECTORY | OFlags::RDONLY;
        let mut at = openat(CWD, &top, flags, Mode::empty()).expect("a folder");
        for _ in 0..30_000 {
            mkdirat(&at, "d", Mode::RWXU).expect("a folder");
            at = openat(&at, "d", flags, Mode::empty()).expect("a folder");
        }
        remove_tree(&top).expect("it goes");
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 0);
    }

    #[test]
    fn links_are_not_followed_and_shut_folders_are_opened() {
        let dir = tempfile::tempdir().expect("a folder");
        let (top, outside) = (dir.path().join("top"), dir.path().join("outside"));
        fs::create_dir_all(top.join("a/b")).expect("a folder");
        fs::create_dir(&outside).expect("a folder");
        fs::write(outside.join("kept"), "x").expect("a file");
        std::os::unix::fs::symlink(&outside, top.join("a/b/link")).expect("a link");
        for shut in [top.join("a/b"), top.join("a")] {
            fs::set_permissions(shut, fs::Permissions::from_mode(0o500)).expect("a mode");
        }
        remove_tree(&top).expect("it goes");
        assert!(!top.exists() && outside.join("kept").exists());
        remove_tree(&top).expect("nothing there is fine");
    }
}
