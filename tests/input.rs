//! Bad input: each a clear error that names the thing, the place and the way out, and nothing is lost.
//!
//! A worker that must not start would leave a mark outside its workspace, so that it is seen if it did.

mod files;
mod homes;
mod journals;
mod processes;
mod repositories;

use std::{path::PathBuf, process::Command};

use ronde_tests::{Bench, Ended, contents, end_of, write};

use crate::bench;

/// A project, and the mark its worker leaves when it works.
struct Marked {
    bench: Bench,
    root: PathBuf,
    mark: PathBuf,
}

impl Marked {
    fn new() -> Self {
        let bench = bench();
        let root = bench.project("project", &[("README", "a project\n")]);
        let mark = bench.path("mark");
        Self { bench, root, mark }
    }

    /// A loop file that is right, with more in front of its tables and more behind them.
    fn text(&self, top: &str, tables: &str) -> String {
        let mark = self.mark.display();
        format!(
            r#"{top}
goal = "out is there"

[worker]
command = ["sh", "-c", "echo x > '{mark}'; echo x > out"]
sandbox = "full"

[[check]]
run = "test -e out"
{tables}"#
        )
    }

    /// Writes a loop file beside the project, not into it, and gives its path. The project is named in it.
    fn file(&self, top: &str, tables: &str) -> PathBuf {
        let workspace = if tables.contains("[workspace]") {
            String::new()
        } else {
            format!("[workspace]\nrepo = \"{}\"\n", self.root.display())
        };
        self.raw(&self.text(top, &format!("{tables}\n{workspace}")))
    }

    /// Writes a text as a loop file beside the project.
    fn raw(&self, text: &str) -> PathBuf {
        write(&self.bench.path("loops"), &[("loop.toml", text)]);
        self.bench.path("loops/loop.toml")
    }

    /// Holds that a command is refused with a code and these words, that nothing worked, and that the
    /// project is as it was, byte for byte.
    #[track_caller]
    fn refuses(&self, command: &mut Command, code: i32, says: &[&str]) -> Ended {
        let before = contents(&self.root);
        let ended = end_of(command);
        assert_eq!(ended.code, Some(code), "{ended:?}");
        for word in says {
            assert!(ended.stderr.contains(word), "no {word:?} in {ended:?}");
        }
        assert!(!ended.stderr.contains("panicked"), "{ended:?}");
        self.assert_untouched(&before);
        ended
    }

    #[track_caller]
    fn assert_untouched(&self, before: &std::collections::BTreeMap<PathBuf, Vec<u8>>) {
        assert!(!self.mark.exists(), "the worker has worked");
        assert_eq!(&contents(&self.root), before, "the project is touched");
        self.bench.wait_until_nothing_is_left();
    }
}

/// The control of all the others: a file that is right makes the worker work.
#[test]
fn what_is_right_works_and_leaves_the_mark() {
    let marked = Marked::new();
    let file = marked.file("name = \"right\"", "");
    let ended = marked
        .bench
        .ronde(["run".as_ref(), file.as_os_str(), "--json".as_ref()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(marked.mark.exists());
}
