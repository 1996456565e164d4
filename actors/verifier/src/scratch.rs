//! The folder of one verification: the `HOME` and `TMPDIR` of its checks, and their output on its way.

use std::{
    fs, io,
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

/// Removes the folder with all in it. Nothing there is fine.
pub(crate) fn remove(scratch: &Path) -> io::Result<()> {
    ronde_workspace::remove_tree(scratch)
}
