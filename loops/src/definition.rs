//! The checked shape of a loop: plain values, every default filled in. It is derived from the text of
//! the file alone, so a text frozen in a journal gives the same definition again.

use std::time::Duration;

use ronde_protocol::{
    Digest, LoopName, MicroUsd, WorkerName, access::Access, handoff::Reason, verdict::Check,
};
use serde::Serialize;

/// A loop as its file defines it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Definition {
    /// Its name.
    pub name: LoopName,
    /// What it is for, in words.
    pub description: Option<String>,
    /// What the worker is asked to reach.
    pub goal: Goal,
    /// Whether its triggers start runs. A person can start one all the same.
    pub enabled: bool,
    /// What happens when a trigger comes due while a run is at work.
    pub overlap: Overlap,
    /// Whether the checks are tried on the base first, and a run that finds them green is done.
    pub skip_if_green: bool,
    /// What starts runs, in the file's order; empty for a loop that is only started by hand.
    pub triggers: Vec<Trigger>,
    /// Where the work happens.
    pub workspace: WorkspaceSpec,
    /// Who does it.
    pub worker: WorkerSpec,
    /// The stop condition: all must pass. Never empty.
    pub checks: Vec<Check>,
    /// Where a run stops.
    pub limits: Limits,
    /// What comes to a person, and how.
    pub handoff: HandoffSpec,
    /// Names of the files kept between runs, without folders.
    pub state_files: Vec<String>,
}

impl Definition {
    /// A hash of the whole definition: the same for files that differ in comments, order of keys or
    /// spelling of amounts only. The text of a goal file is not part of it.
    pub fn digest(&self) -> Digest {
        Digest::of(serde_json::to_vec(self).expect("plain values serialise"))
    }
}

/// What the worker is asked to reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// The goal itself, with its placeholders.
    Text(String),
    /// A file that holds it, relative to the folder of the loop file. The caller reads it, and checks
    /// its placeholders with [`crate::goal::check`].
    File(String),
}

/// What happens when a trigger comes due while a run of the loop is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overlap {
    /// The slot is skipped.
    Skip,
}

/// One thing that starts runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trigger {
    /// Its place in the file, from 0.
    pub index: usize,
    /// When.
    pub spec: TriggerSpec,
    /// IANA name of the zone a cron text is read in; `None` is the machine's own zone.
    pub timezone: Option<String>,
    /// Hash of what names its instants (text and zone, or interval), so that reordering the triggers,
    /// or changing `catch_up` or `jitter`, changes no slot's id. Unique in the loop.
    pub hash: Digest,
    /// A slot missed by at most this still starts, once.
    pub catch_up: Duration,
    /// The most a start is put off; zero where the file names none.
    pub jitter: Duration,
}

/// When a trigger comes due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TriggerSpec {
    /// At the instants of a cron text, blanks normalised.
    Cron(String),
    /// At an interval, counted from the trigger's registration.
    Every(Duration),
}

/// Where the work happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkspaceSpec {
    /// The repository, relative to the project's root; `None` is the root itself.
    pub repo: Option<String>,
    /// The branch the work starts from; `None` is the one checked out in the repository.
    pub base: Option<String>,
    /// Whether the base is brought up to date from its remote first.
    pub fetch: bool,
    /// A command line for each fresh checkout, run before worker and checks.
    pub setup: Option<String>,
    /// A folder, relative to the loop file's, that is copied into a repository of its own first.
    pub seed: Option<String>,
    /// How the worker's folder is kept apart.
    pub isolation: Isolation,
    /// What becomes of a verified tree.
    pub deliver: Deliver,
    /// Gitignore-style patterns of paths no worker may change.
    pub protect: Vec<String>,
}

/// How the worker's folder is kept apart from the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// A private clone.
    Clone,
}

/// What becomes of a verified tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deliver {
    /// A branch of the repository.
    Branch,
    /// Nothing: the run's verdict is all that is wanted.
    None,
}

/// Who does the work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerSpec {
    /// Its name.
    pub name: WorkerName,
    /// What it is.
    pub agent: Agent,
    /// What it may do.
    pub access: Access,
}

/// What a worker is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Agent {
    /// The built-in agent.
    Ronde {
        /// `scripted/<file>`: the file is relative to the loop file's folder.
        model: String,
    },
    /// Claude Code.
    Claude {
        /// Passed to it as it stands; `None` is its own default.
        model: Option<String>,
    },
    /// Codex.
    Codex {
        /// Passed to it as it stands; `None` is its own default.
        model: Option<String>,
    },
    /// OpenCode.
    OpenCode {
        /// Passed to it as it stands; `None` is its own default.
        model: Option<String>,
    },
    /// Any program: the prompt comes on stdin, and as a file where an argument holds `{prompt_file}`.
    Command {
        /// Program and arguments; never empty.
        argv: Vec<String>,
    },
}

impl Agent {
    /// Whether every model call it makes is paid from a reservation, so that limits of tokens and cost
    /// can be held.
    pub fn metered(&self) -> bool {
        matches!(self, Self::Ronde { .. })
    }
}

/// Where a run stops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Attempts, at least 1.
    pub attempts: u32,
    /// Model calls, at least 1.
    pub iterations: u32,
    /// Tokens, all kinds added. `None` for a worker that cannot be metered.
    pub tokens: Option<u64>,
    /// Money.
    pub cost: Option<MicroUsd>,
    /// Time, rests not counted.
    pub time: Duration,
    /// All runs of the loop in one day.
    pub day: DayLimits,
}

/// What a day may cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DayLimits {
    /// Tokens, all kinds added.
    pub tokens: Option<u64>,
    /// Money.
    pub cost: Option<MicroUsd>,
}

/// What comes to a person, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HandoffSpec {
    /// The reasons that open an item in the inbox, each once.
    pub on: Vec<Reason>,
    /// Names of the notifications of the project's configuration, each once.
    pub notify: Vec<String>,
    /// After this an unanswered item expires; `None` is never.
    pub timeout: Option<Duration>,
}
