//! What an attempt is started with: plain values and the ports of the built-in agent.

use std::{collections::BTreeSet, ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use ronde_model::{Model, Purse};
use ronde_protocol::{Digest, Epoch, RunId, WorkerName, access::Access};
use ronde_turn::{Recorder, Tool};

/// The variable that names the file a program leaves a question in.
pub const QUESTION_FILE: &str = "RONDE_QUESTION_FILE";

/// One attempt.
#[derive(Debug, Clone)]
pub struct Request {
    /// The run.
    pub run: RunId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The worker.
    pub worker: WorkerName,
    /// The epoch of the run's owner.
    pub epoch: Epoch,
    /// What it is to do.
    pub prompt: String,
    /// Its workspace.
    pub folder: PathBuf,
    /// A private temporary folder outside the workspace. It exists, and nobody else uses it.
    pub tmp: PathBuf,
    /// What it may do. The gate's rules hold the built-in agent's tools only.
    pub access: Access,
    /// Paths it can neither read nor write.
    pub hidden: Vec<PathBuf>,
    /// Its whole environment, made by allow list (`PATH`, `HOME`, `LANG`, `TZ`, `CARGO_HOME`,
    /// `RUSTUP_HOME` and what `access.env` names). A preset adds what its program needs.
    pub env: Vec<(OsString, OsString)>,
    /// The file for the whole of its output, at most 256 MiB. Its folder exists, and the attempt can
    /// write neither.
    pub output: PathBuf,
    /// How long it may take.
    pub time: Option<TimeLimit>,
    /// Model calls it may make. Held for the built-in agent and for claude.
    pub iterations: u32,
    /// The project's `AGENTS.md` on the base; the built-in agent is given it. Other agents find it in
    /// the workspace.
    pub agents_md: Option<String>,
    /// Actions a person said yes to.
    pub approved: BTreeSet<Digest>,
}

/// A limit of time, and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeLimit {
    /// What is left of the run's time: the attempt ends at the limit.
    Run(Duration),
    /// The attempt's own: it fails.
    Attempt(Duration),
}

impl TimeLimit {
    /// How long.
    pub fn duration(self) -> Duration {
        match self {
            Self::Run(duration) | Self::Attempt(duration) => duration,
        }
    }
}

/// Who does the work.
#[derive(Clone)]
pub enum Agent {
    /// The built-in agent.
    Ronde(BuiltIn),
    /// Any program. The prompt comes on stdin, and as a file where an argument holds `{prompt_file}`.
    /// Exit code 0 says that it is finished; text in the file that [`QUESTION_FILE`] names is a
    /// question.
    Command {
        /// Program and arguments.
        argv: Vec<String>,
    },
    /// Claude Code.
    Claude {
        /// Passed on as it stands.
        model: Option<String>,
    },
    /// Codex.
    Codex {
        /// Passed on as it stands.
        model: Option<String>,
    },
    /// OpenCode.
    OpenCode {
        /// Passed on as it stands.
        model: Option<String>,
    },
}

/// What the built-in agent needs beside the request.
#[derive(Clone)]
pub struct BuiltIn {
    /// The model's name, `provider/name`.
    pub name: String,
    /// The model.
    pub model: Arc<dyn Model>,
    /// Who pays.
    pub purse: Arc<dyn Purse>,
    /// Where each step is written down.
    pub recorder: Arc<dyn Recorder>,
    /// Its tools.
    pub tools: Vec<Tool>,
    /// Output tokens a call asks for.
    pub max_output: u32,
}
