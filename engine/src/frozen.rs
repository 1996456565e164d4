//! A loop's definition as it is frozen when a run fires: the loop file's own text with everything it
//! refers to, so that a run goes by the rules it began with whatever happens to the files.

use std::path::{Path, PathBuf};

use ronde_loops::{Config, Definition, Errors, Goal};
use ronde_protocol::ProjectId;
use serde::{Deserialize, Serialize};

use crate::{
    handle::{Refusal, RefusalKind, Shared},
    home::project_root,
    validators::VALIDATORS,
    wiring,
};

/// What is stored. The text is checked anew on loading; the format of loop files is permanent.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Text {
    v: u16,
    file: PathBuf,
    root: PathBuf,
    text: String,
    #[serde(default)]
    goal: Option<String>,
    #[serde(default)]
    config: Option<String>,
}

/// A loop file by its folder's own path, so that a project is one project whichever way leads to it.
fn resolved(file: &Path) -> std::io::Result<PathBuf> {
    let file = std::path::absolute(file)?;
    match (file.parent(), file.file_name()) {
        (Some(folder), Some(name)) => Ok(std::fs::canonicalize(folder)?.join(name)),
        _ => Ok(file),
    }
}

/// Why a loop file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    /// The file, or the project's settings, say something wrong.
    #[error(transparent)]
    Text(#[from] Errors),
    /// Something it refers to is not there.
    #[error(transparent)]
    Other(#[from] Refusal),
}

impl From<Unusable> for Refusal {
    fn from(error: Unusable) -> Self {
        match error {
            Unusable::Text(errors) => Self::new(RefusalKind::Invalid, errors.to_string()),
            Unusable::Other(refusal) => refusal,
        }
    }
}

/// A definition, frozen and checked.
#[derive(Debug, Clone)]
pub(crate) struct Frozen {
    /// The loop file.
    pub(crate) file: PathBuf,
    /// The root folder of its project.
    pub(crate) root: PathBuf,
    /// The checked definition.
    pub(crate) definition: Definition,
    /// The goal, read from its file where the definition names one.
    pub(crate) goal: String,
    /// The project's settings.
    pub(crate) config: Config,
    text: Text,
}

impl Frozen {
    /// Reads and checks a loop file, with the goal and the settings it refers to.
    ///
    /// # Errors
    /// All errors of the file at once, as text for a person.
    pub(crate) fn read(file: &Path) -> Result<Self, Unusable> {
        let invalid = |message: String| Refusal::new(RefusalKind::Invalid, message);
        let file = resolved(file)
            .map_err(|error| invalid(format!("cannot read {}: {error}", file.display())))?;
        let bytes = std::fs::read(&file).map_err(|error| {
            invalid(format!("cannot read {}: {error}", file.display()))
                .hint("name a loop file; `ronde init` writes one")
        })?;
        let definition = ronde_loops::parse(&bytes, &file, &VALIDATORS)?;
        let root = project_root(&file);
        let goal = match &definition.goal {
            Goal::File(name) => {
                let path = file.with_file_name(name);
                Some(std::fs::read_to_string(&path).map_err(|error| {
                    invalid(format!(
                        "{}: cannot read goal_file {}: {error}",
                        file.display(),
                        path.display()
                    ))
                })?)
            }
            Goal::Text(_) => None,
        };
        let config = match std::fs::read_to_string(root.join(".ronde/config.toml")) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                return Err(invalid(format!(
                    "cannot read {}/.ronde/config.toml: {error}",
                    root.display()
                ))
                .into());
            }
        };
        let text = String::from_utf8(bytes).map_err(|error| invalid(error.to_string()))?;
        Self::check(Text {
            v: 1,
            file,
            root,
            text,
            goal,
            config,
        })
    }

    /// Reads a definition back from its artefact.
    ///
    /// # Errors
    /// Where this program cannot read it: it was written by a newer one.
    pub(crate) fn load(bytes: &[u8]) -> Result<Self, Refusal> {
        let text: Text = serde_json::from_slice(bytes).map_err(|error| {
            Refusal::new(
                RefusalKind::Failed,
                format!("the frozen definition cannot be read: {error}"),
            )
        })?;
        if text.v > 1 {
            return Err(Refusal::new(
                RefusalKind::Failed,
                "the frozen definition was written by a newer ronde",
            ));
        }
        Ok(Self::check(text)?)
    }

    fn check(text: Text) -> Result<Self, Unusable> {
        let definition = ronde_loops::parse(text.text.as_bytes(), &text.file, &VALIDATORS)?;
        let settings = text.root.join(".ronde/config.toml");
        let config = ronde_loops::parse_config(
            text.config.as_deref().unwrap_or_default().as_bytes(),
            &settings,
        )?;
        if let Some(unknown) = definition
            .handoff
            .notify
            .iter()
            .find(|name| !config.notify.contains_key(*name))
        {
            return Err(Refusal::new(
                RefusalKind::Invalid,
                format!(
                    "{}: handoff.notify names `{unknown}`, which {} does not define",
                    text.file.display(),
                    settings.display()
                ),
            )
            .hint(format!("add `[notify.{unknown}] command = [\"…\"]` there"))
            .into());
        }
        let goal = match (&text.goal, &definition.goal) {
            (Some(read), _) => read.clone(),
            (None, Goal::Text(goal)) => goal.clone(),
            (None, Goal::File(name)) => {
                return Err(Refusal::new(
                    RefusalKind::Failed,
                    format!("the frozen definition lacks the text of {name}"),
                )
                .into());
            }
        };
        Ok(Self {
            file: text.file.clone(),
            root: text.root.clone(),
            definition,
            goal,
            config,
            text,
        })
    }

    /// What is stored.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(&self.text).expect("a record of texts is JSON")
    }

    /// The project.
    pub(crate) fn project(&self) -> ProjectId {
        ProjectId::of(&self.root.to_string_lossy())
    }

    /// Looks whether this machine and this repository hold what the loop asks for. Changes nothing.
    ///
    /// # Errors
    /// What is missing, and the way out.
    pub(crate) async fn preflight(&self, shared: &Shared) -> Result<(), Refusal> {
        wiring::preflight(self, shared).await
    }
}
