//! Turns "everything but these" into "these, these and these", which is all Landlock can hold: a
//! walk that allows the siblings of what is hidden. It reads directories and changes nothing.

use std::{
    io,
    path::{Path, PathBuf},
};

/// What a grant gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Right {
    /// Reading and executing.
    Read,
    /// Reading, executing and every way of writing.
    Write,
}

/// The paths to allow, each with everything beneath it. All paths must be resolved. `readable` is
/// where reading begins: `/`, and what can be read beneath a hidden path.
///
/// A path beneath a hidden one is granted if it is named. One that *is* hidden cannot be read; that it
/// is to be writable is an error.
pub(crate) fn grants(
    readable: &[&Path],
    writable: &[PathBuf],
    hidden: &[PathBuf],
) -> Result<Vec<(PathBuf, Right)>, String> {
    let mut found = Vec::new();
    for path in readable {
        walk(path, Right::Read, hidden, &mut found)?;
    }
    for path in writable {
        if hidden.contains(path) {
            return Err(format!("{} is both writable and hidden", path.display()));
        }
        walk(path, Right::Write, hidden, &mut found)?;
    }
    Ok(found)
}

fn walk(
    path: &Path,
    right: Right,
    hidden: &[PathBuf],
    found: &mut Vec<(PathBuf, Right)>,
) -> Result<(), String> {
    if hidden.iter().any(|other| other == path) {
        return Ok(());
    }
    if !hidden.iter().any(|other| other.starts_with(path)) {
        found.push((path.to_owned(), right));
        return Ok(());
    }
    let failed = |error: io::Error| {
        format!(
            "cannot look into {} for what is not hidden: {error}",
            path.display()
        )
    };
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // What a link leads to is allowed, or not, where it is; following it could uncover a hidden
        // path or one above it.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            walk(&entry.path(), right, hidden, found)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn siblings_are_allowed_and_nothing_above() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path().canonicalize().expect("resolved");
        for folder in ["a/b/secret/work", "a/b/open", "a/c", "d/e"] {
            fs::create_dir_all(root.join(folder)).expect("made");
        }
        fs::write(root.join("a/file"), "").expect("written");
        symlink("../a/b", root.join("d/link")).expect("linked");
        symlink("b/secret", root.join("a/shortcut")).expect("linked");

        let table: [(&[&str], &[&str], &[&str]); 6] = [
            (&[], &[], &["r ."]),
            (
                &[],
                &["a/b/secret"],
                &["r a/b/open", "r a/c", "r a/file", "r d"],
            ),
            (
                &["a/b/secret/work"],
                &["a/b/secret"],
                &[
                    "r a/b/open",
                    "r a/c",
                    "r a/file",
                    "r d",
                    "w a/b/secret/work",
                ],
            ),
            (
                &["a"],
                &["a/b/secret"],
                &[
                    "r a/b/open",
                    "r a/c",
                    "r a/file",
                    "r d",
                    "w a/b/open",
                    "w a/c",
                    "w a/file",
                ],
            ),
            (&["d"], &["a", "d/e"], &[]),
            (&[], &["a", "a/b", "d"], &[]),
        ];
        for (writable, hidden, want) in table {
            let paths =
                |names: &[&str]| names.iter().map(|name| root.join(name)).collect::<Vec<_>>();
            let mut got: Vec<String> = grants(&[&root], &paths(writable), &paths(hidden))
                .expect("granted")
                .into_iter()
                .map(|(path, right)| {
                    let letter = if right == Right::Read { "r" } else { "w" };
                    let path = path.strip_prefix(&root).expect("below the root").to_owned();
                    let path = if path.as_os_str().is_empty() {
                        ".".into()
                    } else {
                        path
                    };
                    format!("{letter} {}", path.display())
                })
                .collect();
            got.sort();
            assert_eq!(got, want, "{writable:?} {hidden:?}");
        }
        let beneath = root.join("a/b/secret/work");
        let named = grants(&[&beneath], &[], &[root.join("a/b/secret")]).expect("granted");
        assert_eq!(named, [(beneath, Right::Read)]);
        let secret = root.join("a/b/secret");
        let itself = grants(&[&secret], &[], std::slice::from_ref(&secret)).expect("granted");
        assert_eq!(itself, []);
        let error =
            grants(&[&root], &[root.join("a")], &[root.join("a")]).expect_err("contradiction");
        assert!(error.contains("both writable and hidden"), "{error}");
    }
}
