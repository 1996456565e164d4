//! The checked stage of a loop file: what its keys mean together, with every default filled in.

mod trigger;
mod worker;

use std::{ops::Range, path::Path, time::Duration};

use ronde_protocol::{
    CheckName, LoopName,
    handoff::Reason,
    verdict::{Check, Repeat},
};

use crate::{
    definition::{
        DayLimits, Definition, Deliver, Goal, HandoffSpec, Isolation, Limits, Overlap, WorkerSpec,
        WorkspaceSpec,
    },
    diagnostic::{Errors, Findings, diagnostic},
    goal,
    keys::LOOP,
    read::{At, Raw, quoted, read},
    validators::{Refusal, Validators},
};

const ATTEMPTS: u32 = 5;
const ITERATIONS: u32 = 100;
const TOKENS: u64 = 2_000_000;
const TIME: Duration = Duration::from_secs(2 * 3600);
const CHECK_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// The most runs of one check.
const REPEATS: u64 = 100;

/// Reads and checks a loop file. `file` only names it in messages.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file.
pub fn parse(text: &[u8], file: &Path, validators: &dyn Validators) -> Result<Definition, Errors> {
    let text = decode(text, file)?;
    let mut findings = Findings::new(file, text);
    let raw = read(&LOOP, &mut findings);
    let mut checker = Checker {
        findings,
        validators,
    };
    let definition = raw.and_then(|raw| checker.definition(&raw));
    match checker.findings.into_errors() {
        Some(errors) => Err(errors),
        None => Ok(definition.expect("a part is only left out with an error")),
    }
}

/// The text of a file.
pub(crate) fn decode<'t>(text: &'t [u8], file: &Path) -> Result<&'t str, Errors> {
    std::str::from_utf8(text).map_err(|error| {
        let at = error.valid_up_to();
        let before = std::str::from_utf8(&text[..at]).unwrap_or_default();
        let byte = text.get(at).copied().unwrap_or_default();
        Errors(vec![diagnostic(
            file,
            before,
            at..at,
            format!("the file is not UTF-8: byte 0x{byte:02x}"),
            Some("save it as UTF-8".to_owned()),
        )])
    })
}

/// The errors found so far, and who knows what this crate does not.
pub(crate) struct Checker<'a> {
    pub(crate) findings: Findings<'a>,
    pub(crate) validators: &'a dyn Validators,
}

impl Checker<'_> {
    fn error(
        &mut self,
        span: &Range<usize>,
        message: impl Into<String>,
        hint: impl Into<Option<String>>,
    ) {
        self.findings.error(span, message, hint);
    }

    /// Notes a refusal of a string of the file, at its place inside the string.
    fn refuse(&mut self, text: &At<String>, refusal: Refusal) {
        let span = match &refusal.span {
            Some(inner) => self.inside(text, inner),
            None => text.span.clone(),
        };
        self.error(&span, refusal.message, refusal.hint);
    }

    /// The place of a part of a string; of the whole string where it is written with escapes.
    fn inside(&self, text: &At<String>, part: &Range<usize>) -> Range<usize> {
        let written = self.findings.text().get(text.span.clone());
        match written.and_then(|written| written.find(&text.value)) {
            Some(start) => {
                let start = text.span.start + start;
                start + part.start..start + part.end
            }
            None => text.span.clone(),
        }
    }

    fn definition(&mut self, raw: &Raw) -> Option<Definition> {
        let name = raw.text("name").and_then(|name| self.loop_name(&name));
        let state_files = self.state_files(raw.table("state"));
        let goal = self.goal(raw, &state_files);
        let triggers = self.triggers(raw);
        let workspace = self.workspace(raw.table("workspace"));
        let worker = self.worker(raw);
        let checks = self.checks(raw);
        let limits = self.limits(raw.table("budget"), worker.as_ref());
        let handoff = self.handoff(raw.table("handoff"));
        if let (Some(worker), Some(handoff)) = (&worker, &handoff) {
            self.waits_for_somebody(raw, worker, handoff);
        }
        Some(Definition {
            name: name?,
            description: raw.text("description").map(|text| text.value),
            goal: goal?,
            enabled: raw.flag("enabled").is_none_or(|flag| flag.value),
            overlap: Overlap::Skip,
            skip_if_green: raw.flag("skip_if_green").is_some_and(|flag| flag.value),
            triggers,
            workspace,
            worker: worker?,
            checks,
            limits,
            handoff: handoff?,
            state_files,
        })
    }

    fn loop_name(&mut self, name: &At<String>) -> Option<LoopName> {
        match LoopName::new(&name.value) {
            Ok(name) => Some(name),
            Err(error) => {
                let hint = "for example `nightly-green`".to_owned();
                self.error(&name.span, error.to_string(), hint);
                None
            }
        }
    }

    fn goal(&mut self, raw: &Raw, state_files: &[String]) -> Option<Goal> {
        if let (Some(_), Some(second)) = (raw.mention("goal"), raw.mention("goal_file")) {
            let second = second.clone();
            self.error(
                &second,
                "`goal` and `goal_file` exclude each other",
                "keep one".to_owned(),
            );
            return None;
        }
        if let Some(file) = raw.text("goal_file") {
            return Some(Goal::File(file.value));
        }
        if raw.mention("goal").is_none() && raw.mention("goal_file").is_none() {
            let hint = "add `goal = \"…\"`: what the worker is asked to reach".to_owned();
            self.error(&raw.span, "missing key `goal`", hint);
        }
        let text = raw.text("goal")?;
        for refusal in goal::check(&text.value, state_files) {
            self.refuse(&text, refusal);
        }
        Some(Goal::Text(text.value))
    }

    fn state_files(&mut self, state: Option<&Raw>) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let Some(files) = state.and_then(|state| state.texts("files")) else {
            return names;
        };
        for file in files.value {
            let name = &file.value;
            if name.contains(['/', '\\']) || name == "." || name == ".." || name.len() > 255 {
                let message = format!("state file {} is not the name of a file", quoted(name));
                self.error(
                    &file.span,
                    message,
                    "a name without folders: `NOTES.md`".to_owned(),
                );
            } else if names.contains(name) {
                self.error(
                    &file.span,
                    format!("state file `{name}` is listed twice"),
                    None,
                );
            } else {
                names.push(file.value);
            }
        }
        names
    }

    fn workspace(&mut self, raw: Option<&Raw>) -> WorkspaceSpec {
        let text = |key: &str| Some(raw?.text(key)?.value);
        if let Some(raw) = raw
            && raw.mention("seed").is_some()
        {
            for key in ["repo", "base", "fetch"] {
                if let Some(span) = raw.mention(key) {
                    let span = span.clone();
                    let message = format!("`{key}` has no meaning with `seed`");
                    let hint = "a seed is a repository of its own: leave one of the two out";
                    self.error(&span, message, hint.to_owned());
                }
            }
        }
        let deliver = raw
            .and_then(|raw| raw.word("deliver"))
            .map(|word| word.value);
        let mut protect = Vec::new();
        for pattern in raw
            .and_then(|raw| raw.texts("protect"))
            .map(|list| list.value)
            .unwrap_or_default()
        {
            if let Err(refusal) = self.validators.glob(&pattern.value) {
                self.refuse(&pattern, refusal);
            }
            protect.push(pattern.value);
        }
        WorkspaceSpec {
            repo: text("repo"),
            base: text("base"),
            fetch: raw
                .and_then(|raw| raw.flag("fetch"))
                .is_some_and(|flag| flag.value),
            setup: text("setup"),
            seed: text("seed"),
            isolation: Isolation::Clone,
            deliver: if deliver == Some("none") {
                Deliver::None
            } else {
                Deliver::Branch
            },
            protect,
        }
    }

    fn checks(&mut self, raw: &Raw) -> Vec<Check> {
        let tables = raw.tables("check");
        if let (Some(span), []) = (raw.mention("check"), tables)
            && raw.is_list("check")
        {
            let span = span.clone();
            self.error(
                &span,
                "the loop has no check, so nothing can say that it is done",
                "add `[[check]]` with a command: `run = \"cargo test\"`".to_owned(),
            );
        }
        let mut checks: Vec<Check> = Vec::new();
        for (place, table) in tables.iter().enumerate() {
            let derived = At {
                value: format!("check-{}", place + 1),
                span: table.span.clone(),
            };
            let given = table.text("name");
            let name = given.clone().unwrap_or(derived);
            if !is_name(&name.value) {
                let message = format!("{} is no name of a check", quoted(&name.value));
                let hint =
                    "1 to 64 letters, digits, `.`, `_` and `-`, beginning with a letter or digit";
                self.error(&name.span, message, hint.to_owned());
            } else if checks.iter().any(|other| other.name.as_str() == name.value) {
                let message = format!("two checks are named `{}`", name.value);
                let hint = if given.is_some() {
                    "give it another name"
                } else {
                    "give it a name"
                };
                self.error(&name.span, message, hint.to_owned());
            }
            if table.mention("run").is_none() && !table.mentions_unbuilt() {
                let hint = "add a command: `run = \"cargo test\"`".to_owned();
                self.error(&table.span, "the check has nothing to run", hint);
            }
            let timeout = table
                .duration("timeout")
                .map_or(CHECK_TIMEOUT, |at| at.value);
            checks.push(Check {
                name: CheckName::new(name.value),
                run: table.text("run").map(|run| run.value).unwrap_or_default(),
                env: self.variables(table, "env"),
                timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
                repeat: table
                    .table("repeat")
                    .map(|raw| self.repeat(raw))
                    .unwrap_or_default(),
            });
        }
        checks
    }

    fn repeat(&mut self, raw: &Raw) -> Repeat {
        let Some(times) = raw.count("times") else {
            return Repeat::default();
        };
        if times.value > REPEATS {
            let message = format!("a check runs at most {REPEATS} times");
            self.error(&times.span, message, None);
        }
        let pass = raw.count("pass").unwrap_or_else(|| times.clone());
        if pass.value > times.value {
            let message = format!(
                "`pass` is more than `times`: {} of {}",
                pass.value, times.value
            );
            self.error(
                &pass.span,
                message,
                format!("at most `pass = {}`", times.value),
            );
        }
        Repeat {
            times: small(times.value),
            pass: small(pass.value),
        }
    }

    /// Names of environment variables.
    fn variables(&mut self, raw: &Raw, key: &str) -> Vec<String> {
        let mut names = Vec::new();
        for name in raw.texts(key).map(|list| list.value).unwrap_or_default() {
            let good = name
                .value
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                && !name.value.starts_with(|c: char| c.is_ascii_digit());
            if !good {
                let message = format!("{} is no name of a variable", quoted(&name.value));
                let hint = match name.value.split_once('=') {
                    Some((name, _)) => {
                        format!("write the name alone: `{name}`; its value is passed through")
                    }
                    None => "letters, digits and `_`".to_owned(),
                };
                self.error(&name.span, message, hint);
            } else if name.value.starts_with("GIT_") || name.value.starts_with("RONDE_") {
                let message = format!("`{}` cannot be passed through", name.value);
                let hint = "git and ronde are led by the engine alone";
                self.error(&name.span, message, hint.to_owned());
            } else if !names.contains(&name.value) {
                names.push(name.value);
            }
        }
        names
    }

    fn limits(&mut self, raw: Option<&Raw>, worker: Option<&WorkerSpec>) -> Limits {
        let metered = worker.is_none_or(|worker| worker.agent.metered());
        let day = raw.and_then(|raw| raw.table("day"));
        for (table, what) in [(raw, ""), (day, " a day")] {
            let Some(table) = table else { continue };
            for key in ["tokens", "cost"] {
                if let (false, Some(span)) = (metered, table.mention(key)) {
                    let span = span.clone();
                    let message = format!(
                        "a limit of `{key}`{what} cannot be held: nobody can meter this worker's model calls"
                    );
                    let hint = "limit `attempts` and `time` instead, or use `agent = \"ronde\"`";
                    self.error(&span, message, hint.to_owned());
                }
            }
        }
        let count = |key: &str| Some(small(raw?.count(key)?.value));
        let default_tokens = metered.then_some(TOKENS);
        Limits {
            attempts: count("attempts").unwrap_or(ATTEMPTS),
            iterations: count("iterations").unwrap_or(ITERATIONS),
            tokens: raw
                .and_then(|raw| Some(raw.tokens("tokens")?.value))
                .or(default_tokens),
            cost: raw.and_then(|raw| Some(raw.money("cost")?.value)),
            time: raw
                .and_then(|raw| Some(raw.duration("time")?.value))
                .unwrap_or(TIME),
            day: day.map(day_limits).unwrap_or_default(),
        }
    }

    fn handoff(&mut self, raw: Option<&Raw>) -> Option<HandoffSpec> {
        let Some(raw) = raw else {
            return Some(HandoffSpec {
                on: Reason::ALL.to_vec(),
                notify: vec![],
                timeout: None,
            });
        };
        let on = match raw.words("on") {
            Some(words) => Reason::ALL
                .into_iter()
                .filter(|reason| {
                    words
                        .value
                        .iter()
                        .any(|word| word.value == reason.to_string())
                })
                .collect(),
            None => Reason::ALL.to_vec(),
        };
        let mut notify = Vec::new();
        for name in raw
            .texts("notify")
            .map(|list| list.value)
            .unwrap_or_default()
        {
            if let Err(refusal) = self.validators.notify(&name.value) {
                self.refuse(&name, refusal);
            } else if !notify.contains(&name.value) {
                notify.push(name.value);
            }
        }
        if let (Some(span), None) = (raw.mention("then"), raw.mention("timeout")) {
            let span = span.clone();
            let hint = "add for example `timeout = \"3d\"`".to_owned();
            self.error(&span, "`then` has no meaning without `timeout`", hint);
        }
        Some(HandoffSpec {
            on,
            notify,
            timeout: raw.duration("timeout").map(|at| at.value),
        })
    }
}

/// The limits of a day.
pub(crate) fn day_limits(raw: &Raw) -> DayLimits {
    DayLimits {
        tokens: raw.tokens("tokens").map(|at| at.value),
        cost: raw.money("cost").map(|at| at.value),
    }
}

/// The strings of a list.
fn strings(raw: &Raw, key: &str) -> Vec<String> {
    raw.texts(key)
        .map(|list| list.value.into_iter().map(|at| at.value).collect())
        .unwrap_or_default()
}

/// A count; the reader lets none through that does not fit.
fn small(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Whether this can name a check or a notification.
pub(crate) fn is_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}
