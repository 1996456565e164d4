//! The API of a process that owns a home, and the client every command line uses, the owner's too:
//! one way in, whoever asks.

mod client;
mod server;

use ronde_protocol::{LoopName, RunId, Seq, handoff::Answer};
use serde::{Deserialize, Serialize};

pub(crate) use client::{Client, Gone};
pub(crate) use server::serve;

use crate::handle::RefusalKind;

/// Who answers at a socket.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Health {
    /// The process.
    pub(crate) pid: u32,
    /// Its version.
    pub(crate) version: String,
    /// What it was started to do: `serve`, `run`, …
    pub(crate) verb: String,
}

/// Starts a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StartRequest {
    /// The loop file, absolute.
    pub(crate) file: std::path::PathBuf,
    /// Makes a request sent twice one run.
    pub(crate) nonce: String,
}

/// A run and the record after which what was asked for can be seen.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Begun {
    /// The run.
    pub(crate) run: RunId,
    /// The record; none where nothing goes on.
    pub(crate) cursor: Option<Seq>,
}

/// Answers an item.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AnswerRequest {
    /// The answer.
    pub(crate) answer: Answer,
}

/// Serves a project's loops.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ProjectRequest {
    /// Its root folder, absolute.
    pub(crate) root: std::path::PathBuf,
}

/// What came of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ProjectReply {
    /// The loops that are served.
    pub(crate) loops: Vec<LoopName>,
    /// The files that are not, each with all that is wrong with it.
    pub(crate) problems: Vec<String>,
}

/// A refusal as it travels.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Refused {
    /// What kind.
    pub(crate) kind: RefusalKind,
    /// What is wrong.
    pub(crate) message: String,
    /// The way out.
    pub(crate) hint: Option<String>,
}
