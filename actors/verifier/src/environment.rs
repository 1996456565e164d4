//! The environment of checks: by allow list, never the worker's, never a key that was not named.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use ronde_protocol::{Digest, verdict::Check};
use ronde_sandbox::env_allow;

use crate::scratch;

/// Variables every check gets as ronde itself has them.
const ALLOWED: [&str; 5] = ["PATH", "LANG", "LC_ALL", "TZ", "TERM"];

/// The environment of one check. `HOME` and `TMPDIR` are folders of its own; the toolchains' folders are
/// named, since their defaults hang on the person's `HOME`. `GIT_*` is withheld even where it is named:
/// it could lead git out of the checkout.
pub(crate) fn of_check(check: &Check, scratch: &Path) -> Vec<(OsString, OsString)> {
    of(&check.env, scratch)
}

/// The environment of the setup: that of a check that names nothing.
pub(crate) fn of_setup(scratch: &Path) -> Vec<(OsString, OsString)> {
    of(&[], scratch)
}

fn of(named: &[String], scratch: &Path) -> Vec<(OsString, OsString)> {
    let names = allowed(named);
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let mut own = vec![
        ("HOME".to_owned(), text(scratch::home(scratch))),
        ("TMPDIR".to_owned(), text(scratch::tmp(scratch))),
        ("CI".to_owned(), "true".to_owned()),
    ];
    let user = std::env::var_os("HOME").map(PathBuf::from);
    for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        let there = std::env::var_os(name).map(PathBuf::from).or_else(|| {
            user.as_ref()
                .map(|user| user.join(folder))
                .filter(|path| path.is_dir())
        });
        own.extend(there.map(|path| (name.to_owned(), text(path))));
    }
    env_allow(&names, &own)
}

/// The names of variables that pass as ronde has them.
fn allowed(named: &[String]) -> Vec<String> {
    let named = named.iter().filter(|name| !name.starts_with("GIT_"));
    ALLOWED
        .map(str::to_owned)
        .into_iter()
        .chain(named.cloned())
        .collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(env: &[&str]) -> Check {
        Check {
            name: "c".into(),
            run: "true".into(),
            env: env.iter().map(|&name| name.to_owned()).collect(),
            timeout_ms: 1,
            repeat: ronde_protocol::verdict::Repeat::default(),
        }
    }

    fn names(env: &[&str]) -> Vec<String> {
        let all = of_check(&check(env), Path::new("/s"));
        all.into_iter()
            .map(|(name, _)| name.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn only_the_list_and_what_is_named() {
        // Cargo gives tests variables of its own: canaries that are set for certain.
        let canary = "CARGO_PKG_NAME";
        assert!(std::env::var_os(canary).is_some());
        let all = names(&[]);
        let own = ["HOME", "TMPDIR", "CI", "CARGO_HOME", "RUSTUP_HOME"];
        assert!(
            all.iter()
                .all(|name| ALLOWED.contains(&name.as_str()) || own.contains(&name.as_str())),
            "{all:?}"
        );
        assert!(names(&[canary]).contains(&canary.to_owned()));
        let named = ["GIT_DIR", "GIT_*", "TOKEN"].map(str::to_owned);
        assert_eq!(allowed(&named)[ALLOWED.len()..], ["TOKEN"]);
        let home = of_check(&check(&["HOME", "TMPDIR"]), Path::new("/s"));
        assert!(
            home.contains(&("HOME".into(), "/s/home".into())),
            "{home:?}"
        );
        assert!(
            home.contains(&("TMPDIR".into(), "/s/tmp".into())),
            "{home:?}"
        );
    }

    #[test]
    fn the_digest_tells_environments_apart() {
        let plain = digest(&[check(&[])]);
        assert_eq!(plain, digest(&[check(&[])]));
        assert_ne!(plain, digest(&[check(&["CARGO_PKG_NAME"])]));
        assert_ne!(
            digest(&[check(&["CARGO_PKG_NAME"])]),
            digest(&[check(&["CARGO_PKG_VERSION"])])
        );
    }
}
