//! `read`: a file's lines, or the names in a folder.

use std::{
    fs::{self, File},
    io::Read as _,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use serde::Deserialize;
use serde_json::{Value, json};

use super::path::{Place, Root};

/// Bytes of the largest file that is read.
const LARGEST: u64 = 16 * 1024 * 1024;
/// Bytes a result has at most, the last line aside.
const RESULT: usize = 48 * 1024;
/// Bytes of a line that are shown.
const LINE: usize = 4 * 1024;
/// Lines that are shown where no limit is given.
const LINES: usize = 2000;
/// Names of a folder that are shown.
const NAMES: usize = 1000;

pub(super) fn spec() -> (&'static str, Value) {
    (
        "Reads a UTF-8 text file of the workspace, or lists a folder. A long file comes in parts: the \
         result says which lines it holds and where to go on.",
        json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "Path relative to the workspace." },
                "offset": { "type": "integer", "minimum": 1, "description": "First line to read, from 1." },
                "limit": { "type": "integer", "minimum": 1, "description": "Lines to read at most; 2000 if left out." }
            },
            "required": ["path"],
            "additionalProperties": false
        }),
    )
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) place: Place,
    offset: usize,
    limit: usize,
}

impl Task {
    pub(super) fn new(root: &Root, input: Input) -> Result<Self, String> {
        if input.offset == Some(0) || input.limit == Some(0) {
            return Err("`offset` and `limit` count from 1".to_owned());
        }
        Ok(Self {
            place: root.resolve(&input.path)?,
            offset: input.offset.unwrap_or(1),
            limit: input.limit.unwrap_or(LINES),
        })
    }

    pub(super) fn summary(&self) -> String {
        self.place.shown()
    }

    pub(super) fn run(&self) -> Result<String, String> {
        let shown = self.place.shown();
        if self.place.absolute.is_dir() {
            return list(&self.place);
        }
        let text = text(&self.place)?;
        if text.is_empty() {
            return Ok(format!("[{shown} is empty]"));
        }
        let total = text.lines().count();
        if self.offset > total {
            return Err(format!("{shown} has only {total} lines"));
        }
        let mut part = String::new();
        let mut count = 0;
        for line in text
            .split_inclusive('\n')
            .skip(self.offset - 1)
            .take(self.limit)
        {
            if part.len() >= RESULT {
                break;
            }
            if line.len() > LINE {
                part.push_str(&line[..line.floor_char_boundary(LINE)]);
                part.push_str("[… line cut …]\n");
            } else {
                part.push_str(line);
            }
            count += 1;
        }
        let last = self.offset + count - 1;
        if self.offset > 1 || last < total {
            let end = if part.ends_with('\n') { "" } else { "\n" };
            part.push_str(&format!("{end}[lines {} to {last} of {total}", self.offset));
            if last < total {
                part.push_str(&format!("; go on with offset {}", last + 1));
            }
            part.push(']');
        }
        Ok(part)
    }
}

/// The text of a regular file.
pub(super) fn text(place: &Place) -> Result<String, String> {
    let shown = place.shown();
    let bytes = bytes(&place.absolute).map_err(|error| format!("cannot read {shown}: {error}"))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("{shown} is not UTF-8 text (byte {at} is not); use `shell` to look at it")
    })
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    // Without waiting: a pipe without a writer would never open.
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
    let file = File::options()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .map_err(|error| error.to_string())?;
    let meta = file.metadata().map_err(|error| error.to_string())?;
    if !meta.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    if meta.len() > LARGEST {
        return Err(format!(
            "it has {} bytes; use `shell` to look at a part of it",
            meta.len()
        ));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    Ok(bytes)
}

fn list(place: &Place) -> Result<String, String> {
    let error = |error| format!("cannot list {}: {error}", place.shown());
    let mut names = Vec::new();
    for entry in fs::read_dir(&place.absolute).map_err(error)? {
        let entry = entry.map_err(error)?;
        let mut name = entry.file_name().display().to_string();
        let kind = entry.file_type().map_err(error)?;
        if kind.is_dir() {
            name.push('/');
        } else if kind.is_symlink() {
            name.push('@');
        }
        names.push(name);
    }
    names.sort();
    let total = names.len();
    if total == 0 {
        return Ok(format!("[{} is an empty folder]", place.shown()));
    }
    names.truncate(NAMES);
    if total > names.len() {
        names.push(format!("[{} more]", total - names.len()));
    }
    Ok(names.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(root: &Root, input: Value) -> Result<String, String> {
        Task::new(root, serde_json::from_value(input).expect("an input"))?.run()
    }

    #[test]
    fn parts_of_files_and_folders() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("a"), "1\n2\r\n3").expect("a file");
        fs::write(at("empty"), "").expect("a file");
        fs::write(at("latin"), b"caf\xe9").expect("a file");
        fs::write(at("wide"), "é".repeat(LINE)).expect("a file");
        fs::write(at("long"), "0123456789\n".repeat(10_000)).expect("a file");
        fs::create_dir(at("d")).expect("a folder");
        fs::create_dir(at("d/sub")).expect("a folder");
        fs::write(at("d/f"), "").expect("a file");
        let root = Root::new(dir.path()).expect("a root");
        assert_eq!(
            read(&root, json!({"path": "a"})).as_deref(),
            Ok("1\n2\r\n3")
        );
        assert_eq!(
            read(&root, json!({"path": "a", "offset": 2, "limit": 1})).as_deref(),
            Ok("2\r\n[lines 2 to 2 of 3; go on with offset 3]")
        );
        assert_eq!(
            read(&root, json!({"path": "a", "offset": 3})).as_deref(),
            Ok("3\n[lines 3 to 3 of 3]")
        );
        assert_eq!(
            read(&root, json!({"path": "empty"})).as_deref(),
            Ok("[empty is empty]")
        );
        assert_eq!(read(&root, json!({"path": "d"})).as_deref(), Ok("f\nsub/"));
        assert_eq!(
            read(&root, json!({"path": "d/sub"})).as_deref(),
            Ok("[d/sub is an empty folder]")
        );
        for (input, want) in [
            (json!({"path": "a", "offset": 4}), "only 3 lines"),
            (json!({"path": "a", "offset": 0}), "count from 1"),
            (json!({"path": "latin"}), "byte 3"),
            (json!({"path": "none"}), "cannot read none"),
        ] {
            let error = read(&root, input).expect_err("not readable");
            assert!(error.contains(want), "{error}");
        }
        let long = read(&root, json!({"path": "long"})).expect("a text");
        assert!(
            long.ends_with("[lines 1 to 2000 of 10000; go on with offset 2001]"),
            "{long}"
        );
        let wide = read(&root, json!({"path": "wide"})).expect("a text");
        assert!(wide.len() < LINE + 50 && wide.contains("line cut"));
    }

    #[test]
    fn a_pipe_without_a_writer_is_refused_at_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .expect("a pipe");
        let root = Root::new(dir.path()).expect("a root");
        let error = read(&root, json!({"path": "pipe"})).expect_err("not a file");
        assert!(error.contains("not a regular file"), "{error}");
    }
}
