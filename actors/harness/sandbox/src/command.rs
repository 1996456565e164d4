//! What is to be run and how its output is kept: plain values, no effect.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use crate::Policy;

/// A program to run.
#[derive(Debug, Clone)]
pub struct Command {
    /// The program and its arguments. A program without a slash is looked up in the `PATH` of `env`
    /// (`/usr/bin:/bin` if that has none).
    pub argv: Vec<OsString>,
    /// The folder it starts in.
    pub cwd: PathBuf,
    /// Its whole environment: nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// What it reads.
    pub stdin: Stdin,
    /// How much of its output is kept, and where.
    pub capture: Capture,
    /// How long it may run; its tree is killed then.
    pub time: Option<Duration>,
    /// How long its tree has between SIGTERM and SIGKILL. No more than a second of it is given when
    /// ronde itself has died.
    pub grace: Duration,
    /// What it may do.
    pub policy: Policy,
}

impl Command {
    /// A command without isolation, with an empty environment, nothing to read, a small capture and
    /// no time limit.
    pub fn new(
        argv: impl IntoIterator<Item = impl Into<OsString>>,
        cwd: impl Into<PathBuf>,
    ) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            cwd: cwd.into(),
            env: Vec::new(),
            stdin: Stdin::Null,
            capture: Capture::default(),
            time: None,
            grace: Duration::from_secs(5),
            policy: Policy::unconfined(),
        }
    }
}

/// What a program reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing.
    Null,
    /// These bytes. It sees a file, so it may read them or not.
    Bytes(Vec<u8>),
    /// A file, opened before the program is confined.
    File(PathBuf),
}

/// How much of the output is kept. Both streams are read to their end whatever is kept of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    /// Bytes kept in memory from the beginning of each stream.
    pub head: usize,
    /// Bytes kept in memory from the end of each stream.
    pub tail: usize,
    /// A file to write standard output to (with `merge`, standard error too).
    pub whole: Option<PathBuf>,
    /// Bytes that file may have at most.
    pub whole_limit: u64,
    /// Whether standard error goes where standard output goes.
    pub merge: bool,
}

impl Default for Capture {
    /// 32 KiB of each end, no file.
    fn default() -> Self {
        Self {
            head: 32 * 1024,
            tail: 32 * 1024,
            whole: None,
            whole_limit: u64::MAX,
            merge: false,
        }
    }
}
