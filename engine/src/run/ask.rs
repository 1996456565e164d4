//! The step that asks a person: the work so far on a branch, and an item that says what was seen, what
//! was tried and what is wanted.

use ronde_loops::Deliver;
use ronde_protocol::{
    Timestamp,
    handoff::{Item, Reason},
    verdict::Finding,
    work::EndReason,
};
use ronde_state::{event::RunEvent, run::RunState};

use super::{
    act::{Run, put_branch},
    prompt,
};
use crate::wiring;

/// Opens an item, with the work so far on a branch where there is any.
pub(super) async fn ask(
    run: &Run,
    state: &RunState,
    question: u32,
    reason: Reason,
) -> Result<Vec<RunEvent>, String> {
    let handoff = &run.frozen.definition.handoff;
    let branch = if state.changed() && run.frozen.definition.workspace.deliver == Deliver::Branch {
        let branch = wiring::branch::so_far(&run.id, question);
        put_branch(
            run,
            state,
            &branch,
            &format!("ronde: {} (unverified)", run.firing.loop_name),
        )
        .await?;
        Some(branch)
    } else {
        None
    };
    // The same question after a crash is the same item: its time is that of the run's last record.
    let opened = state.last;
    let expires = handoff
        .timeout
        .and_then(|timeout| jiff::SignedDuration::try_from(timeout).ok())
        .and_then(|timeout| opened.checked_add(timeout).ok());
    let item = item(
        run,
        state,
        question,
        reason,
        branch.clone(),
        opened,
        expires,
    );
    let item = run.shared.handoff.ask(item, handoff.notify.clone()).await?;
    Ok(vec![match reason {
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
    }])
}

fn item(
    run: &Run,
    state: &RunState,
    question: u32,
    reason: Reason,
    branch: Option<String>,
    opened: Timestamp,
    expires: Option<Timestamp>,
) -> Item {
    let last = state.attempt();
    let end = last.and_then(|attempt| attempt.end.as_ref());
    let verdict = last
        .and_then(|attempt| attempt.verdict.as_ref())
        .or(state.baseline.as_ref());
    let seen = verdict.map(prompt::evidence).unwrap_or_default();
    let failure = state
        .failure
        .as_ref()
        .map(|(step, error)| format!("{}: {error}\n", step.id()));
    let (title, evidence, action) = match (reason, end.map(|end| &end.reason)) {
        (Reason::Question, Some(EndReason::Question { text })) => {
            (first_line(text), text.clone(), None)
        }
        (Reason::Approval, Some(EndReason::Approval { text, action })) => {
            (format!("may it? {}", first_line(text)), text.clone(), Some(action.clone()))
        }
        (Reason::UnknownEffect, Some(EndReason::Unknown { error })) => {
            ("nobody saw how the worker ended".to_owned(), error.clone(), None)
        }
        (Reason::UnknownEffect, _) => (
            "nobody saw how the worker ended".to_owned(),
            "ronde died while the worker was at work, and the worker can reach beyond its workspace: \
             what it did there is not known. Look, then approve to let it work again."
                .to_owned(),
            None,
        ),
        (Reason::CheckBroken, _) => {
            ("a check could not be run".to_owned(), failure.unwrap_or_default() + &seen, None)
        }
        (Reason::Budget, Some(EndReason::Limit { limit })) => {
            (format!("the limit of {limit} is reached"), seen, None)
        }
        (Reason::Budget, _) => ("a limit is reached".to_owned(), seen, None),
        _ if verdict.is_some_and(|verdict| !verdict.protected.is_empty()) => {
            ("a protected path was changed".to_owned(), seen, None)
        }
        _ => ("the checks still fail".to_owned(), seen, None),
    };
    Item {
        key: format!("{}/{question}", run.id),
        run: run.id.clone(),
        project: run.firing.project.clone(),
        loop_name: run.firing.loop_name.clone(),
        reason,
        title,
        evidence,
        branch,
        tried: tried(state),
        action,
        opened,
        expires,
        blocks: reason != Reason::Budget,
    }
}

fn first_line(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(120)
        .collect()
}

/// One line an attempt: how it ended, what it touched, what the verdict was.
fn tried(state: &RunState) -> Vec<String> {
    state
        .attempts
        .iter()
        .map(|attempt| {
            let paths = attempt
                .snapshot
                .as_ref()
                .map_or(0, |(_, paths)| paths.len());
            let verdict = attempt
                .verdict
                .as_ref()
                .map_or("not judged".to_owned(), |verdict| {
                    let changed = verdict.protected.iter();
                    let changed = changed.map(|path| format!("protected path {path} changed"));
                    let failed = verdict
                        .checks
                        .iter()
                        .filter(|check| check.finding != Finding::Pass)
                        .map(|check| format!("{} {}", check.name, check.exit));
                    let failed: Vec<_> = changed.chain(failed).collect();
                    if failed.is_empty() {
                        "passed".to_owned()
                    } else {
                        failed.join(", ")
                    }
                });
            let claim = attempt
                .end
                .as_ref()
                .map(|end| first_line(end.claim.trim()))
                .unwrap_or_default();
            format!(
                "attempt {}: {paths} paths changed; {verdict}; claimed: {claim}",
                attempt.number
            )
        })
        .collect()
}
