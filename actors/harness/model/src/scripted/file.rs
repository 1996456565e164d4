//! The file of a scripted model: its shape as written, and the check that names every fault in it.
//! It answers nothing.

use std::{
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
};

use ronde_protocol::{MicroUsd, Usage};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{ErrorKind, Prices, wire::StopReason};

/// A script that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the model script {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not a script.
    #[error("the model script {} is not valid:{}", path.display(), list(faults))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Everything that is wrong, each with its place in the file.
        faults: Vec<String>,
    },
}

fn list(faults: &[String]) -> String {
    faults.iter().fold(String::new(), |mut text, fault| {
        write!(text, "\n  {fault}").expect("writing to a String cannot fail");
        text
    })
}

/// A script, checked.
#[derive(Debug, Clone)]
pub(super) struct Script {
    pub(super) attempts: Vec<Vec<Step>>,
    pub(super) price: Option<Prices>,
}

/// What happens at one call.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Answer(Entry),
    Fail(Failure),
}

/// An answer.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) text: String,
    pub(super) tools: Vec<Tool>,
    pub(super) usage: Option<Usage>,
    pub(super) stop: Option<StopReason>,
    pub(super) expect: Vec<String>,
    pub(super) expect_not: Vec<String>,
}

/// A tool call.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tool {
    pub(super) name: String,
    #[serde(default = "empty")]
    pub(super) input: Value,
}

fn empty() -> Value {
    Value::Object(Map::new())
}

/// A call that fails.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Failure {
    pub(super) kind: FailureKind,
    pub(super) message: String,
    pub(super) retry_after_ms: Option<u64>,
}

/// [`ErrorKind`] as written.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FailureKind {
    Retryable,
    ContextOverflow,
    Refused,
    Fatal,
    Unknown,
}

impl From<FailureKind> for ErrorKind {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Retryable => Self::Retryable,
            FailureKind::ContextOverflow => Self::ContextOverflow,
            FailureKind::Refused => Self::Refused,
            FailureKind::Fatal => Self::Fatal,
            FailureKind::Unknown => Self::Unknown,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    text: Option<String>,
    #[serde(default)]
    tools: Vec<Tool>,
    usage: Option<RawUsage>,
    stop: Option<StopReason>,
    expect: Option<RawExpect>,
    error: Option<Failure>,
}

/// [`Usage`] without a price, which only the price table gives.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawUsage {
    #[serde(default)]
    input: u64,
    #[serde(default)]
    cached: u64,
    #[serde(default)]
    cache_write: u64,
    #[serde(default)]
    output: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExpect {
    #[serde(default)]
    prompt_contains: Texts,
    #[serde(default)]
    prompt_lacks: Texts,
}

/// One text or several.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
enum Texts {
    One(String),
    Many(Vec<String>),
}

impl Default for Texts {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl From<Texts> for Vec<String> {
    fn from(texts: Texts) -> Self {
        match texts {
            Texts::One(text) => vec![text],
            Texts::Many(texts) => texts,
        }
    }
}

/// Checks a script; all faults at once.
pub(super) fn parse(path: &Path, text: &str) -> Result<Script, Error> {
    let mut faults = Vec::new();
    let script = match serde_json::from_str::<Value>(text) {
        Ok(value) => read(value, &mut faults),
        Err(error) => {
            faults.push(error.to_string());
            None
        }
    };
    match script {
        Some(script) if faults.is_empty() => Ok(script),
        _ => Err(Error::Invalid {
            path: path.to_owned(),
            faults,
        }),
    }
}

fn read(value: Value, faults: &mut Vec<String>) -> Option<Script> {
    let Value::Object(mut top) = value else {
        faults.push("expected an object with `attempts`".to_owned());
        return None;
    };
    let price = top.remove("price").and_then(|price| {
        let read = serde_json::from_value(price);
        read.map_err(|error| faults.push(format!("price: {error}")))
            .ok()
    });
    let attempts = top.remove("attempts");
    for key in top.keys() {
        faults.push(format!(
            "{key}: unknown key, expected `attempts` or `price`"
        ));
    }
    let attempts = match attempts {
        Some(Value::Array(attempts)) if !attempts.is_empty() => attempts,
        Some(Value::Array(_)) => {
            faults.push("attempts: must not be empty".to_owned());
            return None;
        }
        Some(_) => {
            faults.push("attempts: expected a list of attempts, each a list of calls".to_owned());
            return None;
        }
        None => {
            faults.push("attempts: missing".to_owned());
            return None;
        }
    };
    let attempts = attempts
        .into_iter()
        .enumerate()
        .map(|(index, attempt)| calls(index, attempt, faults))
        .collect();
    Some(Script { attempts, price })
}

fn calls(attempt: usize, value: Value, faults: &mut Vec<String>) -> Vec<Step> {
    let at = format!("attempts[{attempt}]");
    let Value::Array(calls) = value else {
        faults.push(format!("{at}: expected a list of calls"));
        return Vec::new();
    };
    if calls.is_empty() {
        faults.push(format!("{at}: must not be empty"));
    }
    let mut steps = Vec::with_capacity(calls.len());
    for (n, call) in calls.into_iter().enumerate() {
        match serde_json::from_value::<RawEntry>(call) {
            Ok(raw) => steps.extend(step(&format!("{at}[{n}]"), raw, faults)),
            Err(error) => faults.push(format!("{at}[{n}]: {error}")),
        }
    }
    steps
}

fn step(at: &str, raw: RawEntry, faults: &mut Vec<String>) -> Option<Step> {
    let before = faults.len();
    let answers =
        raw.text.is_some() || !raw.tools.is_empty() || raw.usage.is_some() || raw.stop.is_some();
    let step = match raw.error {
        Some(_) if answers || raw.expect.is_some() => {
            faults.push(format!(
                "{at}: `error` stands alone; the call has no other keys"
            ));
            None
        }
        Some(failure) => Some(Step::Fail(failure)),
        None if !answers => {
            faults.push(format!("{at}: needs `text`, `tools` or `error`"));
            None
        }
        None => {
            for (index, tool) in raw.tools.iter().enumerate() {
                if tool.name.is_empty() {
                    faults.push(format!("{at}.tools[{index}].name: must not be empty"));
                }
                if !tool.input.is_object() {
                    faults.push(format!("{at}.tools[{index}].input: expected an object"));
                }
            }
            let (expect, expect_not) = raw.expect.map_or_else(Default::default, |expect| {
                (expect.prompt_contains.into(), expect.prompt_lacks.into())
            });
            Some(Step::Answer(Entry {
                text: raw.text.unwrap_or_default(),
                tools: raw.tools,
                usage: raw.usage.map(|usage| Usage {
                    input: usage.input,
                    cached: usage.cached,
                    cache_write: usage.cache_write,
                    output: usage.output,
                    cost: MicroUsd(0),
                }),
                stop: raw.stop,
                expect,
                expect_not,
            }))
        }
    };
    step.filter(|_| faults.len() == before)
}
