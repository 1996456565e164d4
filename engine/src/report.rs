//! The report of a run: claim, artefact, observation, scope. Made from the journal alone, and careful to
//! keep three ends apart: the worker finished, ronde stopped it, the goal is reached.

use std::{fmt::Write as _, path::Path, time::Duration};

use ronde_loops::Limits;
use ronde_protocol::{RunId, outcome::Outcome, verdict::Finding};
use ronde_state::{local::LocalReader, run::RunState};

use crate::{
    cli::took,
    frozen::Frozen,
    handle::{Refusal, RefusalKind},
};

/// The state of a run, read beside whoever owns the home.
pub(crate) fn state(reader: &LocalReader, run: &RunId) -> Result<RunState, Refusal> {
    let records = reader.read_run(run, 1)?;
    RunState::fold(&records)
        .map_err(|error| {
            Refusal::new(
                RefusalKind::Failed,
                format!("the journal of {run}: {error}"),
            )
        })?
        .ok_or_else(|| {
            Refusal::new(
                RefusalKind::Missing,
                format!("run {run} has no journal yet"),
            )
        })
}

/// The report of a run of a home.
pub(crate) fn of_run(home: &Path, run: &RunId) -> Result<String, Refusal> {
    let reader = LocalReader::open(home)?;
    let state = state(&reader, run)?;
    let frozen = definition(&reader, &state);
    let repo = frozen.as_ref().map(|frozen| {
        crate::wiring::repository(frozen, home)
            .display()
            .to_string()
    });
    let limits = frozen.as_ref().map(|frozen| &frozen.definition.limits);
    Ok(compose(&state, repo.as_deref(), limits))
}

/// The definition a run goes by, where it can still be read.
fn definition(reader: &LocalReader, state: &RunState) -> Option<Frozen> {
    let bytes = reader.get_artefact(&state.firing.definition).ok()?;
    Frozen::load(&bytes).ok()
}

/// The limits of a run, where they can be read.
pub(crate) fn limits_of(home: &Path, run: &RunId) -> Option<Limits> {
    let reader = LocalReader::open(home).ok()?;
    let state = state(&reader, run).ok()?;
    Some(definition(&reader, &state)?.definition.limits)
}

/// The report in words.
pub(crate) fn compose(state: &RunState, repo: Option<&str>, limits: Option<&Limits>) -> String {
    let mut text = String::new();
    let outcome = state
        .outcome()
        .map_or_else(|| "at work".to_owned(), |outcome| outcome.to_string());
    let reason = crate::event::rest_reason(state);
    let _infallible = writeln!(text, "\nrun          {} ({outcome})", state.firing.run);
    if !reason.is_empty() {
        let _infallible = writeln!(text, "             {reason}");
    }
    claim(&mut text, state);
    artefact(&mut text, state, repo);
    observation(&mut text, state);
    scope(&mut text, state);
    row(&mut text, "budget", &budget(state, limits), 1);
    if state.interrupted {
        let _infallible = writeln!(text, "next         ronde continue {}", state.firing.run);
    }
    if let Some(waiting) = &state.waiting {
        let item = waiting.item;
        let _infallible = writeln!(
            text,
            "next         ronde inbox show {item}, then ronde answer {item} \"…\""
        );
    }
    text
}

fn claim(text: &mut String, state: &RunState) {
    let said = state.attempt().and_then(|attempt| attempt.end.as_ref());
    let said = match said {
        // The end of what it said: that is where a worker sums up.
        Some(end) if !end.claim.trim().is_empty() => {
            let lines: Vec<_> = end.claim.trim().lines().collect();
            lines[lines.len().saturating_sub(3)..].join("\n")
        }
        Some(_) => "the worker said nothing".to_owned(),
        None => "no worker has finished".to_owned(),
    };
    row(text, "claim", &said, 3);
}

fn artefact(text: &mut String, state: &RunState, repo: Option<&str>) {
    let repo = repo.unwrap_or("the repository");
    let delivered = state
        .delivered
        .as_ref()
        .and_then(|delivered| delivered.branch.as_deref());
    match (delivered, &state.branch) {
        (Some(branch), _) => {
            row(text, "artefact", &format!("branch {branch} in {repo}"), 1);
            look(text, state, branch, repo);
        }
        (None, Some(branch)) => {
            row(
                text,
                "artefact",
                &format!("unverified work on branch {branch} in {repo}"),
                1,
            );
            look(text, state, branch, repo);
        }
        (None, None) => row(text, "artefact", "none", 1),
    }
}

fn look(text: &mut String, state: &RunState, branch: &str, repo: &str) {
    let base = state
        .prepared
        .as_ref()
        .map_or("HEAD", |prepared| prepared.base.as_str());
    let base = base.get(..12).unwrap_or(base);
    let _infallible = writeln!(
        text,
        "             look: git -C {repo} diff {base}..{branch}"
    );
}

fn observation(text: &mut String, state: &RunState) {
    let verdict = state
        .attempts
        .iter()
        .rev()
        .find_map(|attempt| attempt.verdict.as_ref())
        .or(state.baseline.as_ref());
    let Some(verdict) = verdict else {
        row(text, "observation", "no check has been run", 1);
        return;
    };
    let mut seen = String::new();
    // What was observed may be older than what there is to look at.
    let judged = &verdict.tree;
    if state.tree().is_some_and(|tree| tree != judged) {
        let judged = judged.as_str().get(..12).unwrap_or(judged.as_str());
        let _infallible = writeln!(
            seen,
            "of an earlier tree, {judged}; the last one is not judged"
        );
    }
    for path in &verdict.protected {
        let _infallible = writeln!(seen, "protected path changed: {path}");
    }
    for check in &verdict.checks {
        let word = match check.finding {
            Finding::Pass => "pass",
            Finding::Fail => "fail",
            Finding::Unknown => "unknown",
        };
        let flaky = match check.passes {
            Some((passes, runs)) if passes > 0 && passes < runs => {
                format!(", flaky: {passes} of {runs}")
            }
            _ => String::new(),
        };
        let _infallible = writeln!(
            seen,
            "{word}  {}: `{}` ({}{flaky})",
            check.name, check.run, check.exit
        );
    }
    row(text, "observation", seen.trim_end(), usize::MAX);
}

fn scope(text: &mut String, state: &RunState) {
    let base = state.prepared.as_ref().map_or_else(
        || "no workspace".to_owned(),
        |prepared| {
            let commit = prepared.base.as_str();
            let of = prepared
                .branch
                .as_deref()
                .map(|branch| format!(" ({branch})"))
                .unwrap_or_default();
            format!("base {}{of}", commit.get(..12).unwrap_or(commit))
        },
    );
    let tree = state.tree().map(|tree| {
        format!(
            ", tree {}",
            tree.as_str().get(..12).unwrap_or(tree.as_str())
        )
    });
    let _infallible = writeln!(
        text,
        "scope        {base}{}, definition {}",
        tree.unwrap_or_default(),
        state
            .firing
            .definition
            .as_str()
            .get(..8)
            .unwrap_or_default()
    );
    let changed: usize = state
        .attempt()
        .and_then(|a| a.snapshot.as_ref())
        .map_or(0, |(_, paths)| paths.len());
    let _infallible = writeln!(text, "             {changed} paths changed");
    if state.outcome() == Some(Outcome::Done) && !state.changed() {
        text.push_str("             nothing had to change\n");
    }
}

/// What was spent, and of how much.
fn budget(state: &RunState, limits: Option<&Limits>) -> String {
    let spent = state.usage.amount();
    let of = |value: String, limit: Option<String>| match limit {
        Some(limit) => format!("{value} of {limit}"),
        None => value,
    };
    let millis = |time: Duration| took(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let parts = [
        (
            "attempts",
            state.attempts.len().to_string(),
            limits.map(|l| l.attempts.to_string()),
        ),
        (
            "iterations",
            state.iterations.to_string(),
            limits.map(|l| l.iterations.to_string()),
        ),
        (
            "tokens",
            spent.tokens.to_string(),
            limits.and_then(|l| l.tokens).map(|l| l.to_string()),
        ),
        (
            "cost",
            spent.cost.to_string(),
            limits.and_then(|l| l.cost).map(|l| l.to_string()),
        ),
        ("time", millis(state.active), limits.map(|l| millis(l.time))),
    ];
    let parts = parts.map(|(name, value, limit)| format!("{name} {}", of(value, limit)));
    parts.join(", ")
}

/// A row whose value is cut to some lines and hangs under its name.
fn row(text: &mut String, name: &str, value: &str, lines: usize) {
    for (number, line) in value.lines().take(lines).enumerate() {
        let name = if number == 0 { name } else { "" };
        let _infallible = writeln!(text, "{name:<12} {line}");
    }
}
