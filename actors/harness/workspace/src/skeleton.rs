//! Writes new git folders file by file, as gitrepository-layout(5) describes them: no template, no
//! process, and nothing in them that was not meant.

use std::path::{Path, PathBuf};

use crate::{Error, files};

/// A new git folder.
#[derive(Debug, Default)]
pub(crate) struct Skeleton<'a> {
    /// Whether it has no files beside it.
    pub(crate) bare: bool,
    /// Whether ids have 64 digits.
    pub(crate) sha256: bool,
    /// Whether a person or agent will commit in it.
    pub(crate) identity: bool,
    /// The ref that is checked out: `refs/heads/main`.
    pub(crate) head: &'a str,
    /// Refs and what they are at. Sorted by name here.
    pub(crate) refs: Vec<(String, &'a str)>,
    /// Other object stores it reads from.
    pub(crate) alternates: Vec<PathBuf>,
    /// Patterns of files that do not count there.
    pub(crate) exclude: &'a str,
    /// Commits whose parents are missing.
    pub(crate) shallow: Option<Vec<u8>>,
}

impl Skeleton<'_> {
    /// Writes it to a folder that is not there yet.
    pub(crate) fn write(mut self, dir: &Path) -> Result<(), Error> {
        for folder in [
            "objects/info",
            "objects/pack",
            "refs/heads",
            "refs/tags",
            "info",
        ] {
            files::make(&dir.join(folder))?;
        }
        let format = if self.sha256 {
            "\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n[core]\n"
        } else {
            "\trepositoryformatversion = 0\n"
        };
        let mut config = format!(
            "[core]\n{format}\tfilemode = true\n\tsymlinks = true\n\tbare = {}\n[gc]\n\tauto = 0\n",
            self.bare
        );
        if self.identity {
            config.push_str("[user]\n\tname = ronde\n\temail = ronde@localhost\n");
        }
        files::write(&dir.join("config"), config)?;
        if !self.alternates.is_empty() {
            let lines: Vec<u8> = self
                .alternates
                .iter()
                .flat_map(|path| alternate(path))
                .collect();
            files::write(&dir.join("objects/info/alternates"), lines)?;
        }
        files::write(&dir.join("info/exclude"), self.exclude)?;
        self.refs.sort();
        let mut packed = String::from("# pack-refs with: sorted\n");
        for (name, id) in &self.refs {
            packed.push_str(&format!("{id} {name}\n"));
        }
        files::write(&dir.join("packed-refs"), packed)?;
        if let Some(shallow) = self.shallow {
            files::write(&dir.join("shallow"), shallow)?;
        }
        files::write(&dir.join("HEAD"), format!("ref: {}\n", self.head))
    }
}

/// A line of `objects/info/alternates`: quoted where git would read the path as something else.
fn alternate(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt as _;
    let raw = path.as_os_str().as_bytes();
    let plain = !raw.starts_with(b"\"") && !raw.starts_with(b"#") && !raw.contains(&b'\n');
    if plain {
        return [raw, b"\n"].concat();
    }
    let mut line = vec![b'"'];
    for &byte in raw {
        match byte {
            b'"' | b'\\' => line.extend([b'\\', byte]),
            b'\n' => line.extend(b"\\n"),
            _ => line.push(byte),
        }
    }
    line.extend(b"\"\n");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternates_are_quoted_where_git_would_misread_them() {
        let table = [
            ("/a b/objects", "/a b/objects\n"),
            ("/é/objects", "/é/objects\n"),
            ("/a\"b", "/a\"b\n"),
            ("/a\nb\\c", "\"/a\\nb\\\\c\"\n"),
            ("#a", "\"#a\"\n"),
        ];
        for (path, want) in table {
            assert_eq!(alternate(Path::new(path)), want.as_bytes(), "{path:?}");
        }
    }
}
