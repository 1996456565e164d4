//! What a process may do: the sandbox's levels and the gate's rules, as the loop file gives them.

use serde::{Deserialize, Serialize};

/// How far a process's writes reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Nothing can be written but a private temporary folder.
    ReadOnly,
    /// The workspace and a private temporary folder can be written.
    WorkspaceWrite,
    /// No file isolation at all.
    Full,
}

/// What a worker asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// How far writes reach.
    pub level: Level,
    /// Whether sockets other than Unix ones may be opened.
    pub network: bool,
    /// Names of environment variables passed through; everything else is withheld.
    pub env: Vec<String>,
    /// The gate's rules.
    pub rules: Rules,
    /// What the gate does where a rule says `ask`.
    pub on_ask: OnAsk,
}

/// Patterns such as `shell(git push *)` or `edit(src/**)`; deny beats ask beats allow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Never.
    #[serde(default)]
    pub deny: Vec<String>,
    /// Only after a person said yes.
    #[serde(default)]
    pub ask: Vec<String>,
    /// Without a question.
    #[serde(default)]
    pub allow: Vec<String>,
}

/// What happens where a rule says `ask`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnAsk {
    /// The run rests until a person answers.
    Wait,
    /// The model reads the refusal as the tool's result.
    Refuse,
}
