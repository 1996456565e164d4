//! What passes between a run and the worker of one attempt.

use serde::{Deserialize, Serialize};

use crate::{
    Amount, ArtefactId, CallId, Digest, Usage,
    outcome::{Exit, Limit},
};

/// How one attempt ended. Never whether the goal is reached: only a verdict says that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptEnd {
    /// Why it ended.
    pub reason: EndReason,
    /// The worker's last words, cut to a few kilobytes. A claim, not a fact.
    pub claim: String,
    /// Model calls it made, where they could be counted.
    pub iterations: u32,
    /// What they used, where it could be counted; already settled in the ledger if `metered`.
    pub usage: Usage,
    /// Whether every call was paid from a reservation.
    pub metered: bool,
    /// How its process ended, for an external agent.
    pub exit: Option<Exit>,
    /// The whole of its output or transcript.
    pub output: Option<ArtefactId>,
}

/// Why an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EndReason {
    /// The worker says it is finished.
    Finished,
    /// A limit was reached.
    Limit {
        /// Which.
        limit: Limit,
    },
    /// It was asked to stop.
    Stopped,
    /// It has a question for a person.
    Question {
        /// The question.
        text: String,
    },
    /// An action needs a person's yes.
    Approval {
        /// Hash of the exact action.
        action: Digest,
        /// The action in words: `shell: cargo add serde`.
        text: String,
    },
    /// It failed: a model error after retries, an exit code, a death loop. The attempt counts, and what
    /// it left is judged all the same.
    Failed {
        /// What happened.
        error: String,
    },
    /// It could not begin at all (no such program, sandbox refused). Another attempt would not help.
    Unstartable {
        /// Why.
        error: String,
    },
    /// Nobody knows how it ended.
    Unknown {
        /// What was seen.
        error: String,
    },
}

/// A step of a turn that is written to the run's journal before anything else happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TurnEvent {
    /// A model call is paid for and about to be made.
    CallStarted {
        /// The call.
        call: CallId,
        /// The model, `provider/name`.
        model: String,
        /// What is reserved for it.
        reserved: Amount,
    },
    /// A model call ended.
    CallEnded {
        /// The call.
        call: CallId,
        /// What it used; the whole reservation where nobody knows.
        usage: Usage,
        /// The response, whole.
        response: Option<ArtefactId>,
        /// What went wrong, if anything did.
        error: Option<String>,
    },
    /// A tool is about to run.
    ToolStarted {
        /// The provider's id of the tool call.
        id: String,
        /// The tool.
        tool: String,
        /// One line about what it will do.
        summary: String,
    },
    /// A tool ended.
    ToolEnded {
        /// The provider's id of the tool call.
        id: String,
        /// How.
        outcome: ToolOutcome,
    },
}

/// How a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOutcome {
    /// It did what it was asked.
    Done,
    /// It failed, and the model reads why.
    Failed,
    /// The gate refused it, and the model reads why.
    Refused,
    /// Nobody knows.
    Unknown,
}

/// Short-lived news of an attempt, for screens only; never journaled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Progress {
    /// A piece of what the worker says.
    Text {
        /// The piece, lossy UTF-8.
        text: String,
    },
    /// Bytes of output so far.
    Output {
        /// Bytes.
        bytes: u64,
    },
}
