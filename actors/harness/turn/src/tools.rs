//! The tools of the built-in agent. Each has its file with its schema, the check of its input and what
//! it does. What a model gets wrong is a result it reads, never an error of the turn. Nothing here asks
//! the gate or writes the journal: the loop does, between [`prepare`] and [`Task::run`].

mod ask_person;
mod edit;
mod path;
mod read;
mod shell;
mod write;

use std::{ffi::OsString, path::PathBuf};

use ronde_model::wire::ToolSpec;
use ronde_protocol::{
    access::{Access, Level},
    work::ToolOutcome,
};
use ronde_sandbox::{Permit, Spawner, gate::Action};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;

use crate::Turn;

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tool {
    /// Reads a file or lists a folder.
    Read,
    /// Replaces a piece of a file.
    Edit,
    /// Writes a whole file.
    Write,
    /// Runs a command.
    Shell,
    /// Asks a person, and ends the turn.
    AskPerson,
}

impl Tool {
    /// All tools, in the order a model is shown them.
    pub const ALL: [Self; 5] = [
        Self::Read,
        Self::Edit,
        Self::Write,
        Self::Shell,
        Self::AskPerson,
    ];

    /// Its name, for the model and for the gate's rules.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Write => "write",
            Self::Shell => "shell",
            Self::AskPerson => "ask_person",
        }
    }

    /// The tool as a model is shown it.
    pub fn spec(self) -> ToolSpec {
        let (description, input_schema) = match self {
            Self::Read => read::spec(),
            Self::Edit => edit::spec(),
            Self::Write => write::spec(),
            Self::Shell => shell::spec(),
            Self::AskPerson => ask_person::spec(),
        };
        ToolSpec {
            name: self.name().to_owned(),
            description: description.to_owned(),
            input_schema,
        }
    }

    /// Whether calls of it may run beside each other.
    pub(crate) fn is_parallel(self) -> bool {
        self == Self::Read
    }
}

/// The tools a turn has, in the order of [`Tool::ALL`].
pub(crate) fn enabled(turn: &Turn) -> impl Iterator<Item = Tool> {
    let changes = turn.access.level != Level::ReadOnly;
    Tool::ALL
        .into_iter()
        .filter(|tool| turn.tools.contains(tool))
        .filter(move |tool| changes || !matches!(tool, Tool::Edit | Tool::Write))
}

/// What the tools work with.
pub(crate) struct Bench {
    enabled: Vec<Tool>,
    root: path::Root,
    access: Access,
    tmp: PathBuf,
    spool: PathBuf,
    hidden: Vec<PathBuf>,
    env: Vec<(OsString, OsString)>,
    spawner: Spawner,
    stop: watch::Receiver<bool>,
}

impl Bench {
    /// The bench of a turn.
    ///
    /// # Errors
    /// In words, where the workspace cannot be used.
    pub(crate) fn new(
        turn: &Turn,
        spawner: Spawner,
        stop: watch::Receiver<bool>,
    ) -> Result<Self, String> {
        Ok(Self {
            enabled: enabled(turn).collect(),
            root: path::Root::new(&turn.folder)?,
            access: turn.access.clone(),
            tmp: turn.tmp.clone(),
            spool: turn.spool.clone(),
            hidden: turn.hidden.clone(),
            env: turn.env.clone(),
            spawner,
            stop,
        })
    }
}

/// A tool call whose input is checked.
pub(crate) struct Task {
    pub(crate) tool: Tool,
    /// One line about what it will do.
    pub(crate) summary: String,
    work: Work,
}

enum Work {
    Read(read::Task),
    Edit(edit::Task),
    Write(write::Task),
    Shell(shell::Task),
}

/// A call whose input is checked.
pub(crate) enum Prepared {
    /// It is to be run.
    Task(Task),
    /// A person is asked this.
    Question(String),
}

/// What a tool call came to.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) outcome: ToolOutcome,
    /// What the model reads; the loop cuts it.
    pub(crate) text: String,
    /// The whole of it, where `text` is already a part only.
    pub(crate) whole: Option<Vec<u8>>,
}

impl Report {
    fn done(text: impl Into<String>) -> Self {
        Self {
            outcome: ToolOutcome::Done,
            text: text.into(),
            whole: None,
        }
    }

    /// One that failed.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self {
            outcome: ToolOutcome::Failed,
            text: text.into(),
            whole: None,
        }
    }
}

impl From<Result<String, String>> for Report {
    fn from(result: Result<String, String>) -> Self {
        match result {
            Ok(text) => Self::done(text),
            Err(text) => Self::failed(text),
        }
    }
}

/// Checks a call.
///
/// # Errors
/// Words for the model.
pub(crate) fn prepare(bench: &Bench, name: &str, input: &Value) -> Result<Prepared, String> {
    let tool = bench
        .enabled
        .iter()
        .copied()
        .find(|tool| tool.name() == name)
        .ok_or_else(|| {
            let names: Vec<_> = bench.enabled.iter().map(|tool| tool.name()).collect();
            format!(
                "there is no tool `{name}`; the tools are {}",
                names.join(", ")
            )
        })?;
    let (work, summary) = match tool {
        Tool::Read => {
            let task = read::Task::new(&bench.root, parse(tool, input)?)?;
            (Work::Read(task.clone()), task.summary())
        }
        Tool::Edit => {
            let task = edit::Task::new(&bench.root, parse(tool, input)?)?;
            (Work::Edit(task.clone()), task.summary())
        }
        Tool::Write => {
            let task = write::Task::new(&bench.root, parse(tool, input)?)?;
            (Work::Write(task.clone()), task.summary())
        }
        Tool::Shell => {
            let task = shell::Task::new(parse(tool, input)?)?;
            (Work::Shell(task.clone()), task.summary())
        }
        Tool::AskPerson => {
            return ask_person::question(parse(tool, input)?).map(Prepared::Question);
        }
    };
    Ok(Prepared::Task(Task {
        tool,
        summary,
        work,
    }))
}

fn parse<T: DeserializeOwned>(tool: Tool, input: &Value) -> Result<T, String> {
    T::deserialize(input).map_err(|error| {
        format!(
            "the input of `{}` does not fit its schema: {error}",
            tool.name()
        )
    })
}

impl Task {
    /// What the gate decides about.
    pub(crate) fn action(&self) -> Action<'_> {
        match &self.work {
            Work::Read(task) => Action::Read {
                path: &task.place.relative,
            },
            Work::Edit(task) => Action::Edit {
                path: &task.place.relative,
                change: task.change(),
            },
            Work::Write(task) => Action::Edit {
                path: &task.place.relative,
                change: task.change(),
            },
            Work::Shell(task) => Action::Shell {
                command: &task.command,
            },
        }
    }

    /// Does it.
    pub(crate) async fn run(self, bench: &Bench, permit: Permit) -> Report {
        let blocking = match self.work {
            Work::Shell(task) => return task.run(bench, permit).await,
            Work::Read(task) => tokio::task::spawn_blocking(move || task.run()),
            Work::Edit(task) => tokio::task::spawn_blocking(move || task.run()),
            Work::Write(task) => tokio::task::spawn_blocking(move || task.run()),
        };
        match blocking.await {
            Ok(result) => result.into(),
            Err(error) => Report {
                outcome: ToolOutcome::Unknown,
                text: format!("the tool broke: {error}"),
                whole: None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The schema and the check of the input say the same.
    #[test]
    fn schemas_fit_what_is_accepted() {
        for tool in Tool::ALL {
            let schema = tool.spec().input_schema;
            let all = schema["properties"].as_object().expect("properties");
            let required: Vec<&str> = schema["required"]
                .as_array()
                .expect("required")
                .iter()
                .filter_map(Value::as_str)
                .collect();
            assert_eq!(schema["additionalProperties"], false, "{tool:?}");
            let sample = |names: &mut dyn Iterator<Item = &str>| {
                let entries = names.map(|name| {
                    let value = match all[name]["type"].as_str() {
                        Some("string") => Value::from("x"),
                        Some("integer") => Value::from(1),
                        Some("boolean") => Value::from(true),
                        other => panic!("{tool:?}.{name}: {other:?}"),
                    };
                    (name.to_owned(), value)
                });
                Value::Object(entries.collect())
            };
            let accepts = |input: &Value| match tool {
                Tool::Read => parse::<read::Input>(tool, input).map(|_| ()),
                Tool::Edit => parse::<edit::Input>(tool, input).map(|_| ()),
                Tool::Write => parse::<write::Input>(tool, input).map(|_| ()),
                Tool::Shell => parse::<shell::Input>(tool, input).map(|_| ()),
                Tool::AskPerson => parse::<ask_person::Input>(tool, input).map(|_| ()),
            };
            assert_eq!(
                accepts(&sample(&mut all.keys().map(String::as_str))),
                Ok(()),
                "{tool:?}"
            );
            assert_eq!(
                accepts(&sample(&mut required.iter().copied())),
                Ok(()),
                "{tool:?}"
            );
            for missing in &required {
                let input = sample(&mut required.iter().copied().filter(|name| name != missing));
                let error = accepts(&input).expect_err("a required key is missing");
                assert!(error.contains(missing), "{error}");
            }
            let mut unknown = sample(&mut required.iter().copied());
            unknown["nonsense"] = Value::from(1);
            let error = accepts(&unknown).expect_err("an unknown key");
            assert!(error.contains("nonsense"), "{error}");
        }
    }
}
