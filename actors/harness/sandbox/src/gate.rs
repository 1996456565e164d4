//! The gate: the only maker of a [`Permit`], without which nothing is spawned. It decides by rules
//! and by what a person has approved; its decisions are pure. It does not run, confine or ask.

mod change;

use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
};

use ronde_protocol::{
    Digest,
    access::{Level, Rules},
};

use crate::{
    pattern::{Meets, Pattern},
    shell,
};

pub use change::Change;

/// The right to start one process. Only the gate makes one.
#[derive(Debug)]
pub struct Permit {
    purpose: &'static str,
}

impl Permit {
    /// What it was made for, for the log.
    pub(crate) fn purpose(&self) -> &'static str {
        self.purpose
    }
}

/// What the engine itself runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// git, on repositories of ronde's own or of the user.
    Git,
    /// A check of a verifier.
    Check,
    /// The setup of a workspace.
    Setup,
    /// An external worker.
    Worker,
    /// A notification command.
    Notify,
    /// A look at the machine.
    Probe,
}

/// A permit for what the loop's definition or the engine itself asks for. Never for what a model
/// asks for: that is [`Gate::decide`].
pub fn engine(purpose: Purpose) -> Permit {
    let purpose = match purpose {
        Purpose::Git => "git",
        Purpose::Check => "check",
        Purpose::Setup => "setup",
        Purpose::Worker => "worker",
        Purpose::Notify => "notify",
        Purpose::Probe => "probe",
    };
    Permit { purpose }
}

/// What a model asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action<'a> {
    /// To run a command in a shell.
    Shell {
        /// The command.
        command: &'a str,
    },
    /// To write a file.
    Edit {
        /// Its path from the workspace's root, links resolved; absolute if it is elsewhere.
        path: &'a Path,
        /// What is done to it. Rules do not match by it; an approval is bound to it.
        change: Change<'a>,
    },
    /// To read a file or folder.
    Read {
        /// Its path from the workspace's root, links resolved; absolute if it is elsewhere.
        path: &'a Path,
    },
    /// To use any other tool.
    Tool {
        /// Its name.
        name: &'a str,
        /// What a pattern in parentheses is compared with.
        argument: &'a str,
    },
}

impl Action<'_> {
    /// The tool it uses.
    fn tool(&self) -> &str {
        match self {
            Self::Shell { .. } => "shell",
            Self::Edit { .. } => "edit",
            Self::Read { .. } => "read",
            Self::Tool { name, .. } => name,
        }
    }

    /// The digest an approval is bound to: the tool and exactly what it would do, for an edit the path
    /// and the change.
    pub fn digest(&self) -> Digest {
        let mut bytes = self.tool().as_bytes().to_vec();
        bytes.push(0);
        match self {
            Self::Shell { command } => bytes.extend_from_slice(command.as_bytes()),
            Self::Edit { path, change } => {
                bytes.extend_from_slice(path.as_os_str().as_encoded_bytes());
                // No path holds this byte.
                bytes.push(0);
                bytes.extend_from_slice(&change.bytes());
            }
            Self::Read { path } => {
                bytes.extend_from_slice(path.as_os_str().as_encoded_bytes());
            }
            Self::Tool { argument, .. } => bytes.extend_from_slice(argument.as_bytes()),
        }
        Digest::of(bytes)
    }
}

impl fmt::Display for Action<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shell { command } => write!(f, "shell: {command}"),
            Self::Edit { path, .. } => write!(f, "edit: {}", plain(path)),
            Self::Read { path } => write!(f, "read: {}", plain(path)),
            Self::Tool { name, argument } => write!(f, "{name}: {argument}"),
        }
    }
}

/// A path on one line, nothing in it hidden.
fn plain(path: &Path) -> String {
    let path = path.display().to_string();
    path.chars().map(change::visible).collect()
}

/// What the gate says.
#[derive(Debug)]
pub enum Decision {
    /// Go on.
    Allow(Permit),
    /// Only if a person says yes to exactly this.
    Ask {
        /// Hash of the exact action.
        action: Digest,
        /// The action in words, and why it is asked about where no rule says so.
        text: String,
        /// What an edit would change, for the person: cut where it is long, and it says so.
        change: Option<String>,
        /// The rule it may fall under, as written.
        rule: Option<String>,
    },
    /// No.
    Deny {
        /// The rule, as written.
        rule: String,
        /// Words for the model.
        text: String,
    },
}

/// A rule that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{list}[{index}] `{pattern}`: {reason}")]
pub struct PatternError {
    /// `deny`, `ask` or `allow`.
    pub list: &'static str,
    /// Its place in that list, from 0.
    pub index: usize,
    /// As written.
    pub pattern: String,
    /// What is wrong with it.
    pub reason: String,
}

/// The rules of one worker.
#[derive(Debug, Clone)]
pub struct Gate {
    level: Level,
    deny: Vec<Pattern>,
    ask: Vec<Pattern>,
    allow: Vec<Pattern>,
}

impl Gate {
    /// Reads the rules. Where none matches, the sandbox's level decides: allowed if it isolates
    /// files, asked about if it is `full`.
    ///
    /// # Errors
    /// Every rule that cannot be read.
    pub fn new(rules: &Rules, level: Level) -> Result<Self, Vec<PatternError>> {
        let home = home();
        let mut errors = Vec::new();
        let mut read = |list: &'static str, patterns: &[String]| {
            let mut good = Vec::new();
            for (index, pattern) in patterns.iter().enumerate() {
                match Pattern::parse(pattern, home.as_deref()) {
                    Ok(pattern) => good.push(pattern),
                    Err(reason) => errors.push(PatternError {
                        list,
                        index,
                        pattern: pattern.clone(),
                        reason,
                    }),
                }
            }
            good
        };
        let gate = Self {
            level,
            deny: read("deny", &rules.deny),
            ask: read("ask", &rules.ask),
            allow: read("allow", &rules.allow),
        };
        if errors.is_empty() {
            Ok(gate)
        } else {
            Err(errors)
        }
    }

    /// Decides about an action. Deny beats ask beats allow; `approved` turns an ask into a yes, never
    /// a deny.
    pub fn decide(&self, action: &Action<'_>, approved: &BTreeSet<Digest>) -> Decision {
        let judged = match action {
            Action::Shell { command } => self.shell(command),
            Action::Edit { path, .. } | Action::Read { path } => {
                self.plain(action.tool(), |pattern| pattern.meets_path(path))
            }
            Action::Tool { name, argument } => {
                self.plain(name, |pattern| pattern.meets_text(argument))
            }
        };
        match judged {
            Judged::Allow => Decision::Allow(Permit { purpose: "tool" }),
            Judged::Deny(rule) => Decision::Deny {
                text: format!("the rule `{rule}` of this loop forbids it"),
                rule: rule.to_owned(),
            },
            Judged::Ask(rule, why) => {
                let digest = action.digest();
                if approved.contains(&digest) {
                    return Decision::Allow(Permit {
                        purpose: "approved tool",
                    });
                }
                let text = match why {
                    Some(why) => format!("{action} ({why})"),
                    None => action.to_string(),
                };
                Decision::Ask {
                    action: digest,
                    text,
                    change: match action {
                        Action::Edit { change, .. } => Some(change.shown()),
                        _ => None,
                    },
                    rule: rule.map(str::to_owned),
                }
            }
        }
    }

    /// Whether a tool is denied whatever it is given, so that it need not be shown at all.
    pub fn hides(&self, tool: &str) -> bool {
        self.deny
            .iter()
            .any(|pattern| pattern.is_for(tool) && pattern.is_for_all())
    }

    fn plain(&self, tool: &str, meets: impl Fn(&Pattern) -> Meets) -> Judged<'_> {
        let first = |list: &'_ [Pattern], least: Meets| -> Option<usize> {
            list.iter()
                .position(|pattern| pattern.is_for(tool) && meets(pattern) >= least)
        };
        if let Some(at) = first(&self.deny, Meets::Yes) {
            return Judged::Deny(&self.deny[at].text);
        }
        for list in [&self.deny, &self.ask] {
            if let Some(at) = first(list, Meets::Maybe) {
                return Judged::Ask(Some(&list[at].text), None);
            }
        }
        if first(&self.allow, Meets::Yes).is_some() {
            return Judged::Allow;
        }
        self.otherwise()
    }

    fn shell(&self, command: &str) -> Judged<'_> {
        let script = shell::analyse(command);
        fn of(list: &[Pattern]) -> impl Iterator<Item = &Pattern> {
            list.iter().filter(|pattern| pattern.is_for("shell"))
        }
        for pattern in of(&self.deny) {
            if pattern.is_for_all() || script.runs(|text| pattern.meets_text(text)) == Meets::Yes {
                return Judged::Deny(&pattern.text);
            }
        }
        for pattern in of(&self.ask) {
            if pattern.is_for_all() || script.runs(|text| pattern.meets_text(text)) == Meets::Yes {
                return Judged::Ask(Some(&pattern.text), None);
            }
        }
        for pattern in of(&self.deny).chain(of(&self.ask)) {
            if script.runs(|text| pattern.meets_text(text)) == Meets::Maybe {
                return Judged::Ask(Some(&pattern.text), Some("it may fall under this rule"));
            }
        }
        if let Some(why) = script.opaque
            && of(&self.deny).chain(of(&self.ask)).next().is_some()
        {
            return Judged::Ask(None, Some(why));
        }
        let allowed = script.is_plainly(|text| {
            of(&self.allow).any(|pattern| pattern.meets_text(text) == Meets::Yes)
        });
        if allowed || of(&self.allow).any(Pattern::is_for_all) {
            return Judged::Allow;
        }
        self.otherwise()
    }

    fn otherwise(&self) -> Judged<'_> {
        match self.level {
            Level::ReadOnly | Level::WorkspaceWrite => Judged::Allow,
            Level::Full => Judged::Ask(None, None),
        }
    }
}

enum Judged<'a> {
    Allow,
    Ask(Option<&'a str>, Option<&'static str>),
    Deny(&'a str),
}

/// Whether a rule's pattern can be read.
///
/// # Errors
/// What is wrong with it, in words.
pub fn check_pattern(pattern: &str) -> Result<(), String> {
    Pattern::parse(pattern, home().as_deref()).map(|_| ())
}

fn home() -> Option<PathBuf> {
    std::env::var_os("HOME")
        .filter(|home| !home.is_empty())
        .map(PathBuf::from)
}

#[cfg(test)]
mod tests;
