//! The environment of checks: by allow list, never the worker's, never a key that was not named.

use std::{ffi::OsString, path::Path};

use ronde_protocol::{Digest, verdict::Check};
use ronde_sandbox::env_allow;

/// Variables every check gets as ronde itself has them.
const ALLOWED: [&str; 5] = ["PATH", "LANG", "LC_ALL", "TZ", "TERM"];

/// The environment of one check. `HOME` and `TMPDIR` are folders of its own; the toolchains' folders are
/// named, since their defaults hang on the person's `HOME`.
pub(crate) fn of_check(check: &Check, scratch: &Path) -> Vec<(OsString, OsString)> {
    of(&check.env, scratch)
}

/// The environment of the setup: that of a check that names nothing.
pub(crate) fn of_setup(scratch: &Path) -> Vec<(OsString, OsString)> {
    of(&[], scratch)
}

fn of(named: &[String], scratch: &Path) -> Vec<(OsString, OsString)> {
    let mut names: Vec<String> = ALLOWED.map(str::to_owned).to_vec();
    names.extend(named.iter().cloned());
    let text = |path: std::path::PathBuf| path.to_string_lossy().into_owned();
    let mut own = vec![
        ("HOME".to_owned(), text(scratch.join("home"))),
        ("TMPDIR".to_owned(), text(scratch.join("tmp"))),
        ("CI".to_owned(), "true".to_owned()),
    ];
    let user = std::env::var_os("HOME").map(std::path::PathBuf::from);
    for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        let there = std::env::var_os(name)
            .map(std::path::PathBuf::from)
            .or_else(|| {
                user.as_ref()
                    .map(|user| user.join(folder))
                    .filter(|path| path.is_dir())
            });
        own.extend(there.map(|path| (name.to_owned(), text(path))));
    }
    env_allow(&names, &own)
}

/// A hash of the environments of some checks: names and values, but for the folders that are made anew
/// for each verification.
pub fn digest(checks: &[Check]) -> Digest {
    let mut text = Vec::new();
    for check in checks {
        text.extend_from_slice(check.name.as_str().as_bytes());
        text.push(0);
        for (name, value) in of_check(check, Path::new("")) {
            text.extend_from_slice(name.as_encoded_bytes());
            text.push(b'=');
            text.extend_from_slice(value.as_encoded_bytes());
            text.push(0);
        }
    }
    Digest::of(text)
}
