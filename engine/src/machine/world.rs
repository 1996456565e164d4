//! What the world outside makes of a step, and what is journaled of it.

use ronde_protocol::{
    Digest, ItemNumber, Usage,
    handoff::Reason,
    outcome::Limit,
    verdict::{Finding, Verdict},
    work::{AttemptEnd, EndReason},
};
use ronde_state::{
    event::{RunEvent, Step},
    run::RunState,
};

/// What the world makes of a step.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) end: End,
    pub(super) tree: u8,
    pub(super) finding: Finding,
    /// The step cannot be taken at all.
    pub(super) broken: bool,
}

/// How a worker ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    Finished,
    Failed,
    Question,
    Approval,
    Limit,
    Unknown,
    Unstartable,
}

/// What is journaled of a step.
pub(super) fn outcome(
    state: &RunState,
    step: &Step,
    reply: &Reply,
    stopped: bool,
    item: Option<ItemNumber>,
) -> RunEvent {
    if reply.broken && !matches!(step, Step::Attempt { .. } | Step::Ask { .. }) {
        return RunEvent::StepFailed {
            step: step.clone(),
            error: "broken".to_owned(),
        };
    }
    match step {
        Step::Prepare => RunEvent::Prepared {
            base: "base".into(),
            tree: "base".into(),
            branch: None,
        },
        Step::Attempt { attempt, worker } => RunEvent::AttemptEnded {
            attempt: *attempt,
            worker: worker.clone(),
            end: AttemptEnd {
                reason: if stopped {
                    EndReason::Stopped
                } else {
                    reason(reply.end)
                },
                claim: String::new(),
                iterations: 1,
                usage: Usage::default(),
                metered: true,
                exit: None,
                output: None,
            },
        },
        Step::Snapshot { attempt, worker } => RunEvent::Snapshot {
            attempt: *attempt,
            worker: worker.clone(),
            tree: match reply.tree {
                0 => "base".into(),
                tree => format!("tree{tree}").into(),
            },
            changed: Vec::new(),
        },
        Step::Verify { attempt } => RunEvent::VerdictGiven {
            attempt: *attempt,
            verdict: Verdict {
                finding: reply.finding,
                tree: state.tree().cloned().unwrap_or_else(|| "base".into()),
                base: "base".into(),
                definition: Digest::of("d"),
                environment: Digest::of("e"),
                checks: Vec::new(),
                protected: Vec::new(),
            },
        },
        Step::Deliver => RunEvent::Delivered {
            branch: Some("b".to_owned()),
            commit: Some("c".into()),
        },
        Step::Ask { reason, .. } => {
            let (item, reason) = (item.expect("an item that is in"), *reason);
            let branch = None;
            match reason {
                Reason::Budget => RunEvent::Noticed {
                    item,
                    reason,
                    branch,
                },
                _ => RunEvent::Waiting {
                    item,
                    reason,
                    branch,
                },
            }
        }
    }
}

fn reason(end: End) -> EndReason {
    let text = || "t".to_owned();
    match end {
        End::Finished => EndReason::Finished,
        End::Failed => EndReason::Failed { error: text() },
        End::Question => EndReason::Question { text: text() },
        End::Approval => EndReason::Approval {
            action: Digest::of("a"),
            text: text(),
        },
        End::Limit => EndReason::Limit {
            limit: Limit::Tokens,
        },
        End::Unknown => EndReason::Unknown { error: text() },
        End::Unstartable => EndReason::Unstartable { error: text() },
    }
}
