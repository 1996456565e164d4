//! The queue of things only a person can decide.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Digest, ItemNumber, LoopName, ProjectId, RunId};

/// Why a run waits for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The same verdict on the same tree twice, or the attempts are used up.
    Stuck,
    /// A limit other than attempts was reached.
    Budget,
    /// The worker asked something.
    Question,
    /// An action needs a yes.
    Approval,
    /// An effect began and nobody knows how it ended.
    UnknownEffect,
    /// A check could not say pass or fail.
    CheckBroken,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 6] = [
        Self::Stuck,
        Self::Budget,
        Self::Question,
        Self::Approval,
        Self::UnknownEffect,
        Self::CheckBroken,
    ];
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Stuck => "stuck",
            Self::Budget => "budget",
            Self::Question => "question",
            Self::Approval => "approval",
            Self::UnknownEffect => "unknown-effect",
            Self::CheckBroken => "check-broken",
        })
    }
}

/// One thing to decide. `number` is given by the inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// The key under which it was asked for: `<run>/<n>`. Asking twice opens one item.
    pub key: String,
    /// The run that waits.
    pub run: RunId,
    /// Its project.
    pub project: ProjectId,
    /// Its loop.
    #[serde(rename = "loop")]
    pub loop_name: LoopName,
    /// Why.
    pub reason: Reason,
    /// One line for a list.
    pub title: String,
    /// What was seen: the failing checks with their ends, the question, the action.
    pub evidence: String,
    /// Where the work so far can be looked at, where there is any: a branch of the repository.
    pub branch: Option<String>,
    /// What was tried, one line an attempt.
    pub tried: Vec<String>,
    /// The action an approval is bound to.
    pub action: Option<Digest>,
    /// When it was asked.
    pub opened: Timestamp,
    /// When it runs out by itself.
    pub expires: Option<Timestamp>,
    /// Whether the run rests until it is answered. False for a notice about a run that has ended.
    pub blocks: bool,
}

/// What a person said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Answer {
    /// Words for the worker: the run goes on with them in its prompt.
    Text {
        /// The words.
        text: String,
    },
    /// Yes.
    Approve,
    /// No: an approval is refused and the run goes on knowing so; any other run ends as cancelled.
    Deny,
    /// Nothing more is wanted: the run ends as cancelled.
    Close,
    /// Nobody answered in time: the run ends as stopped.
    Expired,
}

/// An item with its number and how it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number.
    pub number: ItemNumber,
    /// The item.
    pub item: Item,
    /// The answer, once there is one.
    pub answer: Option<Answer>,
    /// When it was answered.
    pub answered: Option<Timestamp>,
}
