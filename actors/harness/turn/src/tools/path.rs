//! Keeps file tools inside the workspace: every path is resolved, link by link, before it is used, and
//! one that leads out or into `.git` is refused. It opens nothing.
//!
//! While a file tool runs no other process of the attempt does (a shell command's tree is gone before
//! its result is read), so nothing can change the links between the check and the use.

use std::{
    io::ErrorKind,
    path::{Component, Path, PathBuf},
};

/// The workspace, resolved.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    folder: PathBuf,
    /// As the caller wrote it, so that a model may too.
    written: PathBuf,
}

/// A path inside the workspace, links resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) absolute: PathBuf,
    /// From the workspace's root; empty for the root itself.
    pub(crate) relative: PathBuf,
}

impl Place {
    /// As a person or a model reads it.
    pub(crate) fn shown(&self) -> String {
        if self.relative.as_os_str().is_empty() {
            ".".to_owned()
        } else {
            self.relative.display().to_string()
        }
    }
}

impl Root {
    /// The workspace in this folder.
    ///
    /// # Errors
    /// In words, where there is no such folder.
    pub(crate) fn new(folder: &Path) -> Result<Self, String> {
        let resolved = folder
            .canonicalize()
            .map_err(|error| format!("cannot use the workspace {}: {error}", folder.display()))?;
        if !resolved.is_dir() {
            return Err(format!(
                "the workspace {} is not a folder",
                folder.display()
            ));
        }
        Ok(Self {
            folder: resolved,
            written: folder.to_owned(),
        })
    }

    /// The folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Resolves a path as the system would. What does not exist yet is allowed, up to a whole chain of
    /// new folders.
    ///
    /// # Errors
    /// Words for the model.
    pub(crate) fn resolve(&self, text: &str) -> Result<Place, String> {
        if text.is_empty() || text.contains('\0') {
            return Err("`path` must be the path of a file".to_owned());
        }
        let path = Path::new(text);
        let path = if path.is_absolute() {
            path.strip_prefix(&self.folder)
                .or_else(|_| path.strip_prefix(&self.written))
                .map_err(|_| outside(text))?
        } else {
            path
        };
        let mut at = self.folder.clone();
        let mut new = false;
        for component in path.components() {
            match component {
                Component::CurDir => {}
                Component::ParentDir if new => {
                    return Err(format!(
                        "`{text}` goes through a folder that does not exist"
                    ));
                }
                Component::ParentDir => {
                    at.pop();
                    if !at.starts_with(&self.folder) {
                        return Err(outside(text));
                    }
                }
                Component::Normal(name) => {
                    at.push(name);
                    if !new {
                        match at.symlink_metadata() {
                            Ok(_) => {
                                at = at.canonicalize().map_err(|error| match error.kind() {
                                    ErrorKind::NotFound => {
                                        format!("`{text}` goes through a link that leads nowhere")
                                    }
                                    _ => format!("cannot resolve `{text}`: {error}"),
                                })?;
                            }
                            Err(error) if error.kind() == ErrorKind::NotFound => new = true,
                            Err(error) => return Err(format!("cannot resolve `{text}`: {error}")),
                        }
                    }
                    self.check(&at, text)?;
                }
                Component::RootDir | Component::Prefix(_) => return Err(outside(text)),
            }
        }
        let relative = at
            .strip_prefix(&self.folder)
            .map_err(|_| outside(text))?
            .to_owned();
        Ok(Place {
            absolute: at,
            relative,
        })
    }

    fn check(&self, at: &Path, text: &str) -> Result<(), String> {
        let relative = at.strip_prefix(&self.folder).map_err(|_| outside(text))?;
        if relative
            .components()
            .any(|part| part.as_os_str().eq_ignore_ascii_case(".git"))
        {
            return Err(format!("`{text}` is in `.git`, which tools do not touch"));
        }
        Ok(())
    }
}

fn outside(text: &str) -> String {
    format!("`{text}` leads out of the workspace")
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn nothing_leads_out() {
        let dir = tempfile::tempdir().expect("a folder");
        let base = dir.path().canonicalize().expect("a path");
        let work = base.join("work");
        fs::create_dir_all(work.join("src/deep")).expect("folders");
        fs::create_dir(work.join(".git")).expect("a folder");
        fs::write(work.join("src/a.rs"), "").expect("a file");
        fs::write(base.join("secret"), "").expect("a file");
        symlink("../secret", work.join("out")).expect("a link");
        symlink(&base, work.join("up")).expect("a link");
        symlink("src", work.join("in")).expect("a link");
        symlink("nowhere", work.join("dangling")).expect("a link");
        symlink(".git", work.join("g")).expect("a link");
        symlink("loop", work.join("loop")).expect("a link");
        let root = Root::new(&work).expect("a root");
        let absolute = work.join("src/a.rs").display().to_string();
        let table = [
            ("src/a.rs", Ok("src/a.rs")),
            ("./src/../src/a.rs", Ok("src/a.rs")),
            ("in/a.rs", Ok("src/a.rs")),
            // As the system goes: `in` is `src`, and above it is the root.
            ("in/../src/a.rs", Ok("src/a.rs")),
            (&absolute, Ok("src/a.rs")),
            ("new/deep/file", Ok("new/deep/file")),
            ("in/deep/new", Ok("src/deep/new")),
            (".", Ok("")),
            (".gitignore", Ok(".gitignore")),
            ("", Err("must be the path")),
            ("a\0b", Err("must be the path")),
            ("..", Err("leads out")),
            ("src/../../secret", Err("leads out")),
            ("/etc/passwd", Err("leads out")),
            ("out", Err("leads out")),
            ("up", Err("leads out")),
            ("up/secret", Err("leads out")),
            ("up/work/src/a.rs", Err("leads out")),
            ("up/new", Err("leads out")),
            ("dangling", Err("leads nowhere")),
            ("new/../../secret", Err("does not exist")),
            (".git/config", Err("`.git`")),
            (".GIT", Err("`.git`")),
            ("src/.git/x", Err("`.git`")),
            ("g/config", Err("`.git`")),
            ("loop", Err("cannot resolve")),
            ("src/a.rs/x", Err("cannot resolve")),
        ];
        for (text, want) in table {
            match (root.resolve(text), want) {
                (Ok(place), Ok(want)) => {
                    assert_eq!(place.relative, Path::new(want), "{text:?}");
                    assert_eq!(place.absolute, work.join(want), "{text:?}");
                }
                (Err(error), Err(want)) => assert!(error.contains(want), "{text:?}: {error}"),
                (got, want) => panic!("{text:?}: {got:?}, not {want:?}"),
            }
        }
    }
}
