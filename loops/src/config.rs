//! The project's settings, `.ronde/config.toml`: the same reading, another table of keys.

use std::{collections::BTreeMap, path::Path};

use serde::Serialize;

use crate::{
    check::{day_limits, decode, is_name},
    definition::DayLimits,
    diagnostic::{Errors, Findings},
    keys::CONFIG,
    read::{quoted, read},
};

/// The settings of a project, all defaults filled in. The default is that of a project without a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Config {
    /// Ways to tell a person, by name: program and arguments, never empty. The item comes as JSON on
    /// stdin.
    pub notify: BTreeMap<String, Vec<String>>,
    /// What all runs of the project may cost in one day.
    pub day: DayLimits,
}

/// Reads and checks a project's settings. `file` only names them in messages.
///
/// # Errors
/// Everything that is wrong with them, in the order of the file.
pub fn parse_config(text: &[u8], file: &Path) -> Result<Config, Errors> {
    let text = decode(text, file)?;
    let mut findings = Findings::new(file, text);
    let mut config = Config::default();
    if let Some(raw) = read(&CONFIG, &mut findings) {
        for (name, table) in raw.named("notify") {
            if !is_name(&name.value) {
                let message = format!("{} is no name of a notification", quoted(&name.value));
                let hint =
                    "1 to 64 letters, digits, `.`, `_` and `-`, beginning with a letter or digit";
                findings.error(&name.span, message, hint.to_owned());
            }
            let Some(command) = table.texts("command") else {
                continue;
            };
            if command.value.is_empty() {
                let hint =
                    "the program and its arguments: `command = [\"notify-send\", \"ronde\"]`";
                findings.error(&command.span, "`command` is empty", hint.to_owned());
            }
            let argv = command.value.into_iter().map(|word| word.value).collect();
            config.notify.insert(name.value.clone(), argv);
        }
        if let Some(day) = raw.table("budget").and_then(|budget| budget.table("day")) {
            config.day = day_limits(day);
        }
    }
    match findings.into_errors() {
        Some(errors) => Err(errors),
        None => Ok(config),
    }
}
