//! How a run ends or rests, and how people and scripts are told.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a run stands when it is not at work. The first four are ends; `HandedOff` and `Interrupted`
/// are rests: an answer or `ronde continue` goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Every check passed on the delivered tree.
    Done,
    /// A limit was reached.
    Stopped,
    /// A person ended it.
    Cancelled,
    /// Something broke that ronde cannot mend.
    Failed,
    /// An item in the inbox waits for a person.
    HandedOff,
    /// ronde was asked to leave off; nothing is lost.
    Interrupted,
}

impl Outcome {
    /// Whether the run can never go on.
    pub fn is_end(self) -> bool {
        !matches!(self, Self::HandedOff | Self::Interrupted)
    }

    /// The exit code of `ronde run` for it.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::HandedOff => 20,
            Self::Stopped => 21,
            Self::Cancelled | Self::Interrupted => 22,
            Self::Failed => 1,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Done => "done",
            Self::Stopped => "stopped",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
            Self::HandedOff => "handed_off",
            Self::Interrupted => "interrupted",
        })
    }
}

/// Something that is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Attempts of a run.
    Attempts,
    /// Model calls of a run.
    Iterations,
    /// Tokens of a run.
    Tokens,
    /// Money of a run.
    Cost,
    /// Time of a run, rests not counted.
    Time,
    /// Tokens of a loop and day.
    DayTokens,
    /// Money of a loop and day.
    DayCost,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Attempts => "attempts",
            Self::Iterations => "iterations",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
            Self::Time => "time",
            Self::DayTokens => "tokens a day",
            Self::DayCost => "cost a day",
        })
    }
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Exit {
    /// It ended by itself with this code.
    Code {
        /// The code, 0 to 255.
        code: i32,
    },
    /// A signal that ronde did not send ended it.
    Signal {
        /// The signal's number.
        signal: i32,
    },
    /// It ran past its time limit, and ronde killed it and its tree.
    TimedOut,
    /// ronde was asked to stop it, and killed it and its tree.
    Stopped,
    /// It never started.
    NotStarted {
        /// Why.
        error: String,
    },
    /// Its keeper vanished, so nobody saw the end.
    Unknown {
        /// What was seen.
        error: String,
    },
}

impl Exit {
    /// Whether it ended by itself with code 0.
    pub fn success(&self) -> bool {
        matches!(self, Self::Code { code: 0 })
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code { code } => write!(f, "exit code {code}"),
            Self::Signal { signal } => write!(f, "killed by signal {signal}"),
            Self::TimedOut => f.write_str("ran past its time limit"),
            Self::Stopped => f.write_str("was stopped"),
            Self::NotStarted { error } => write!(f, "could not start: {error}"),
            Self::Unknown { error } => write!(f, "end unknown: {error}"),
        }
    }
}
