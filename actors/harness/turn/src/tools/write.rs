//! `write`: a whole file, in one step: whoever reads it sees the old one or the new one.

use std::{
    fs::{self, Permissions},
    io::{ErrorKind, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use ronde_sandbox::gate::Change;
use serde::Deserialize;
use serde_json::{Value, json};

use super::path::{Place, Root};

pub(super) fn spec() -> (&'static str, Value) {
    (
        "Writes a whole file of the workspace; folders on the way are made. A file that is already \
         there is replaced and keeps its mode.",
        json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "Path relative to the workspace." },
                "content": { "type": "string", "description": "All of the file." }
            },
            "required": ["path", "content"],
            "additionalProperties": false
        }),
    )
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    path: String,
    content: String,
}

#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) place: Place,
    content: String,
}

impl Task {
    pub(super) fn new(root: &Root, input: Input) -> Result<Self, String> {
        Ok(Self {
            place: root.resolve(&input.path)?,
            content: input.content,
        })
    }

    pub(super) fn change(&self) -> Change<'_> {
        Change::Whole {
            content: &self.content,
        }
    }

    pub(super) fn summary(&self) -> String {
        format!("{} ({} bytes)", self.place.shown(), self.content.len())
    }

    pub(super) fn run(&self) -> Result<String, String> {
        replace(&self.place, self.content.as_bytes())?;
        Ok(format!(
            "wrote {} ({} bytes)",
            self.place.shown(),
            self.content.len()
        ))
    }
}

/// Puts a file in place of what is there, atomically, keeping the mode it has.
pub(super) fn replace(place: &Place, bytes: &[u8]) -> Result<(), String> {
    let error = |error| format!("cannot write {}: {error}", place.shown());
    let mode = match fs::symlink_metadata(&place.absolute) {
        Ok(meta) if !meta.is_file() => {
            return Err(format!("{} is not a regular file", place.shown()));
        }
        Ok(meta) => meta.permissions().mode() & 0o7777,
        // What the umask leaves of it.
        Err(missing) if missing.kind() == ErrorKind::NotFound => 0o666,
        Err(other) => return Err(error(other)),
    };
    let exists = place.absolute.exists();
    let parent = place.absolute.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).map_err(error)?;
    let mut file = tempfile::Builder::new()
        .prefix(".ronde-")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(parent)
        .map_err(error)?;
    file.write_all(bytes).map_err(error)?;
    if exists {
        file.as_file()
            .set_permissions(Permissions::from_mode(mode))
            .map_err(error)?;
    }
    file.persist(&place.absolute)
        .map_err(|failed| error(failed.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_folders_and_keeps_modes() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = Root::new(dir.path()).expect("a root");
        let write = |path: &str, content: &str| {
            let input = json!({ "path": path, "content": content });
            Task::new(&root, serde_json::from_value(input).expect("an input"))?.run()
        };
        assert_eq!(
            write("a/b/c", "x\r\n").as_deref(),
            Ok("wrote a/b/c (3 bytes)")
        );
        let file = dir.path().join("a/b/c");
        let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o7777;
        fs::write(dir.path().join("plain"), "").expect("a file");
        assert_eq!(
            mode(&file),
            mode(&dir.path().join("plain")),
            "a new file is as any other"
        );
        fs::set_permissions(&file, Permissions::from_mode(0o700)).expect("a mode");
        write("a/b/c", "y").expect("written");
        assert_eq!(
            (mode(&file), fs::read(&file).expect("a file")),
            (0o700, b"y".to_vec())
        );
        for (path, want) in [
            ("a/b", "not a regular file"),
            ("../x", "leads out"),
            (".git/x", ".git"),
        ] {
            let error = write(path, "").expect_err("refused");
            assert!(error.contains(want), "{error}");
        }
        assert_eq!(
            fs::read_dir(dir.path().join("a/b"))
                .expect("a folder")
                .count(),
            1
        );
    }
}
