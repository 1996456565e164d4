//! Why a run began.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{ArtefactId, LoopName, ProjectId, RunId, SlotId};

/// What starts a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Cause {
    /// Somebody typed `ronde run`.
    Person,
    /// A cron trigger came due; `trigger` is its place in the loop file, from 0.
    Cron {
        /// Place in the file, from 0.
        trigger: usize,
    },
    /// An interval came due.
    Every {
        /// Place in the file, from 0.
        trigger: usize,
    },
}

/// A slot that becomes a run. Everything needed to begin the run again after a crash is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Firing {
    /// The slot.
    pub slot: SlotId,
    /// Its run: [`RunId::of`] the slot.
    pub run: RunId,
    /// The project the loop belongs to.
    pub project: ProjectId,
    /// The loop.
    #[serde(rename = "loop")]
    pub loop_name: LoopName,
    /// Why.
    pub cause: Cause,
    /// The instant it was due; for a start by hand, the instant it was asked for.
    pub due: Timestamp,
    /// The loop's definition as it was at that moment, frozen: an artefact.
    pub definition: ArtefactId,
}

/// Why a slot did not become a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SkipReason {
    /// A run of the loop was still at work.
    Overlap {
        /// That run.
        run: RunId,
    },
    /// ronde was not running, and the slot is older than the catch-up window.
    Missed,
    /// Several slots were missed; a later one of them was caught up.
    Superseded {
        /// The slot that started instead.
        by: SlotId,
    },
    /// What the loop asks for could not be had at that moment.
    Unable {
        /// What, in words for a person.
        reason: String,
    },
}
