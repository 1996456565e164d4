//! Keeps what a worker must not change as it is, from one process of a verification to the next: what a
//! check runs is the worker's code, and could rewrite what a later check goes by. Nothing runs while
//! it looks, since the tree of a process is gone before the next one starts.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use ignore::gitignore::GitignoreBuilder;
use ronde_protocol::verdict::Check;

use crate::{Error, programs, scratch};

/// What is watched in one checkout.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    folder: PathBuf,
    base: Vec<String>,
    kept: Vec<Kept>,
}

/// A file of the checkout as it was.
#[derive(Debug)]
struct Kept {
    path: PathBuf,
    as_was: AsWas,
}

#[derive(Debug, PartialEq, Eq)]
enum AsWas {
    /// A file: its permissions, and where a copy of it is.
    File(u32, PathBuf),
    /// A link, and where it leads.
    Link(PathBuf),
}

impl Guard {
    /// Watches the files of the base that `protect` covers, and `programs`, in a fresh checkout. Copies
    /// of them go to a folder no process of the verification can write.
    pub(crate) fn new(
        folder: &Path,
        base: Vec<String>,
        protect: &[String],
        programs: &[String],
        copies: &Path,
    ) -> io::Result<Self> {
        let mut builder = GitignoreBuilder::new("");
        for pattern in protect {
            let line = match pattern.strip_prefix("./") {
                Some(rest) => format!("/{rest}"),
                None => pattern.clone(),
            };
            builder.add_line(None, &line).map_err(io::Error::other)?;
        }
        let patterns = builder.build().map_err(io::Error::other)?;
        let covered = base.iter().map(PathBuf::from).filter(|path| {
            path.is_relative()
                && patterns
                    .matched_path_or_any_parents(path, false)
                    .is_ignore()
        });
        let root = fs::canonicalize(folder)?;
        // A program may be a link: what it leads to is the program, then.
        let led_to = programs.iter().filter_map(|path| {
            let to = fs::canonicalize(folder.join(path)).ok()?;
            Some(to.strip_prefix(&root).ok()?.to_owned())
        });
        let paths: BTreeSet<PathBuf> = covered
            .chain(programs.iter().map(PathBuf::from))
            .chain(led_to)
            .collect();
        fs::create_dir_all(copies)?;
        let mut kept = Vec::new();
        for path in paths {
            let file = folder.join(&path);
            let Ok(meta) = fs::symlink_metadata(&file) else {
                continue;
            };
            let as_was = if meta.is_symlink() {
                AsWas::Link(fs::read_link(&file)?)
            } else if meta.is_file() {
                let copy = copies.join(kept.len().to_string());
                fs::copy(&file, &copy)?;
                AsWas::File(meta.permissions().mode(), copy)
            } else {
                // A submodule's folder: its files are not the repository's.
                continue;
            };
            kept.push(Kept { path, as_was });
        }
        Ok(Self {
            folder: folder.to_owned(),
            base,
            kept,
        })
    }

    /// Puts back what changed since, and takes away what would run in the place of a check's program.
    pub(crate) async fn restore(guard: &Arc<Self>, check: &Check) -> Result<(), Error> {
        let (guard, check) = (Arc::clone(guard), check.clone());
        let restored = tokio::task::spawn_blocking(move || guard.put_back(&check)).await;
        restored.map_err(|error| Error::Broken(error.to_string()))?
    }

    fn put_back(&self, check: &Check) -> Result<(), Error> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| Error::Restore {
                path,
                error: error.to_string(),
            }
        };
        for kept in &self.kept {
            if !kept.is_as_it_was(&self.folder) {
                tracing::warn!(path = %kept.path.display(), "a check changed a protected file; it is put back");
                kept.put_back(&self.folder).map_err(failed(&kept.path))?;
            }
        }
        let there = |path: &str| fs::symlink_metadata(self.folder.join(path)).is_ok();
        for path in programs::of(std::slice::from_ref(check), &self.base, there) {
            if !self.base.contains(&path) {
                let path = Path::new(&path);
                tracing::warn!(path = %path.display(), "a check added a program; it is taken away");
                way(&self.folder, path, false).map_err(failed(path))?;
            }
        }
        Ok(())
    }
}

impl Kept {
    fn is_as_it_was(&self, folder: &Path) -> bool {
        let parents = parents(&self.path)
            .into_iter()
            .map(|parent| folder.join(parent));
        let file = folder.join(&self.path);
        for parent in parents {
            if !fs::symlink_metadata(parent).is_ok_and(|meta| meta.is_dir()) {
                return false;
            }
        }
        let Ok(meta) = fs::symlink_metadata(&file) else {
            return false;
        };
        match &self.as_was {
            AsWas::Link(to) => fs::read_link(&file).is_ok_and(|now| now == *to),
            AsWas::File(mode, copy) => {
                meta.is_file()
                    && meta.permissions().mode() == *mode
                    && fs::metadata(copy).is_ok_and(|copy| copy.len() == meta.len())
                    && matches!((fs::read(&file), fs::read(copy)), (Ok(now), Ok(was)) if now == was)
            }
        }
    }

    fn put_back(&self, folder: &Path) -> io::Result<()> {
        way(folder, &self.path, true)?;
        let file = folder.join(&self.path);
        match &self.as_was {
            AsWas::Link(to) => std::os::unix::fs::symlink(to, file),
            AsWas::File(mode, copy) => {
                fs::copy(copy, &file)?;
                fs::set_permissions(file, fs::Permissions::from_mode(mode & 0o7777))
            }
        }
    }
}

/// Removes what is at a path, and what stands in its way; makes the folders above it if asked to. Never
/// follows a link: one could lead out of the checkout.
fn way(folder: &Path, path: &Path, make: bool) -> io::Result<()> {
    for parent in parents(path) {
        let parent = folder.join(parent);
        match fs::symlink_metadata(&parent) {
            Ok(meta) if meta.is_dir() => {
                let mode = meta.permissions().mode() & 0o7777;
                if mode & 0o700 != 0o700 {
                    fs::set_permissions(&parent, fs::Permissions::from_mode(mode | 0o700))?;
                }
                continue;
            }
            Ok(_) => fs::remove_file(&parent)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if !make {
            return Ok(());
        }
        fs::create_dir(&parent)?;
    }
    let file = folder.join(path);
    match fs::symlink_metadata(&file) {
        Ok(meta) if meta.is_dir() => scratch::remove(&file),
        Ok(_) => fs::remove_file(&file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// The folders above a path, outermost first, without the root.
fn parents(path: &Path) -> Vec<PathBuf> {
    let mut parents = Vec::new();
    let mut here = PathBuf::new();
    for part in path.parent().into_iter().flat_map(Path::components) {
        if let Component::Normal(part) = part {
            here.push(part);
            parents.push(here.clone());
        }
    }
    parents
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Bench {
        dir: tempfile::TempDir,
        guard: Guard,
    }

    const FILES: [(&str, &str); 5] = [
        ("tests/deep/t", "the base's"),
        ("tests/u", "the base's"),
        ("src/a", "free"),
        ("Makefile", "all:"),
        ("run.sh", "exit 1"),
    ];

    impl Bench {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a folder");
            let folder = dir.path().join("checkout");
            for (path, content) in FILES {
                let file = folder.join(path);
                fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
                fs::write(file, content).expect("a file");
            }
            fs::create_dir(dir.path().join("outside")).expect("a folder");
            fs::write(dir.path().join("outside/t"), "another's").expect("a file");
            symlink("run.sh", folder.join("check")).expect("a link");
            let mut base: Vec<String> = FILES.iter().map(|(path, _)| (*path).to_owned()).collect();
            base.push("check".to_owned());
            let programs = ["Makefile".to_owned(), "check".to_owned()];
            let copies = dir.path().join("copies");
            let guard = Guard::new(&folder, base, &["tests/**".to_owned()], &programs, &copies);
            Self {
                dir,
                guard: guard.expect("a guard"),
            }
        }

        fn put_back(&self) {
            let check = Check {
                name: "c".into(),
                run: "make && ./check".to_owned(),
                env: vec![],
                timeout_ms: 1,
                repeat: ronde_protocol::verdict::Repeat::default(),
            };
            self.guard.put_back(&check).expect("all is put back");
        }

        fn read(&self, path: &str) -> String {
            fs::read_to_string(self.dir.path().join(path)).expect("a file")
        }
    }

    #[test]
    fn what_is_protected_is_put_back_however_it_was_changed() {
        type Change = fn(&Path);
        let changes: [(&str, Change); 9] = [
            ("nothing", |_| {}),
            ("content of the same size", |at| {
                fs::write(at.join("tests/deep/t"), "my base's!").expect("a file")
            }),
            ("removed", |at| {
                fs::remove_dir_all(at.join("tests")).expect("removed")
            }),
            ("a folder", |at| {
                fs::remove_file(at.join("tests/u")).expect("removed");
                fs::create_dir_all(at.join("tests/u/v")).expect("a folder");
            }),
            ("a file for a folder", |at| {
                fs::remove_dir_all(at.join("tests")).expect("removed");
                fs::write(at.join("tests"), "").expect("a file");
            }),
            ("a link to another place", |at| {
                fs::remove_dir_all(at.join("tests/deep")).expect("removed");
                symlink("../../outside", at.join("tests/deep")).expect("a link");
            }),
            ("a link to another file", |at| {
                fs::remove_file(at.join("tests/deep/t")).expect("removed");
                symlink("../../../outside/t", at.join("tests/deep/t")).expect("a link");
            }),
            ("another program", |at| {
                fs::remove_file(at.join("check")).expect("removed");
                fs::write(at.join("check"), "exit 0").expect("a file");
                fs::write(at.join("run.sh"), "exit 0").expect("a file");
            }),
            ("permissions", |at| {
                let all = fs::Permissions::from_mode(0o777);
                fs::set_permissions(at.join("run.sh"), all).expect("a mode");
            }),
        ];
        for (name, change) in changes {
            let bench = Bench::new();
            let at = bench.dir.path().join("checkout");
            let mode = |path: &str| {
                fs::metadata(at.join(path))
                    .expect("a file")
                    .permissions()
                    .mode()
            };
            let before = mode("run.sh");
            fs::write(at.join("src/a"), "changed").expect("a file");
            change(&at);
            bench.put_back();
            for (path, content) in FILES.iter().filter(|(path, _)| *path != "src/a") {
                assert_eq!(
                    bench.read(&format!("checkout/{path}")),
                    *content,
                    "{name}: {path}"
                );
            }
            assert_eq!(
                fs::read_link(at.join("check")).expect("a link"),
                Path::new("run.sh"),
                "{name}"
            );
            assert_eq!(mode("run.sh"), before, "{name}");
            assert_eq!(
                bench.read("checkout/src/a"),
                "changed",
                "{name}: what is free stays"
            );
            assert_eq!(bench.read("outside/t"), "another's", "{name}");
        }
    }

    #[test]
    fn what_would_run_instead_is_taken_away() {
        let bench = Bench::new();
        let at = bench.dir.path().join("checkout");
        symlink("../outside/t", at.join("GNUmakefile")).expect("a link");
        bench.put_back();
        assert!(fs::symlink_metadata(at.join("GNUmakefile")).is_err());
        assert_eq!(bench.read("outside/t"), "another's");
    }
}
