//! Brings an index up to what a folder holds: new, changed and vanished files, by the engine's git
//! folder and the engine's index. It reads nothing of a `.git` it meets in the folder.

use std::{
    collections::{BTreeSet, HashMap},
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::{Error, Git, files, git::Call};

/// What is not to be found in a folder.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ignore<'a> {
    /// By this list of patterns alone.
    List(&'a Path),
    /// By the `.gitignore` files the folder has itself.
    Own,
}

/// A folder to be scanned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scan<'a> {
    /// The git folder objects go to.
    pub(crate) dir: &'a Path,
    /// The folder with the files.
    pub(crate) folder: &'a Path,
    /// The index, which is rewritten if there is something to change.
    pub(crate) index: &'a Path,
    /// What is left out.
    pub(crate) ignore: Ignore<'a>,
    /// The tree whose `.gitattributes` say how files become objects; else the folder's own do.
    pub(crate) attributes: Option<&'a str>,
    /// Digits of an object id.
    pub(crate) digits: usize,
}

/// What a scan found.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    /// Paths that differ from the index and are not out of reach.
    paths: BTreeSet<Vec<u8>>,
    /// Paths of the index that now lie behind a link, so that they are no longer in the folder.
    behind: Vec<Vec<u8>>,
    /// Something could not be looked at.
    shut: bool,
}

impl Scan<'_> {
    /// Brings the index up to date; whether there was something to do. One process, or two; more
    /// where a program made files unreadable or put a link where a folder was.
    pub(crate) async fn update(self, git: &Git) -> Result<bool, Error> {
        match self.once(git).await {
            Ok(Some(changed)) => return Ok(changed),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "scanning again"),
        }
        let folder = self.folder.to_owned();
        files::blocking(move || {
            files::mend(&folder);
            Ok(())
        })
        .await?;
        match self.once(git).await? {
            Some(changed) => Ok(changed),
            None => Err(Error::Git {
                command: "ls-files".into(),
                path: self.folder.to_owned(),
                detail: "some files cannot be read".into(),
            }),
        }
    }

    /// One try; `None` if something could not be read.
    async fn once(self, git: &Git) -> Result<Option<bool>, Error> {
        let call = Call::new(self.dir, ["ls-files", "-z", "-o", "-m", "-d"])
            .work(self.folder)
            .index(self.index);
        let call = match self.ignore {
            Ignore::List(list) => call.arg("--exclude-from").arg(list),
            Ignore::Own => call.arg("--exclude-per-directory=.gitignore"),
        };
        let call = call.attributes(self.attributes);
        let output = git.run(call).await?;
        let shut = output.stderr.contains("could not open directory");
        let listed = output.ok()?;
        let (folder, list) = (
            self.folder.to_owned(),
            match self.ignore {
                Ignore::List(list) => Some(list.to_owned()),
                Ignore::Own => None,
            },
        );
        let found = files::blocking(move || sort(&listed, &folder, list.as_deref())).await?;
        if shut || found.shut {
            return Ok(None);
        }
        let changed = !found.paths.is_empty() || !found.behind.is_empty();
        if !found.paths.is_empty() {
            let call = Call::new(
                self.dir,
                [
                    "update-index",
                    "--add",
                    "--remove",
                    "--replace",
                    "-z",
                    "--stdin",
                ],
            );
            let stdin = found.paths.iter().flat_map(|path| [path.as_slice(), b"\0"]);
            let stdin: Vec<u8> = stdin.flatten().copied().collect();
            let call = call.work(self.folder).index(self.index).stdin(stdin);
            git.ok(call.attributes(self.attributes)).await?;
        }
        if !found.behind.is_empty() {
            let entries = found.behind.iter().map(|path| Entry { path, state: None });
            set_entries(git, self.dir, self.index, self.digits, entries).await?;
        }
        Ok(Some(changed))
    }
}

/// An entry of an index as it is to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    /// Its path.
    pub(crate) path: &'a [u8],
    /// Mode and object, or nothing.
    pub(crate) state: Option<(&'a str, &'a str)>,
}

/// Sets entries of an index, whatever the files are. One process.
pub(crate) async fn set_entries<'a>(
    git: &Git,
    dir: &Path,
    index: &Path,
    digits: usize,
    entries: impl Iterator<Item = Entry<'a>>,
) -> Result<(), Error> {
    let mut lines = Vec::new();
    for Entry { path, state } in entries {
        match state {
            Some((mode, id)) => lines.extend_from_slice(format!("{mode} {id}\t").as_bytes()),
            None => lines.extend_from_slice(format!("0 {}\t", "0".repeat(digits)).as_bytes()),
        }
        lines.extend_from_slice(path);
        lines.push(0);
    }
    let call = Call::new(dir, ["update-index", "-z", "--index-info"])
        .index(index)
        .stdin(lines);
    git.ok(call).await.map(drop)
}

/// Sorts what `ls-files` listed.
fn sort(listed: &[u8], folder: &Path, list: Option<&Path>) -> Result<Found, Error> {
    let mut found = Found::default();
    let mut parents = Parents {
        folder,
        links: HashMap::new(),
    };
    for path in listed
        .split(|&byte| byte == 0)
        .filter(|path| !path.is_empty())
    {
        if let Some(nested) = path.strip_suffix(b"/") {
            // A git repository made within: its files count, its `.git` does not.
            let ignored = ignored(folder, list)?;
            walk(folder, &path_of(nested), &ignored, &mut found)?;
        } else if parents.through_link(path) {
            found.behind.push(path.to_vec());
        } else {
            match fs::symlink_metadata(folder.join(path_of(path))) {
                Err(error) if !files::is_missing(&error) => found.shut = true,
                _ => {
                    found.paths.insert(path.to_vec());
                }
            }
        }
    }
    found.behind.sort();
    found.behind.dedup();
    Ok(found)
}

/// Which folders are links.
struct Parents<'a> {
    folder: &'a Path,
    links: HashMap<Vec<u8>, bool>,
}

impl Parents<'_> {
    fn through_link(&mut self, path: &[u8]) -> bool {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        for (at, _) in slashes {
            let parent = &path[..at];
            let link = match self.links.get(parent) {
                Some(link) => *link,
                None => {
                    let path = self.folder.join(path_of(parent));
                    let link = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink());
                    self.links.insert(parent.to_vec(), link);
                    link
                }
            };
            if link {
                return true;
            }
        }
        false
    }
}

fn ignored(folder: &Path, list: Option<&Path>) -> Result<Gitignore, Error> {
    let mut builder = GitignoreBuilder::new(folder);
    if let Some(list) = list {
        let text = files::read(list)?.unwrap_or_default();
        for line in String::from_utf8_lossy(&text).lines() {
            // git ignores a line it cannot read, too.
            let _ = builder.add_line(None, line);
        }
    }
    builder.build().map_err(|error| Error::Damaged {
        path: list.unwrap_or(folder).to_owned(),
        detail: error.to_string(),
    })
}

/// Lists the files and links of a nested repository.
fn walk(folder: &Path, below: &Path, ignored: &Gitignore, found: &mut Found) -> Result<(), Error> {
    let at = folder.join(below);
    let entries = match fs::read_dir(&at) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            found.shut = true;
            return Ok(());
        }
        Err(error) => return Err(Error::io("read", at)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(Error::io("read", &at))?;
        if entry.file_name().eq_ignore_ascii_case(".git") {
            continue;
        }
        let kind = entry
            .file_type()
            .map_err(Error::io("look at", entry.path()))?;
        let path: PathBuf = below.join(entry.file_name());
        if ignored
            .matched_path_or_any_parents(&path, kind.is_dir())
            .is_ignore()
        {
            continue;
        }
        if kind.is_dir() {
            walk(folder, &path, ignored, found)?;
        } else if kind.is_file() || kind.is_symlink() {
            found
                .paths
                .insert(path.into_os_string().as_bytes().to_vec());
        }
    }
    Ok(())
}

/// A path as git writes it.
pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}
