//! Agents that are programs of their own, by name: how each is started and how its stream of JSON lines
//! is read. Pure; `external` runs them. What is known of each comes from running its released binary,
//! and stands at the top of its file.
//!
//! Where ronde's sandbox isolates files, the agent's own prompts and sandbox are switched off: nobody is
//! there to answer, and one sandbox inside the other does not work. With `sandbox = "full"` there is no
//! outer one, and the agent's own protection stays on.

mod claude;
mod codex;
mod opencode;

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
};

use ronde_protocol::{MicroUsd, Usage, access::Level, outcome::Limit};
use serde_json::Value;

/// An agent with a preset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preset {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// OpenCode.
    OpenCode,
}

/// What a launch depends on.
#[derive(Debug)]
pub(crate) struct Setting<'a> {
    /// The model, if one is named.
    pub(crate) model: Option<&'a str>,
    /// How far the outer sandbox lets it write.
    pub(crate) level: Level,
    /// Model calls it may make.
    pub(crate) iterations: u32,
    /// The environment it will have.
    pub(crate) env: &'a [(OsString, OsString)],
}

impl Setting<'_> {
    /// Whether ronde's sandbox isolates files.
    fn is_confined(&self) -> bool {
        self.level != Level::Full
    }

    fn var(&self, name: &str) -> Option<&OsStr> {
        let found = self.env.iter().find(|(other, _)| other == name);
        found
            .map(|(_, value)| value.as_os_str())
            .filter(|value| !value.is_empty())
    }

    /// The folder a variable names, or one under `HOME`.
    fn folder(&self, variable: &str, under_home: &str) -> Option<PathBuf> {
        let named = self.var(variable).map(PathBuf::from);
        named.or_else(|| Some(PathBuf::from(self.var("HOME")?).join(under_home)))
    }
}

/// How a program is started.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    /// The program and its arguments. The prompt comes on stdin.
    pub(crate) argv: Vec<OsString>,
    /// Variables it is given besides.
    pub(crate) env: Vec<(&'static str, &'static str)>,
    /// Folders it keeps its own state in; it must be able to write them, and they are made if missing.
    pub(crate) state: Vec<PathBuf>,
    /// Files it keeps its own state in; passed over if missing.
    pub(crate) state_files: Vec<PathBuf>,
}

/// What a stream said once it has ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Said {
    /// How the agent says it ended.
    pub(crate) end: Result<(), Trouble>,
    /// Its last words.
    pub(crate) claim: String,
    /// Model calls, if they can be counted.
    pub(crate) iterations: u32,
    /// What it used.
    pub(crate) usage: Usage,
}

/// Why a stream is not that of an agent that finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It ended in an error, or did not end properly.
    Failed(String),
    /// It kept to a limit it was given.
    Limit(Limit),
}

/// Reads the stream of one agent, line by line, keeping only what the end needs.
pub(crate) trait Reader: Send {
    /// Takes a line. Returns words for screens, if there are any in it.
    fn line(&mut self, line: &Value) -> Option<String>;

    /// What it all came to.
    fn said(&self) -> Said;
}

impl Preset {
    /// Its program, and its name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
        }
    }

    /// Names of variables that it gets from ronde's own environment without being asked for: its keys
    /// and where it keeps its state.
    pub(crate) fn variables(self) -> &'static [&'static str] {
        match self {
            Self::Claude => claude::VARIABLES,
            Self::Codex => codex::VARIABLES,
            Self::OpenCode => opencode::VARIABLES,
        }
    }

    pub(crate) fn launch(self, setting: &Setting<'_>) -> Launch {
        match self {
            Self::Claude => claude::launch(setting),
            Self::Codex => codex::launch(setting),
            Self::OpenCode => opencode::launch(setting),
        }
    }

    pub(crate) fn reader(self) -> Box<dyn Reader> {
        match self {
            Self::Claude => Box::<claude::Stream>::default(),
            Self::Codex => Box::<codex::Stream>::default(),
            Self::OpenCode => Box::<opencode::Stream>::default(),
        }
    }
}

/// What an agent is told besides, so that it can ask.
pub(crate) const QUESTIONS: &str = "\n\nNobody reads along or answers while you work. If something can \
only be decided by a person and has no sensible default, write the question into the file named by the \
environment variable RONDE_QUESTION_FILE and end your work; the answer comes with your next task.\n";

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}

fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// Dollars as these programs print them, rounded up.
fn dollars(value: &Value, pointer: &str) -> MicroUsd {
    let dollars = value
        .pointer(pointer)
        .and_then(Value::as_f64)
        .unwrap_or(0.0);
    // Out of range saturates, and what is no number counts nothing.
    MicroUsd((dollars * 1e6 - 1e-6).ceil().max(0.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a recorded stream comes to.
    pub(super) fn read(preset: Preset, stream: &str) -> (Said, Vec<String>) {
        let mut reader = preset.reader();
        let mut shown = Vec::new();
        for line in stream.lines().filter(|line| !line.trim().is_empty()) {
            shown.extend(reader.line(&serde_json::from_str(line).expect("a line of JSON")));
        }
        (reader.said(), shown)
    }

    pub(super) fn launch(
        preset: Preset,
        level: Level,
        env: &[(&str, &str)],
    ) -> (Vec<String>, Launch) {
        let env: Vec<_> = env
            .iter()
            .map(|(n, v)| (OsString::from(n), OsString::from(v)))
            .collect();
        let setting = Setting {
            model: Some("m"),
            level,
            iterations: 7,
            env: &env,
        };
        let launch = preset.launch(&setting);
        let argv = launch
            .argv
            .iter()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect();
        (argv, launch)
    }

    #[test]
    fn nothing_in_a_stream_makes_a_reader_panic() {
        let odd = [
            "null",
            "1",
            "[]",
            "\"x\"",
            "{}",
            r#"{"type":1}"#,
            r#"{"type":"result","usage":3}"#,
            r#"{"type":"text","part":[]}"#,
            r#"{"type":"item.completed","item":null}"#,
            r#"{"type":"step_finish","part":{"cost":1e300,"tokens":{"input":-5}}}"#,
            r#"{"type":"assistant","message":{"content":"x"}}"#,
            r#"{"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":9}}"#,
        ];
        for preset in [Preset::Claude, Preset::Codex, Preset::OpenCode] {
            let (said, _) = read(preset, &odd.join("\n"));
            assert!(said.usage.input < 10, "{said:?}");
            let (said, _) = read(preset, "");
            assert!(
                matches!(said.end, Err(Trouble::Failed(_))),
                "silence is no success"
            );
        }
    }

    #[test]
    fn money_is_rounded_up() {
        let of = |dollars_: f64| dollars(&serde_json::json!({ "c": dollars_ }), "/c").0;
        assert_eq!(
            (of(0.0), of(0.0123), of(0.000_000_1), of(-1.0)),
            (0, 12_300, 1, 0)
        );
    }
}
