//! The events of the home: what is not one run's.

use std::path::PathBuf;

use jiff::Timestamp;
use ronde_protocol::{
    Amount, ArtefactId, CallId, Digest, Epoch, ItemNumber, LoopName, ProjectId, RunId, SlotId,
    firing::{Firing, SkipReason},
    handoff::{Answer, Item},
    outcome::{Limit, Outcome},
};
use serde::{Deserialize, Serialize};

/// One thing that happened in a home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum HomeEvent {
    /// A process took the home over.
    Opened {
        /// Its epoch: one more than the last.
        epoch: Epoch,
        /// Its process id, for people.
        pid: u32,
    },
    /// A project is known.
    ProjectOpened {
        /// The project.
        project: ProjectId,
        /// Its root folder.
        root: PathBuf,
    },
    /// A loop is served from here on with this definition.
    LoopRegistered {
        /// The project.
        project: ProjectId,
        /// The loop.
        #[serde(rename = "loop")]
        loop_name: LoopName,
        /// The loop file.
        file: PathBuf,
        /// Its frozen definition.
        definition: ArtefactId,
    },
    /// A loop is no longer served.
    LoopRemoved {
        /// The project.
        project: ProjectId,
        /// The loop.
        #[serde(rename = "loop")]
        loop_name: LoopName,
    },
    /// Every instant of a trigger up to this one is accounted for. The first one for a trigger makes
    /// sure that a new schedule never fires the past.
    Watermark {
        /// The project.
        project: ProjectId,
        /// The loop.
        #[serde(rename = "loop")]
        loop_name: LoopName,
        /// The trigger, by the hash of its content.
        trigger: Digest,
        /// The instant.
        upto: Timestamp,
    },
    /// A slot became a run.
    SlotFired {
        /// All that is needed to begin the run.
        firing: Firing,
        /// The root folder of the project.
        root: PathBuf,
        /// The trigger whose watermark moves to the slot's instant; none for a start by hand.
        #[serde(default)]
        trigger: Option<Digest>,
    },
    /// Slots did not become runs.
    SlotsSkipped {
        /// The project.
        project: ProjectId,
        /// The loop.
        #[serde(rename = "loop")]
        loop_name: LoopName,
        /// The trigger, by the hash of its content.
        trigger: Digest,
        /// The first of them.
        slot: SlotId,
        /// The instant of the first.
        first: Timestamp,
        /// The instant of the last: the watermark moves there.
        last: Timestamp,
        /// How many.
        count: u64,
        /// Why.
        reason: SkipReason,
    },
    /// A run stands at rest or at its end. Repeats what its own journal says, so that a list of runs
    /// needs one journal only.
    RunRested {
        /// The run.
        run: RunId,
        /// How.
        outcome: Outcome,
        /// Whether the delivered tree differs from the base.
        changed: bool,
        /// Why, in one line.
        reason: String,
        /// The branch with the result or the work so far.
        branch: Option<String>,
        /// The inbox item it waits for.
        item: Option<ItemNumber>,
    },
    /// A run that rested is at work again.
    RunWoken {
        /// The run.
        run: RunId,
    },
    /// Part of a budget is set aside for a call.
    Reserved {
        /// The call.
        call: CallId,
        /// What it may use.
        amount: Amount,
        /// The budgets it is taken from.
        scopes: Vec<Scope>,
    },
    /// A call is over; the rest of its reservation is free again.
    Settled {
        /// The call.
        call: CallId,
        /// What it used; the whole reservation where nobody knows.
        amount: Amount,
    },
    /// An item is in the inbox. Its number is one more than the last.
    ItemOpened {
        /// Its number.
        number: ItemNumber,
        /// The item.
        item: Item,
    },
    /// An item was answered. Only the first answer counts.
    ItemResolved {
        /// Its number.
        number: ItemNumber,
        /// The answer.
        answer: Answer,
    },
    /// A notification about an item is about to be sent.
    NotifyStarted {
        /// The item.
        number: ItemNumber,
        /// The notification's name in the project's settings.
        channel: String,
    },
    /// A notification was sent, or could not be.
    NotifyEnded {
        /// The item.
        number: ItemNumber,
        /// The notification's name in the project's settings.
        channel: String,
        /// What went wrong, if anything did.
        error: Option<String>,
    },
    /// A run has an owner until it is released, taken over or not heard of.
    LeaseTaken {
        /// The run.
        run: RunId,
        /// Who.
        holder: String,
        /// The lease's epoch: higher than any before it for this run.
        epoch: Epoch,
        /// Not valid any more at this instant.
        until: Timestamp,
    },
    /// The owner of a run lives.
    LeaseExtended {
        /// The run.
        run: RunId,
        /// The lease's epoch.
        epoch: Epoch,
        /// Not valid any more at this instant.
        until: Timestamp,
    },
    /// A run has no owner.
    LeaseReleased {
        /// The run.
        run: RunId,
        /// The lease's epoch.
        epoch: Epoch,
    },
    /// Something is to happen at an instant.
    TimerSet {
        /// The timer.
        id: String,
        /// The instant.
        at: Timestamp,
    },
    /// It is not to happen any more, or it has happened.
    TimerCleared {
        /// The timer.
        id: String,
    },
    /// A task is in a queue.
    Pushed {
        /// The task.
        task: QueueItem,
    },
    /// A task was taken out to be worked on.
    Pulled {
        /// The queue.
        queue: String,
        /// The task's id.
        id: String,
        /// Who.
        holder: String,
        /// Back in the queue at this instant.
        until: Timestamp,
    },
    /// A task is finished.
    Acked {
        /// The queue.
        queue: String,
        /// The task's id.
        id: String,
    },
}

/// A task in a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueItem {
    /// The queue.
    pub queue: String,
    /// Its class; a puller names the class it wants.
    pub class: String,
    /// Its id: pushed twice, it is there once.
    pub id: String,
    /// What is to be done.
    pub payload: String,
}

/// A budget that amounts are taken from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Scope {
    /// One run.
    Run {
        /// The run.
        run: RunId,
    },
    /// One loop on one day, `YYYY-MM-DD` in UTC.
    LoopDay {
        /// The project.
        project: ProjectId,
        /// The loop.
        #[serde(rename = "loop")]
        loop_name: LoopName,
        /// The day.
        day: String,
    },
    /// A whole project on one day.
    ProjectDay {
        /// The project.
        project: ProjectId,
        /// The day.
        day: String,
    },
}

impl Scope {
    /// The limit that is named when this scope has too few tokens (`true`) or too little money.
    pub fn limit(&self, tokens: bool) -> Limit {
        match (self, tokens) {
            (Self::Run { .. }, true) => Limit::Tokens,
            (Self::Run { .. }, false) => Limit::Cost,
            (_, true) => Limit::DayTokens,
            (_, false) => Limit::DayCost,
        }
    }
}

/// A budget with its limits; a missing one does not limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScopeLimit {
    /// The budget.
    pub scope: Scope,
    /// Tokens.
    pub tokens: Option<u64>,
    /// Money, in millionths of a dollar.
    pub cost: Option<ronde_protocol::MicroUsd>,
}
