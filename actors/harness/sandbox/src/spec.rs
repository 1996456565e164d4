//! What ronde and a keeper say to each other over their socket. Both ends are the same executable, so
//! this format is never stored and has no version.
//!
//! ronde sends one frame: the length of the JSON of a [`Spec`] (8 bytes, little endian), that JSON,
//! and `stdin_len` bytes for the program to read. After it come single bytes, [`STOP`] and [`KILL`];
//! the end of the stream means that ronde is gone. The keeper sends one [`Report`] as a JSON line.

use std::{ffi::OsString, time::Duration};

use ronde_protocol::{access::Level, outcome::Exit};
use serde::{Deserialize, Serialize};

use crate::{Command, Limits, Policy, Stdin};

/// End the tree, with grace.
pub(crate) const STOP: u8 = b's';
/// End the tree at once.
pub(crate) const KILL: u8 = b'k';

/// The longest grace once ronde is gone: a successor may already want the workspace.
pub(crate) const ORPHAN_GRACE: Duration = Duration::from_secs(1);

/// A command as it travels. Paths are `OsString` because serde refuses a `PathBuf` that is not UTF-8.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) argv: Vec<OsString>,
    pub(crate) cwd: OsString,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) stdin_len: Option<u64>,
    pub(crate) stdin_file: Option<OsString>,
    pub(crate) merge: bool,
    pub(crate) time: Option<Duration>,
    pub(crate) grace: Duration,
    pub(crate) level: Level,
    pub(crate) network: bool,
    pub(crate) writable: Vec<OsString>,
    pub(crate) hidden: Vec<OsString>,
    pub(crate) limits: Limits,
}

impl Spec {
    /// The spec of a command; its bytes for stdin travel apart.
    pub(crate) fn of(command: &Command) -> Self {
        let (stdin_len, stdin_file) = match &command.stdin {
            Stdin::Null => (None, None),
            Stdin::Bytes(bytes) => (Some(bytes.len() as u64), None),
            Stdin::File(path) => (None, Some(path.clone().into_os_string())),
        };
        let texts = |paths: &[std::path::PathBuf]| {
            paths
                .iter()
                .map(|path| path.clone().into_os_string())
                .collect()
        };
        Self {
            argv: command.argv.clone(),
            cwd: command.cwd.clone().into_os_string(),
            env: command.env.clone(),
            stdin_len,
            stdin_file,
            merge: command.capture.merge,
            time: command.time,
            grace: command.grace,
            level: command.policy.level,
            network: command.policy.network,
            writable: texts(&command.policy.writable),
            hidden: texts(&command.policy.hidden),
            limits: command.policy.limits,
        }
    }

    /// The policy in it.
    pub(crate) fn policy(&self) -> Policy {
        Policy {
            level: self.level,
            network: self.network,
            writable: self.writable.iter().map(Into::into).collect(),
            hidden: self.hidden.iter().map(Into::into).collect(),
            limits: self.limits,
        }
    }
}

/// What a keeper says at the end.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) exit: Exit,
}
