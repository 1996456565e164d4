//! What a run does next: a pure function of its rules and its state, total over both. It performs
//! nothing, reads no clock and knows no actor; the coordinator journals what it says and then does it.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use ronde_protocol::{
    WorkerName,
    handoff::{Answer, Reason},
    outcome::{Limit, Outcome},
    verdict::Finding,
    work::EndReason,
};
use ronde_state::{
    event::Step,
    run::{Attempt, RunState},
};

/// The part of a loop's definition that decides how a run goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rules {
    /// The worker.
    pub(crate) worker: WorkerName,
    /// Attempts, counted anew after each answer; at least 1.
    pub(crate) attempts: u32,
    /// Model calls of the whole run.
    pub(crate) iterations: u32,
    /// Time at work of the whole run.
    pub(crate) time: Duration,
    /// Whether the base is judged first.
    pub(crate) skip_if_green: bool,
    /// Whether a result is put into the repository.
    pub(crate) deliver: bool,
    /// What a person is asked about.
    pub(crate) asks: BTreeSet<Reason>,
    /// Whether all that a worker can do stays in its workspace: only then may an attempt nobody saw
    /// the end of be done again without asking.
    pub(crate) contained: bool,
}

/// One thing to do. Equal states give equal actions, and a step's [`Step::id`] names its action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Take a step: journal that it begins, then begin it.
    Take(Step),
    /// Make the work under way stop; its end is journaled as it comes.
    StopWork,
    /// Wake the run at this instant to say that its time is up.
    Deadline(Timestamp),
    /// End the run.
    End {
        /// How.
        outcome: Outcome,
        /// Whether the delivered tree differs from the base.
        changed: bool,
        /// Why, in one line.
        reason: String,
    },
}

/// What the run does next. Empty while it rests, has ended, or only waits for a step under way.
pub(crate) fn next(rules: &Rules, state: &RunState) -> Vec<Action> {
    if state.outcome().is_some() {
        return Vec::new();
    }
    let working = state
        .in_flight
        .iter()
        .any(|step| matches!(step, Step::Attempt { .. }));
    if state.stop_requested {
        return if state.in_flight.is_empty() {
            vec![end(state, Outcome::Cancelled, "a person stopped it")]
        } else {
            vec![Action::StopWork]
        };
    }
    if !state.in_flight.is_empty() {
        // What is under way goes on; only a worker is stopped when time is up. A verification is
        // not: the goal may be reached, and it has limits of its own.
        return match (state.time_up, working) {
            (true, true) => vec![Action::StopWork],
            (true, false) => Vec::new(),
            (false, _) => deadline(rules, state).into_iter().collect(),
        };
    }
    let mut actions = vec![decide(rules, state)];
    if !matches!(actions[0], Action::End { .. }) && !state.time_up {
        actions.extend(deadline(rules, state));
    }
    actions
}

/// The instant at which the run's time is used up.
fn deadline(rules: &Rules, state: &RunState) -> Option<Action> {
    let left = rules.time.saturating_sub(state.active);
    let left = jiff::SignedDuration::try_from(left).ok()?;
    Some(Action::Deadline(
        state.active_since?.checked_add(left).ok()?,
    ))
}

/// The next step of a run at which nothing is under way.
fn decide(rules: &Rules, state: &RunState) -> Action {
    if let Some(action) = refused(state) {
        return action;
    }
    if let Some((step, error)) = &state.failure {
        return match step {
            // A verification that could not take place says nothing about the tree.
            Step::Verify { .. } => ask(rules, state, Reason::CheckBroken, error),
            _ => end(state, Outcome::Failed, &format!("{}: {error}", step.id())),
        };
    }
    if let Some(question) = begun(state) {
        return Action::Take(question);
    }
    let Some(prepared) = &state.prepared else {
        return Action::Take(Step::Prepare);
    };
    let Some(attempt) = state.attempt() else {
        return match &state.baseline {
            None if rules.skip_if_green => Action::Take(Step::Verify { attempt: 0 }),
            Some(verdict) if verdict.finding == Finding::Pass => {
                end(state, Outcome::Done, "every check holds on the base")
            }
            Some(verdict) if verdict.finding == Finding::Unknown => ask(
                rules,
                state,
                Reason::CheckBroken,
                "a check cannot be run on the base",
            ),
            _ => start(rules, state, 1),
        };
    };
    let step = Step::Attempt {
        attempt: attempt.number,
        worker: attempt.worker.clone(),
    };
    let Some(ended) = &attempt.end else {
        if state.lost.contains(&step) && !rules.contained {
            return ask(
                rules,
                state,
                Reason::UnknownEffect,
                "nobody saw how the worker ended",
            );
        }
        if state.time_up {
            return limit(rules, state, Limit::Time);
        }
        return Action::Take(step);
    };
    match &ended.reason {
        EndReason::Unstartable { error } => {
            return end(
                state,
                Outcome::Failed,
                &format!("the worker cannot start: {error}"),
            );
        }
        EndReason::Unknown { error } if !rules.contained => {
            return ask(rules, state, Reason::UnknownEffect, error);
        }
        _ => {}
    }
    let Some((tree, _)) = &attempt.snapshot else {
        return Action::Take(Step::Snapshot {
            attempt: attempt.number,
            worker: attempt.worker.clone(),
        });
    };
    // A question comes before a verdict: the worker has not finished. Its answer makes a new attempt.
    let question = match &ended.reason {
        EndReason::Question { text } => Some((Reason::Question, text)),
        EndReason::Approval { text, .. } => Some((Reason::Approval, text)),
        _ => None,
    };
    if let Some((reason, text)) = question {
        return if state.answers.len() > attempt.answers_before {
            again(rules, state, attempt)
        } else {
            ask(rules, state, reason, text)
        };
    }
    let Some(verdict) = &attempt.verdict else {
        return Action::Take(Step::Verify {
            attempt: attempt.number,
        });
    };
    match verdict.finding {
        Finding::Pass if *tree == prepared.tree => end(
            state,
            Outcome::Done,
            "every check holds, and nothing had to change",
        ),
        Finding::Pass if rules.deliver && state.delivered.is_none() => Action::Take(Step::Deliver),
        Finding::Pass => end(state, Outcome::Done, "every check holds"),
        Finding::Unknown => ask(
            rules,
            state,
            Reason::CheckBroken,
            "a check could not be run",
        ),
        Finding::Fail => match &ended.reason {
            EndReason::Limit { limit: which } => limit(rules, state, *which),
            _ => again(rules, state, attempt),
        },
    }
}

/// The question that a process which is gone had begun to ask: its item may be in the inbox, and asking
/// anything else under its number would be taken for it.
fn begun(state: &RunState) -> Option<Step> {
    let mut lost = state.lost.iter();
    lost.find(|step| matches!(step, Step::Ask { question, .. } if *question == state.asked + 1))
        .cloned()
}

/// What comes after an attempt that did not reach the goal.
fn again(rules: &Rules, state: &RunState, attempt: &Attempt) -> Action {
    if state.time_up {
        return limit(rules, state, Limit::Time);
    }
    let since: Vec<_> = state
        .attempts_since_answer()
        .filter(|a| a.verdict.is_some())
        .collect();
    if let [.., before, last] = since.as_slice()
        && let (Some(before), Some(last)) = (&before.verdict, &last.verdict)
        && before.same_as(last)
    {
        return ask(
            rules,
            state,
            Reason::Stuck,
            "the same verdict on the same tree twice",
        );
    }
    if since.len() >= usize::try_from(rules.attempts).unwrap_or(usize::MAX) {
        return ask(rules, state, Reason::Stuck, "the attempts are used up");
    }
    start(rules, state, attempt.number + 1)
}

fn start(rules: &Rules, state: &RunState, number: u32) -> Action {
    if state.time_up {
        return limit(rules, state, Limit::Time);
    }
    if state.iterations >= rules.iterations {
        return limit(rules, state, Limit::Iterations);
    }
    Action::Take(Step::Attempt {
        attempt: number,
        worker: rules.worker.clone(),
    })
}

/// A person's no ends the run, but for an approval, which is only refused.
fn refused(state: &RunState) -> Option<Action> {
    let last = state.answers.last()?;
    match (&last.answer, last.reason) {
        (Answer::Close, _) => Some(end(state, Outcome::Cancelled, "a person closed it")),
        (Answer::Deny, Reason::Approval) => None,
        (Answer::Deny, _) => Some(end(state, Outcome::Cancelled, "a person said no")),
        (Answer::Expired, _) => Some(end(state, Outcome::Stopped, "nobody answered in time")),
        (Answer::Text { .. } | Answer::Approve, _) => None,
    }
}

/// Asks a person, or ends the run where the loop wants nobody asked.
fn ask(rules: &Rules, state: &RunState, reason: Reason, why: &str) -> Action {
    if rules.asks.contains(&reason) {
        return Action::Take(Step::Ask {
            question: state.asked + 1,
            reason,
        });
    }
    let outcome = match reason {
        Reason::Stuck | Reason::Budget | Reason::Question | Reason::Approval => Outcome::Stopped,
        Reason::UnknownEffect | Reason::CheckBroken => Outcome::Failed,
    };
    end(state, outcome, &format!("{reason}: {why}"))
}

/// Ends the run at a limit, after telling a person where the loop wants that.
fn limit(rules: &Rules, state: &RunState, which: Limit) -> Action {
    let told = state
        .notices
        .iter()
        .any(|(_, reason)| *reason == Reason::Budget);
    if rules.asks.contains(&Reason::Budget) && !told {
        return Action::Take(Step::Ask {
            question: state.asked + 1,
            reason: Reason::Budget,
        });
    }
    end(
        state,
        Outcome::Stopped,
        &format!("the limit of {which} is reached"),
    )
}

fn end(state: &RunState, outcome: Outcome, reason: &str) -> Action {
    let changed = outcome == Outcome::Done && state.changed();
    Action::End {
        outcome,
        changed,
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests;
