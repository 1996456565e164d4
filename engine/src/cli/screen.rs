//! Events as lines for people, or as JSON. On a terminal a last line says what goes on right now.

use std::{io::IsTerminal as _, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use owo_colors::{OwoColorize as _, Style};
use ronde_loops::Limits;
use ronde_protocol::{
    MicroUsd, Usage,
    outcome::Outcome,
    verdict::Finding,
    work::{EndReason, Progress},
};

use crate::event::{Event, What};

/// Where events go.
pub(crate) struct Screen {
    json: bool,
    bar: ProgressBar,
    attempt: u32,
    iterations: u32,
    usage: Usage,
    doing: String,
    limits: Option<Limits>,
}

impl Screen {
    /// A screen on stdout.
    pub(crate) fn new(json: bool) -> Self {
        let live = !json && std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        let bar = if live {
            ProgressBar::new_spinner()
        } else {
            ProgressBar::hidden()
        };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        if live {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Self {
            json,
            bar,
            attempt: 0,
            iterations: 0,
            usage: Usage::default(),
            doing: String::new(),
            limits: None,
        }
    }

    /// Says of how much is spent.
    pub(crate) fn limits(&mut self, limits: Option<Limits>) {
        self.limits = limits;
    }

    /// Shows one event.
    pub(crate) fn show(&mut self, event: &Event) {
        if self.json {
            if let Ok(line) = serde_json::to_string(event) {
                say!("{line}");
            }
            return;
        }
        self.count(&event.what);
        if let Some(line) = line(&event.what) {
            self.bar.suspend(|| say!("{line}"));
        }
        self.tick();
    }

    /// Says something that is no event.
    pub(crate) fn note(&self, text: &str) {
        self.bar.suspend(|| anstream::eprintln!("{text}"));
    }

    /// Draws the last line anew.
    pub(crate) fn tick(&self) {
        let mut parts = Vec::new();
        let limits = self.limits.as_ref();
        let of = |limit: Option<String>| limit.map(|limit| format!("/{limit}")).unwrap_or_default();
        if self.attempt > 0 {
            let most = of(limits.map(|limits| limits.attempts.to_string()));
            parts.push(format!("attempt {}{most}", self.attempt));
        }
        if self.iterations > 0 {
            let most = of(limits.map(|limits| limits.iterations.to_string()));
            parts.push(format!("iteration {}{most}", self.iterations));
        }
        let spent = self.usage.amount();
        if spent.tokens > 0 {
            let most = of(limits
                .and_then(|limits| limits.tokens)
                .map(|most| most.to_string()));
            parts.push(format!("{}{most} tokens", spent.tokens));
        }
        if spent.cost > MicroUsd(0) {
            let most = of(limits
                .and_then(|limits| limits.cost)
                .map(|most| most.to_string()));
            parts.push(format!("{}{most}", spent.cost));
        }
        parts.push(self.doing.clone());
        self.bar.set_message(parts.join(" · "));
    }

    /// Takes the last line away.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn count(&mut self, what: &What) {
        match what {
            What::StepStarted { step } => self.doing = doing(step),
            What::AttemptStarted { attempt, worker } => {
                self.attempt = *attempt;
                self.doing = format!("worker {worker} works");
            }
            What::CallStarted {
                iteration, model, ..
            } => {
                self.iterations = *iteration;
                self.doing = format!("asking {model}");
            }
            What::CallEnded { usage, .. } => self.usage = self.usage.plus(*usage),
            What::ToolStarted { summary, .. } => self.doing.clone_from(summary),
            What::Check {
                name,
                finding: None,
                ..
            } => self.doing = format!("check {name}"),
            What::Progress {
                progress: Progress::Output { bytes },
                ..
            } => {
                self.doing = format!("the worker works ({bytes} bytes of output)");
            }
            _ => {}
        }
    }
}

fn doing(step: &str) -> String {
    match step.split('/').next() {
        Some("prepare") => "making the workspace".to_owned(),
        Some("snapshot") => "writing down what the worker left".to_owned(),
        Some("verify") => "verifying".to_owned(),
        Some("deliver") => "delivering".to_owned(),
        Some("ask") => "asking a person".to_owned(),
        _ => step.to_owned(),
    }
}

/// An event in one line; none for those that only move the last line.
fn line(what: &What) -> Option<String> {
    let bold = Style::new().bold();
    let dim = Style::new().dimmed();
    Some(match what {
        What::RunStarted { r#loop, .. } => format!("{} of loop {loop}", "run started".style(bold)),
        What::RunWoken { reason } => format!("taken up again ({})", word(reason)),
        What::StepFailed { step, error } => {
            format!("{} {step}: {error}", "could not".style(Style::new().red()))
        }
        What::Prepared { base, branch } => {
            let base = base.get(..12).unwrap_or(base);
            let of = branch
                .as_deref()
                .map(|branch| format!(" ({branch})"))
                .unwrap_or_default();
            format!("workspace at {base}{of}")
        }
        What::AttemptStarted { attempt, worker } => {
            format!("{} by {worker}", format!("attempt {attempt}").style(bold))
        }
        What::ToolStarted { summary, .. } => format!("  {}", summary.style(dim)),
        What::CallEnded {
            error: Some(error), ..
        } => format!("  model: {error}"),
        What::AttemptEnded {
            attempt,
            reason,
            claim,
            ..
        } => {
            let end = end(reason);
            let claim = claim
                .lines()
                .rfind(|line| !line.trim().is_empty())
                .unwrap_or_default();
            let claim: String = claim.chars().take(100).collect();
            let claim = if claim.is_empty() {
                claim
            } else {
                format!(", claims: {claim}")
            };
            format!("attempt {attempt} {end}{claim}")
        }
        What::Snapshot { changed, .. } => match changed.as_slice() {
            [] => "nothing changed".to_owned(),
            [one] => format!("changed {one}"),
            [first, rest @ ..] => format!("changed {first} and {} more", rest.len()),
        },
        What::Verdict {
            attempt,
            finding,
            checks,
            protected,
            ..
        } => {
            let of = if *attempt == 0 {
                "the base".to_owned()
            } else {
                format!("attempt {attempt}")
            };
            let mut text = format!("verdict on {of}: {}", finding_word(*finding));
            for path in protected {
                text.push_str(&format!("\n  protected path changed: {path}"));
            }
            for check in checks {
                text.push_str(&format!(
                    "\n  {} {} ({}, {})",
                    finding_word(check.finding),
                    check.name,
                    check.exit,
                    took(check.duration_ms)
                ));
            }
            text
        }
        What::Waiting { item, reason, .. } => {
            format!(
                "{} item {item} ({reason})",
                "waits for a person:".style(bold)
            )
        }
        What::Noticed { item, reason, .. } => format!("item {item} tells a person ({reason})"),
        What::Answered { item } => format!("item {item} is answered"),
        What::Delivered {
            branch: Some(branch),
            ..
        } => format!("delivered on branch {branch}"),
        What::TimeUp => "the time is up".to_owned(),
        What::StopRequested => "stopping".to_owned(),
        What::RunEnded {
            outcome, reason, ..
        } => {
            format!("{}: {reason}", outcome_word(*outcome))
        }
        What::Delivered { branch: None, .. }
        | What::StepStarted { .. }
        | What::CallStarted { .. }
        | What::CallEnded { .. }
        | What::ToolEnded { .. }
        | What::Check { .. }
        | What::Progress { .. } => return None,
    })
}

fn word<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn end(reason: &EndReason) -> String {
    match reason {
        EndReason::Finished => "ended".to_owned(),
        EndReason::Limit { limit } => format!("reached the limit of {limit}"),
        EndReason::Stopped => "was stopped".to_owned(),
        EndReason::Question { text } => format!("asks: {}", first(text)),
        EndReason::Approval { text, .. } => format!("needs a yes: {}", first(text)),
        EndReason::Failed { error } => format!("failed: {error}"),
        EndReason::Unstartable { error } => format!("could not start: {error}"),
        EndReason::Unknown { error } => format!("ended, nobody knows how: {error}"),
    }
}

/// The first line; the whole is in the inbox.
fn first(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// `pass`, `fail` or `unknown`, in its colour.
pub(crate) fn finding_word(finding: Finding) -> String {
    match finding {
        Finding::Pass => "pass".style(Style::new().green()).to_string(),
        Finding::Fail => "fail".style(Style::new().red()).to_string(),
        Finding::Unknown => "unknown".style(Style::new().yellow()).to_string(),
    }
}

fn outcome_word(outcome: Outcome) -> String {
    let style = match outcome {
        Outcome::Done => Style::new().green().bold(),
        Outcome::Failed => Style::new().red().bold(),
        _ => Style::new().yellow().bold(),
    };
    outcome.style(style).to_string()
}

/// A duration for people.
pub(crate) fn took(ms: u64) -> String {
    let (seconds, minutes, hours) = (ms / 1_000, ms / 60_000, ms / 3_600_000);
    let two = |large: u64, unit: &str, small: u64, less: &str| match small {
        0 => format!("{large} {unit}"),
        small => format!("{large} {unit} {small} {less}"),
    };
    match () {
        () if seconds == 0 => format!("{ms} ms"),
        () if minutes < 2 => format!("{seconds}.{} s", ms % 1_000 / 100),
        () if hours < 1 => two(minutes, "min", seconds % 60, "s"),
        () => two(hours, "h", minutes % 60, "min"),
    }
}

#[cfg(test)]
mod tests {
    use super::took;

    #[test]
    fn durations_as_people_say_them() {
        let table = [
            (5, "5 ms"),
            (1_250, "1.2 s"),
            (90_000, "90.0 s"),
            (185_000, "3 min 5 s"),
            (7_200_000, "2 h"),
            (9_000_000, "2 h 30 min"),
        ];
        for (ms, want) in table {
            assert_eq!(took(ms), want);
        }
    }
}
