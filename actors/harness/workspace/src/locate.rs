//! Finds the git folder of a repository by reading the few files that say where it is. No git runs.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use crate::{Error, files};

/// Where a repository keeps what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Located {
    /// The repository, as it was named.
    pub(crate) repo: PathBuf,
    /// Its git folder; for a linked worktree its own small one.
    pub(crate) git: PathBuf,
    /// The git folder it shares with its other worktrees; else the same.
    pub(crate) common: PathBuf,
}

impl Located {
    /// The object store.
    pub(crate) fn objects(&self) -> PathBuf {
        self.common.join("objects")
    }

    /// The list of commits whose parents are missing, for a shallow clone.
    pub(crate) fn shallow(&self) -> Result<Option<Vec<u8>>, Error> {
        files::read(&self.common.join("shallow"))
    }
}

/// Finds a repository at a folder: one with a `.git` folder or link, a linked worktree or submodule
/// (`.git` is a file), or a bare one.
pub(crate) fn locate(repo: &Path) -> Result<Located, Error> {
    match fs::metadata(repo) {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => return Err(not_a_repository(repo)),
        Err(error) if files::is_missing(&error) => {
            return Err(Error::NoFolder {
                repo: repo.to_owned(),
            });
        }
        Err(error) => return Err(Error::io("look at", repo)(error)),
    }
    at(repo)?.ok_or_else(|| not_a_repository(repo))
}

fn at(repo: &Path) -> Result<Option<Located>, Error> {
    let dot = repo.join(".git");
    let git = match fs::metadata(&dot) {
        Ok(meta) if meta.is_dir() => dot,
        Ok(_) => {
            let text = fs::read(&dot).map_err(Error::io("read", &dot))?;
            let Some(to) = text.strip_prefix(b"gitdir: ") else {
                return Ok(None);
            };
            repo.join(path_of(to))
        }
        Err(error) if files::is_missing(&error) => repo.to_owned(),
        Err(error) => return Err(Error::io("look at", &dot)(error)),
    };
    // `HEAD` may be a link that leads nowhere: that was its form long ago.
    if fs::symlink_metadata(git.join("HEAD")).is_err() {
        return Ok(None);
    }
    let git = git.canonicalize().map_err(Error::io("look at", &git))?;
    let common = match files::read(&git.join("commondir"))? {
        Some(to) => {
            let common = git.join(path_of(&to));
            common
                .canonicalize()
                .map_err(Error::io("look at", &common))?
        }
        None => git.clone(),
    };
    if !common.join("objects").is_dir() || !common.join("refs").is_dir() {
        return Ok(None);
    }
    Ok(Some(Located {
        repo: repo.to_owned(),
        git,
        common,
    }))
}

fn not_a_repository(repo: &Path) -> Error {
    let within = repo
        .ancestors()
        .skip(1)
        .find(|folder| folder.join(".git").exists() && matches!(at(folder), Ok(Some(_))));
    Error::NotARepository {
        repo: repo.to_owned(),
        within: within.map(Path::to_owned),
    }
}

fn path_of(line: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(line.trim_ascii_end()))
}

/// The branch a git folder has checked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Head {
    /// This ref: `refs/heads/main`.
    Ref(String),
    /// A commit of its own.
    Detached,
    /// Only git can say: refs are kept in a table, or `HEAD` is a link.
    AskGit,
}

/// Reads `HEAD`.
pub(crate) fn head(git: &Path) -> Result<Head, Error> {
    let path = git.join("HEAD");
    if fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_symlink()) {
        return Ok(Head::AskGit);
    }
    let bytes = fs::read(&path).map_err(Error::io("read", &path))?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(match text.strip_prefix("ref:").map(str::trim) {
        Some("refs/heads/.invalid") => Head::AskGit,
        Some(name) => Head::Ref(name.to_owned()),
        None => Head::Detached,
    })
}
