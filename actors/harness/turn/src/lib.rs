//! The turn loop of the built-in agent: it gives a model its context and its tools and goes on until
//! the model says it is finished or something ends it. The worker runs it for one attempt.
//!
//! It knows no actor, no journal and no ledger: what it does is recorded through [`Recorder`] before it
//! is done, and paid for through the model client's purse. It never judges whether a goal is reached.

mod calls;
mod context;
mod cut;
mod port;
mod repeat;
mod talk;
mod tools;

use std::{ffi::OsString, path::PathBuf};

pub use port::{Ports, Recorder, Stop};
use ronde_protocol::{Epoch, RunId, WorkerName, access::Access, work::AttemptEnd};
pub use tools::Tool;

/// Output tokens a call asks for where the caller has no better number.
pub const MAX_OUTPUT: u32 = 16_384;

/// One attempt of the built-in agent.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The run.
    pub run: RunId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The worker.
    pub worker: WorkerName,
    /// The epoch of the run's owner; part of every call's id.
    pub epoch: Epoch,
    /// The model, `provider/name`.
    pub model: String,
    /// Output tokens a call asks for.
    pub max_output: u32,
    /// What the attempt is to do.
    pub prompt: String,
    /// The project's `AGENTS.md` as it is on the base, if there is one.
    pub agents_md: Option<String>,
    /// The tools it has, without doubles. With [`Level::ReadOnly`](ronde_protocol::access::Level),
    /// `edit` and `write` are left out whatever stands here.
    pub tools: Vec<Tool>,
    /// What it may do.
    pub access: Access,
    /// Its workspace.
    pub folder: PathBuf,
    /// A private temporary folder that its shell commands can write.
    pub tmp: PathBuf,
    /// A file that ronde alone can write and that need not exist: a shell command's output passes
    /// through it. Never inside `folder` or `tmp`.
    pub spool: PathBuf,
    /// Paths its shell commands can neither read nor write.
    pub hidden: Vec<PathBuf>,
    /// The whole environment of its shell commands; `TMPDIR` is set to `tmp` besides.
    pub env: Vec<(OsString, OsString)>,
    /// Model calls it may still make, retries counted.
    pub iterations: u32,
}

/// Runs an attempt to its end. Whatever goes wrong is in the [`AttemptEnd`]; `output` is the whole
/// conversation, in the form of [`ronde_model::wire::render`].
///
/// Dropping the future ends the attempt at once; a shell command of it is stopped.
pub async fn run(turn: Turn, ports: Ports) -> AttemptEnd {
    talk::Talk::begin(turn, ports).run().await
}
