//! `edit`: replaces a text that occurs exactly once in a file, or each occurrence of it.

use ronde_sandbox::gate::Change;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    path::{Place, Root},
    read, write,
};

pub(super) fn spec() -> (&'static str, Value) {
    (
        "Replaces a piece of a UTF-8 text file of the workspace. `old` must be the exact text, \
         whitespace included, and must occur exactly once unless `replace_all` is true; add \
         surrounding lines to make it unique.",
        json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "Path relative to the workspace." },
                "old": { "type": "string", "description": "The exact text to replace." },
                "new": { "type": "string", "description": "The text to put in its place." },
                "replace_all": { "type": "boolean", "description": "Replace every occurrence." }
            },
            "required": ["path", "old", "new"],
            "additionalProperties": false
        }),
    )
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    path: String,
    old: String,
    new: String,
    #[serde(default)]
    replace_all: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) place: Place,
    old: String,
    new: String,
    replace_all: bool,
}

impl Task {
    pub(super) fn new(root: &Root, input: Input) -> Result<Self, String> {
        let Input {
            path,
            old,
            new,
            replace_all,
        } = input;
        if old.is_empty() {
            return Err("`old` must not be empty; use `write` to make a file".to_owned());
        }
        if old == new {
            return Err("`old` and `new` are the same, so nothing would change".to_owned());
        }
        Ok(Self {
            place: root.resolve(&path)?,
            old,
            new,
            replace_all,
        })
    }

    pub(super) fn change(&self) -> Change<'_> {
        Change::Piece {
            old: &self.old,
            new: &self.new,
            all: self.replace_all,
        }
    }

    pub(super) fn summary(&self) -> String {
        self.place.shown()
    }

    pub(super) fn run(&self) -> Result<String, String> {
        let shown = self.place.shown();
        let text = read::text(&self.place)?;
        let (text, count) = replace(&text, &self.old, &self.new, self.replace_all)
            .map_err(|error| format!("{error} in {shown}"))?;
        write::replace(&self.place, text.as_bytes())?;
        Ok(match count {
            1 => format!("edited {shown}"),
            _ => format!("edited {shown} in {count} places"),
        })
    }
}

/// The text with `old` replaced, and how often.
fn replace(text: &str, old: &str, new: &str, all: bool) -> Result<(String, usize), String> {
    // A model writes plain line feeds; a file with CRLF keeps them.
    let (old, new) = if text.contains("\r\n") && !old.contains('\r') && !text.contains(old) {
        (
            old.replace('\n', "\r\n"),
            new.replace("\r\n", "\n").replace('\n', "\r\n"),
        )
    } else {
        (old.to_owned(), new.to_owned())
    };
    match text.matches(&old).count() {
        0 => Err(match text.contains(old.trim()) && !old.trim().is_empty() {
            true => "`old` does not occur with exactly this whitespace at its ends".to_owned(),
            false => "`old` does not occur".to_owned(),
        }),
        count if count > 1 && !all => Err(format!(
            "`old` occurs {count} times; add surrounding lines or set `replace_all`; found"
        )),
        count => Ok((text.replace(&old, &new), count)),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    use super::*;

    #[test]
    fn replaces_what_is_exact_and_unique() {
        type Want = Result<&'static str, &'static str>;
        let table: [(&str, &str, &str, bool, Want); 9] = [
            ("a b c", "b", "x", false, Ok("a x c")),
            ("a b b", "b", "x", false, Err("occurs 2 times")),
            ("a b b", "b", "x", true, Ok("a x x")),
            ("a", "b", "x", true, Err("does not occur")),
            ("  b\n", "\tb\n", "x", false, Err("whitespace")),
            // Line ends of the file are kept.
            ("a\r\nb\r\nc", "a\nb", "1\n2", false, Ok("1\r\n2\r\nc")),
            ("a\r\nb", "a\r\nb", "1\r\n2", false, Ok("1\r\n2")),
            ("a\r\nb", "b", "1\r\n2", false, Ok("a\r\n1\r\n2")),
            ("\u{feff}a", "a", "b", false, Ok("\u{feff}b")),
        ];
        for (text, old, new, all, want) in table {
            match (replace(text, old, new, all), want) {
                (Ok((got, _)), Ok(want)) => assert_eq!(got, want),
                (Err(error), Err(want)) => assert!(error.contains(want), "{error}"),
                (got, want) => panic!("{text:?}: {got:?}, not {want:?}"),
            }
        }
    }

    #[test]
    fn mode_and_links_are_kept_and_other_encodings_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("run.sh");
        fs::write(&file, "echo a\n").expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o754)).expect("a mode");
        symlink("run.sh", dir.path().join("link")).expect("a link");
        fs::write(dir.path().join("latin"), b"caf\xe9").expect("a file");
        let root = Root::new(dir.path()).expect("a root");
        let edit =
            |input| Task::new(&root, serde_json::from_value(input).expect("an input"))?.run();
        assert_eq!(
            edit(json!({"path": "link", "old": "a", "new": "b"})).as_deref(),
            Ok("edited run.sh")
        );
        assert_eq!(fs::read_to_string(&file).expect("a file"), "echo b\n");
        assert_eq!(
            fs::metadata(&file).expect("a file").permissions().mode() & 0o7777,
            0o754
        );
        assert!(dir.path().join("link").is_symlink());
        let error = edit(json!({"path": "latin", "old": "c", "new": "b"})).expect_err("refused");
        assert!(error.contains("not UTF-8"), "{error}");
        assert_eq!(
            fs::read(dir.path().join("latin")).expect("a file"),
            b"caf\xe9"
        );
        for (input, want) in [
            (
                json!({"path": "run.sh", "old": "", "new": "b"}),
                "must not be empty",
            ),
            (
                json!({"path": "run.sh", "old": "a", "new": "a"}),
                "the same",
            ),
            (
                json!({"path": "none", "old": "a", "new": "b"}),
                "cannot read none",
            ),
            (
                json!({"path": ".", "old": "a", "new": "b"}),
                "not a regular file",
            ),
        ] {
            let error = edit(input).expect_err("refused");
            assert!(error.contains(want), "{error}");
        }
        // Nothing temporary is left.
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 3);
    }
}
