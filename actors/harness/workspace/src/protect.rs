//! Which changes between two trees touch what a worker must not change. Pure.

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::{
    Error,
    git::is_id,
    scan::{Entry, path_of},
};

/// One difference between two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// The path, from the root.
    pub(crate) path: Vec<u8>,
    /// Mode and object in the first tree, if it is there.
    pub(crate) before: Option<(String, String)>,
    /// Mode and object in the second tree, if it is there.
    pub(crate) after: Option<(String, String)>,
}

impl Change {
    /// What the path is to an index in the first tree.
    pub(crate) fn undo(&self) -> Entry<'_> {
        let state = self
            .before
            .as_ref()
            .map(|(mode, id)| (mode.as_str(), id.as_str()));
        Entry {
            path: &self.path,
            state,
        }
    }
}

/// The mode of a submodule.
pub(crate) const SUBMODULE: &str = "160000";

/// Reads the output of `diff-tree -r -z --raw --no-renames`: `:<mode> <mode> <id> <id> <letter>`, NUL,
/// path, NUL, again and again.
pub(crate) fn changes(output: &[u8]) -> Option<Vec<Change>> {
    let mut parts = output.split(|&byte| byte == 0);
    let mut changes = Vec::new();
    while let Some(head) = parts.next() {
        if head.is_empty() {
            break;
        }
        let head = std::str::from_utf8(head).ok()?.strip_prefix(':')?;
        let words: Vec<&str> = head.split(' ').collect();
        let &[mode_before, mode_after, before, after, _letter] = words.as_slice() else {
            return None;
        };
        let side = |mode: &str, id: &str| {
            let id = (is_id(id)).then(|| id.to_owned())?;
            Some((mode != "000000").then(|| (mode.to_owned(), id)))
        };
        changes.push(Change {
            path: parts.next()?.to_vec(),
            before: side(mode_before, before)?,
            after: side(mode_after, after)?,
        });
    }
    Some(changes)
}

/// Whether a text is a pattern of what a worker must not change: one line as in a `.gitignore` file,
/// `./` in front meaning the root.
///
/// # Errors
/// Why not, in words.
pub fn check_pattern(pattern: &str) -> Result<(), String> {
    let mut builder = builder();
    add(&mut builder, pattern)?;
    builder.build().map(drop).map_err(|error| error.to_string())
}

fn builder() -> GitignoreBuilder {
    let mut builder = GitignoreBuilder::new("");
    // An open `[` is a slip that would protect nothing that exists.
    builder.allow_unclosed_class(false);
    builder
}

fn add(builder: &mut GitignoreBuilder, pattern: &str) -> Result<(), String> {
    let line = match pattern.strip_prefix("./") {
        Some(rest) => format!("/{rest}"),
        None => pattern.to_owned(),
    };
    builder
        .add_line(None, &line)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// What a worker must not change.
#[derive(Debug)]
pub(crate) struct Protected {
    patterns: Gitignore,
    files: Vec<Vec<u8>>,
}

impl Protected {
    /// By patterns as in a `.gitignore` file, and by the paths of files.
    pub(crate) fn new(patterns: &[String], files: &[String]) -> Result<Self, Error> {
        let mut builder = builder();
        for pattern in patterns {
            add(&mut builder, pattern).map_err(|detail| Error::Pattern {
                pattern: pattern.clone(),
                detail,
            })?;
        }
        let patterns = builder.build().map_err(|error| Error::Pattern {
            pattern: patterns.join(", "),
            detail: error.to_string(),
        })?;
        let mut protected = Self {
            patterns,
            files: Vec::new(),
        };
        protected.add(files.iter().map(|file| file.as_bytes().to_vec()));
        Ok(protected)
    }

    /// More files.
    pub(crate) fn add(&mut self, files: impl IntoIterator<Item = Vec<u8>>) {
        for file in files {
            let file = file.strip_prefix(b"./").map(<[u8]>::to_vec).unwrap_or(file);
            if !self.files.contains(&file) {
                self.files.push(file);
            }
        }
    }

    /// The files, those added among them.
    pub(crate) fn files(&self) -> &[Vec<u8>] {
        &self.files
    }

    /// Whether a change of this path touches something protected: a pattern matches it, it is one of
    /// the files, or it stands where a folder above one of the files should.
    pub(crate) fn covers(&self, path: &[u8]) -> bool {
        let below = |file: &Vec<u8>| {
            file.strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        self.files.iter().any(below)
            || self
                .patterns
                .matched_path_or_any_parents(path_of(path), false)
                .is_ignore()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_protected() {
        let table: [(&[&str], &[&str], &str, bool); 19] = [
            (&["tests/**"], &[], "tests/a", true),
            (&["tests/**"], &[], "tests/deep/a", true),
            (&["tests/**"], &[], "tests", false),
            (&["tests/**"], &[], "a/tests/b", false),
            (&["tests"], &[], "a/tests/b", true),
            (&["tests/"], &[], "tests/b", true),
            (&["./tests/**"], &[], "tests/b", true),
            (&["*.snap"], &[], "a/b.snap", true),
            (&["/Cargo.toml"], &[], "Cargo.toml", true),
            (&["/Cargo.toml"], &[], "a/Cargo.toml", false),
            (&[".github/**"], &[], ".github/workflows/ci.yml", true),
            (&["tests/**", "!tests/data/**"], &[], "tests/data/a", false),
            (&[], &["ci/run.sh"], "ci/run.sh", true),
            (&[], &["./ci/run.sh"], "ci/run.sh", true),
            (&[], &["ci/run.sh"], "ci", true),
            (&[], &["ci/run.sh"], "ci/run", false),
            (&[], &["ci/run.sh"], "c", false),
            (&[], &["ci/run.sh"], "ci/run.sh/x", false),
            (&[], &[], "a", false),
        ];
        for (patterns, files, path, want) in table {
            let own = |texts: &[&str]| {
                texts
                    .iter()
                    .map(|&text| text.to_owned())
                    .collect::<Vec<_>>()
            };
            let protected = Protected::new(&own(patterns), &own(files)).expect("valid");
            assert_eq!(
                protected.covers(path.as_bytes()),
                want,
                "{patterns:?} {files:?} {path}"
            );
        }
        let error = Protected::new(&["[z-a]".to_owned()], &[]).expect_err("not a glob");
        assert!(error.to_string().contains("`[z-a]`"), "{error}");
    }

    #[test]
    fn a_pattern_is_refused_exactly_where_the_rules_refuse_it() {
        let table = [
            ("tests/**", true),
            ("./tests/**", true),
            ("!tests/data/**", true),
            ("src/[ab].rs", true),
            ("*.{rs,toml}", true),
            ("# a comment", true),
            ("", true),
            ("a[", false),
            ("./a[", false),
            ("!a[", false),
            ("x{", false),
            ("[z-a]", false),
        ];
        for (pattern, want) in table {
            let checked = check_pattern(pattern);
            assert_eq!(checked.is_ok(), want, "{pattern}: {checked:?}");
            let used = Protected::new(&[pattern.to_owned()], &[]);
            assert_eq!(used.is_ok(), want, "{pattern}: {used:?}");
        }
    }

    #[test]
    fn raw_differences() {
        let (a, b, zero) = ("a".repeat(40), "b".repeat(40), "0".repeat(40));
        let output = format!(
            ":100644 100755 {a} {b} M\0x y\0:000000 120000 {zero} {a} A\0new\nline\0\
             :160000 000000 {b} {zero} D\0sub\0"
        );
        let changes = changes(output.as_bytes()).expect("parsed");
        assert_eq!(changes.len(), 3);
        assert_eq!(changes[0].before, Some(("100644".into(), a.clone())));
        assert_eq!(changes[0].after, Some(("100755".into(), b)));
        assert_eq!(
            (changes[1].path.as_slice(), &changes[1].before),
            (b"new\nline".as_slice(), &None)
        );
        assert_eq!(changes[2].after, None);
        assert_eq!(super::changes(b""), Some(vec![]));
        assert_eq!(super::changes(b"nonsense\0x\0"), None);
    }
}
