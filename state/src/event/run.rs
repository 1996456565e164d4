//! The events of one run.

use std::path::PathBuf;

use ronde_protocol::{
    CommitId, Epoch, ItemNumber, TreeId, WorkerName,
    firing::Firing,
    handoff::{Answer, Reason},
    outcome::Outcome,
    verdict::Verdict,
    work::{AttemptEnd, TurnEvent},
};
use serde::{Deserialize, Serialize};

/// One thing that happened in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RunEvent {
    /// The run exists. Always the first event.
    Fired {
        /// The slot and what it started.
        firing: Firing,
        /// The root folder of the project.
        root: PathBuf,
    },
    /// A process took the run up again. Steps begun before and not ended are lost: nobody saw how they
    /// ended.
    Woken {
        /// The new owner's epoch.
        epoch: Epoch,
        /// Why.
        reason: WakeReason,
    },
    /// A step is about to be taken: the intent that stands before every effect.
    Started {
        /// The step.
        step: Step,
    },
    /// A step could not be taken at all.
    StepFailed {
        /// The step.
        step: Step,
        /// What happened, in words for a person.
        error: String,
    },
    /// A step was stopped in order before its end, and is to be taken again.
    StepStopped {
        /// The step.
        step: Step,
    },
    /// The workspace stands.
    Prepared {
        /// The commit the run is based on; the rules it is judged by are read there.
        base: CommitId,
        /// The tree of that commit.
        tree: TreeId,
        /// The branch of that commit, where it has one.
        branch: Option<String>,
    },
    /// A step of a turn of the built-in agent.
    Turn {
        /// Attempt, from 1.
        attempt: u32,
        /// The worker it concerns.
        worker: WorkerName,
        /// What happened.
        event: TurnEvent,
    },
    /// The worker of an attempt ended. Says nothing about the goal.
    AttemptEnded {
        /// Attempt, from 1.
        attempt: u32,
        /// The worker it concerns.
        worker: WorkerName,
        /// How.
        end: AttemptEnd,
    },
    /// What the worker left was written down as a git tree.
    Snapshot {
        /// Attempt, from 1.
        attempt: u32,
        /// The worker it concerns.
        worker: WorkerName,
        /// The tree.
        tree: TreeId,
        /// Paths that differ from the base, at most 1,000 of them.
        changed: Vec<String>,
    },
    /// The verifier spoke.
    VerdictGiven {
        /// The attempt it judges, from 1; 0 is the base itself.
        attempt: u32,
        /// What it says.
        verdict: Verdict,
    },
    /// The result is in the repository.
    Delivered {
        /// The branch; none where nothing was to be delivered.
        branch: Option<String>,
        /// The commit on it.
        commit: Option<CommitId>,
    },
    /// The run rests until an item is answered.
    Waiting {
        /// The item's number.
        item: ItemNumber,
        /// Why.
        reason: Reason,
        /// The branch the work so far can be seen on.
        branch: Option<String>,
    },
    /// A person was told something that the run does not wait for.
    Noticed {
        /// The item's number.
        item: ItemNumber,
        /// Why.
        reason: Reason,
        /// The branch the work so far can be seen on.
        branch: Option<String>,
    },
    /// The item was answered.
    Answered {
        /// The item's number.
        item: ItemNumber,
        /// What was said.
        answer: Answer,
    },
    /// The run's time is used up.
    TimeUp,
    /// A person wants the run to end.
    StopRequested,
    /// ronde was asked to leave off; the run rests.
    Interrupted,
    /// The run ended.
    Ended {
        /// How: never a resting outcome.
        outcome: Outcome,
        /// Whether the delivered tree differs from the base.
        changed: bool,
        /// Why, in one line.
        reason: String,
    },
}

/// Something that takes time and has an effect outside the journal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Step {
    /// Make the workspace.
    Prepare,
    /// Let a worker work.
    Attempt {
        /// Attempt, from 1.
        attempt: u32,
        /// The worker.
        worker: WorkerName,
    },
    /// Write down what it left.
    Snapshot {
        /// Attempt, from 1.
        attempt: u32,
        /// The worker.
        worker: WorkerName,
    },
    /// Judge a tree.
    Verify {
        /// The attempt it judges, from 1; 0 is the base itself.
        attempt: u32,
    },
    /// Put the result into the repository.
    Deliver,
    /// Put an item into the inbox and tell somebody.
    Ask {
        /// Number of the question within the run, from 1.
        question: u32,
        /// Why.
        reason: Reason,
    },
}

impl Step {
    /// The same text for the same step, whoever asks: the key of its action.
    pub fn id(&self) -> String {
        match self {
            Self::Prepare => "prepare".to_owned(),
            Self::Attempt { attempt, worker } => format!("attempt/{attempt}/{worker}"),
            Self::Snapshot { attempt, worker } => format!("snapshot/{attempt}/{worker}"),
            Self::Verify { attempt } => format!("verify/{attempt}"),
            Self::Deliver => "deliver".to_owned(),
            Self::Ask { question, .. } => format!("ask/{question}"),
        }
    }
}

/// Why a run was taken up again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WakeReason {
    /// The process before died.
    Recovered,
    /// A person typed `ronde continue`.
    Continued,
    /// Its item was answered.
    Answered,
}
