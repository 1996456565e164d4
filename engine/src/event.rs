//! What screens, `--json` and the API say of a run: a projection of its journal, plus short-lived news.
//!
//! An event that comes from the journal carries the number of its record as `cursor`; a client that
//! reconnects asks for what comes after the last one it saw. News without a cursor is not repeated.

use ronde_protocol::{
    ItemNumber, RunId, Seq, Timestamp, Usage,
    firing::Cause,
    handoff::Reason,
    outcome::{Exit, Outcome},
    verdict::{CheckResult, Finding},
    work::{EndReason, Progress, ToolOutcome, TurnEvent},
};
use ronde_state::{
    event::{RunEvent, Step, WakeReason},
    journal::Record,
    run::RunState,
};
use serde::{Deserialize, Serialize};

/// One line of `--json`, one event of the stream.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Event {
    /// What happened.
    #[serde(flatten)]
    pub(crate) what: What,
    /// The run.
    pub(crate) run: RunId,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<Timestamp>,
    /// The record it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cursor: Option<Seq>,
}

/// What happened. Documented, field by field, in `docs/events.md`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum What {
    /// The run began.
    RunStarted {
        r#loop: String,
        cause: Cause,
        due: Timestamp,
    },
    /// It was taken up again.
    RunWoken { reason: WakeReason },
    /// A step begins.
    StepStarted { step: String },
    /// A step could not be taken.
    StepFailed { step: String, error: String },
    /// The workspace stands.
    Prepared {
        base: String,
        branch: Option<String>,
    },
    /// A worker begins.
    AttemptStarted { attempt: u32, worker: String },
    /// A model call begins.
    CallStarted {
        attempt: u32,
        worker: String,
        iteration: u32,
        model: String,
    },
    /// A model call ended.
    CallEnded {
        attempt: u32,
        worker: String,
        usage: Usage,
        error: Option<String>,
    },
    /// A tool begins.
    ToolStarted {
        attempt: u32,
        worker: String,
        tool: String,
        summary: String,
    },
    /// A tool ended.
    ToolEnded {
        attempt: u32,
        worker: String,
        outcome: ToolOutcome,
    },
    /// A worker ended. A claim, not a fact.
    AttemptEnded {
        attempt: u32,
        worker: String,
        reason: EndReason,
        exit: Option<Exit>,
        claim: String,
        usage: Usage,
    },
    /// What it left is written down.
    Snapshot {
        attempt: u32,
        tree: String,
        changed: Vec<String>,
    },
    /// A check begins or ended; short-lived.
    Check {
        attempt: u32,
        name: String,
        finding: Option<Finding>,
    },
    /// The verifier spoke.
    Verdict {
        attempt: u32,
        finding: Finding,
        tree: String,
        checks: Vec<CheckResult>,
        protected: Vec<String>,
    },
    /// A person is asked.
    Waiting {
        item: ItemNumber,
        reason: Reason,
        branch: Option<String>,
    },
    /// A person is told.
    Noticed {
        item: ItemNumber,
        reason: Reason,
        branch: Option<String>,
    },
    /// A person answered.
    Answered { item: ItemNumber },
    /// The result is in the repository.
    Delivered {
        branch: Option<String>,
        commit: Option<String>,
    },
    /// The run's time is used up.
    TimeUp,
    /// A person wants it to end.
    StopRequested,
    /// The worker says something; short-lived.
    Progress {
        attempt: u32,
        worker: String,
        progress: Progress,
    },
    /// The run ended or rests. Always the last line.
    RunEnded {
        outcome: Outcome,
        changed: bool,
        reason: String,
        r#loop: String,
        attempts: usize,
        iterations: u32,
        usage: Usage,
        branch: Option<String>,
        item: Option<ItemNumber>,
    },
}

/// What one record means to a screen. `state` is the run's state after the record.
pub(crate) fn project(state: &RunState, record: &Record<RunEvent>) -> Vec<Event> {
    let mut whats = Vec::with_capacity(2);
    match &record.event {
        RunEvent::Fired { firing, .. } => whats.push(What::RunStarted {
            r#loop: firing.loop_name.to_string(),
            cause: firing.cause.clone(),
            due: firing.due,
        }),
        RunEvent::Woken { reason, .. } => whats.push(What::RunWoken { reason: *reason }),
        RunEvent::Started {
            step: Step::Attempt { attempt, worker },
        } => {
            whats.push(What::AttemptStarted {
                attempt: *attempt,
                worker: worker.to_string(),
            });
        }
        RunEvent::Started { step } => whats.push(What::StepStarted { step: step.id() }),
        RunEvent::StepFailed { step, error } => {
            whats.push(What::StepFailed {
                step: step.id(),
                error: error.clone(),
            });
        }
        RunEvent::Prepared { base, branch, .. } => {
            whats.push(What::Prepared {
                base: base.to_string(),
                branch: branch.clone(),
            });
        }
        RunEvent::Turn {
            attempt,
            worker,
            event,
        } => {
            let (attempt, worker) = (*attempt, worker.to_string());
            whats.push(match event {
                TurnEvent::CallStarted { model, .. } => What::CallStarted {
                    attempt,
                    worker,
                    iteration: state.iterations,
                    model: model.clone(),
                },
                TurnEvent::CallEnded { usage, error, .. } => What::CallEnded {
                    attempt,
                    worker,
                    usage: *usage,
                    error: error.clone(),
                },
                TurnEvent::ToolStarted { tool, summary, .. } => What::ToolStarted {
                    attempt,
                    worker,
                    tool: tool.clone(),
                    summary: summary.clone(),
                },
                TurnEvent::ToolEnded { outcome, .. } => What::ToolEnded {
                    attempt,
                    worker,
                    outcome: *outcome,
                },
            });
        }
        RunEvent::AttemptEnded {
            attempt,
            worker,
            end,
        } => whats.push(What::AttemptEnded {
            attempt: *attempt,
            worker: worker.to_string(),
            reason: end.reason.clone(),
            exit: end.exit.clone(),
            claim: end.claim.clone(),
            usage: end.usage,
        }),
        RunEvent::Snapshot {
            attempt,
            tree,
            changed,
            ..
        } => whats.push(What::Snapshot {
            attempt: *attempt,
            tree: tree.to_string(),
            changed: changed.clone(),
        }),
        RunEvent::VerdictGiven { attempt, verdict } => whats.push(What::Verdict {
            attempt: *attempt,
            finding: verdict.finding,
            tree: verdict.tree.to_string(),
            checks: verdict.checks.clone(),
            protected: verdict.protected.clone(),
        }),
        RunEvent::Delivered { branch, commit } => whats.push(What::Delivered {
            branch: branch.clone(),
            commit: commit.as_ref().map(ToString::to_string),
        }),
        RunEvent::Waiting {
            item,
            reason,
            branch,
        } => {
            whats.push(What::Waiting {
                item: *item,
                reason: *reason,
                branch: branch.clone(),
            });
        }
        RunEvent::Noticed {
            item,
            reason,
            branch,
        } => {
            whats.push(What::Noticed {
                item: *item,
                reason: *reason,
                branch: branch.clone(),
            });
        }
        RunEvent::Answered { item, .. } => whats.push(What::Answered { item: *item }),
        RunEvent::TimeUp => whats.push(What::TimeUp),
        RunEvent::StopRequested => whats.push(What::StopRequested),
        RunEvent::StepStopped { .. } | RunEvent::Interrupted | RunEvent::Ended { .. } => {}
    }
    // A run at rest may still write how its steps were stopped; it rested before.
    let rests = matches!(
        record.event,
        RunEvent::Waiting { .. } | RunEvent::Interrupted | RunEvent::Ended { .. }
    );
    whats.extend(run_ended(state).filter(|_| rests));
    whats
        .into_iter()
        .map(|what| Event {
            what,
            run: state.firing.run.clone(),
            at: Some(record.at),
            cursor: Some(record.seq),
        })
        .collect()
}

/// The closing line of a run that has ended or rests; none while it is at work.
pub(crate) fn run_ended(state: &RunState) -> Option<What> {
    let outcome = state.outcome()?;
    let delivered = state
        .delivered
        .as_ref()
        .and_then(|delivered| delivered.branch.clone());
    Some(What::RunEnded {
        outcome,
        changed: state
            .ended
            .as_ref()
            .map_or_else(|| state.changed(), |end| end.changed),
        reason: rest_reason(state),
        r#loop: state.firing.loop_name.to_string(),
        attempts: state.attempts.len(),
        iterations: state.iterations,
        usage: state.usage,
        branch: delivered.or_else(|| state.branch.clone()),
        item: state
            .waiting
            .as_ref()
            .map(|waiting| waiting.item)
            .or_else(|| state.notices.last().map(|(item, _)| *item)),
    })
}

/// Why a run stands as it does, in one line.
pub(crate) fn rest_reason(state: &RunState) -> String {
    if let Some(end) = &state.ended {
        end.reason.clone()
    } else if let Some(waiting) = &state.waiting {
        format!(
            "item {} waits for a person: {}",
            waiting.item, waiting.reason
        )
    } else if state.interrupted {
        "ronde was asked to leave off".to_owned()
    } else {
        String::new()
    }
}
