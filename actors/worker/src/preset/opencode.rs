//! OpenCode (1.18): `opencode run --format json`. It reads stdin to its end and appends it to the
//! message. A permission nobody can give is refused by itself and ends the run with exit code 0 and
//! without a last word, so only a last step that stopped by itself, with words in it, is a success.

use ronde_protocol::Usage;
use serde_json::Value;

use super::{Launch, Reader, Said, Setting, Trouble, dollars, number, text};

/// Its keys are in its own state, or are named by the loop: they depend on the provider.
pub(super) const VARIABLES: &[&str] = &[
    "OPENCODE_CONFIG",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
];

pub(super) fn launch(setting: &Setting<'_>) -> Launch {
    let mut argv = vec!["opencode", "run", "--format", "json"];
    if setting.is_confined() {
        argv.push("--auto");
    }
    if let Some(model) = setting.model {
        argv.extend(["--model", model]);
    }
    argv.push("Do the following task.");
    let folders = [
        ("XDG_DATA_HOME", ".local/share"),
        ("XDG_STATE_HOME", ".local/state"),
        ("XDG_CACHE_HOME", ".cache"),
        ("XDG_CONFIG_HOME", ".config"),
    ];
    Launch {
        argv: argv.into_iter().map(Into::into).collect(),
        env: vec![("OPENCODE_DISABLE_AUTOUPDATE", "1")],
        state: folders
            .into_iter()
            .filter_map(|(variable, under_home)| setting.folder(variable, under_home))
            .map(|folder| folder.join("opencode"))
            .collect(),
        state_files: vec![],
    }
}

/// What has been read.
#[derive(Default)]
pub(super) struct Stream {
    error: Option<String>,
    /// Why the last step ended, once it has.
    reason: Option<String>,
    /// Words since the last tool.
    last_words: String,
    steps: u32,
    usage: Usage,
}

impl Reader for Stream {
    fn line(&mut self, line: &Value) -> Option<String> {
        match text(line, "/type")? {
            "step_start" => {
                self.steps = self.steps.saturating_add(1);
                self.reason = None;
            }
            "text" => {
                let words = text(line, "/part/text")?.to_owned();
                if !words.trim().is_empty() {
                    self.last_words.clone_from(&words);
                    return Some(words);
                }
            }
            "tool_use" => self.last_words.clear(),
            "step_finish" => {
                self.reason = Some(text(line, "/part/reason").unwrap_or("unknown").to_owned());
                self.usage = self.usage.plus(usage(line));
            }
            "error" => {
                let error = [
                    "/error/data/message",
                    "/error/message",
                    "/error/name",
                    "/error",
                ]
                .iter()
                .find_map(|at| text(line, at));
                self.error = Some(error.unwrap_or("it reports an error").to_owned());
            }
            _ => {}
        }
        None
    }

    fn said(&self) -> Said {
        let failed = |error: String| Err(Trouble::Failed(error));
        let end = match (&self.error, self.reason.as_deref()) {
            (Some(error), _) => failed(error.clone()),
            (None, Some("stop")) if !self.last_words.is_empty() => Ok(()),
            (None, Some("stop")) => failed("it ended without a last word".to_owned()),
            (None, Some(reason)) => failed(format!(
                "it ended in the middle of its work ({reason}); a permission that nobody could give \
                 does that"
            )),
            (None, None) => failed("its stream ended within a step".to_owned()),
        };
        Said {
            end,
            claim: self.last_words.clone(),
            iterations: self.steps,
            usage: self.usage,
        }
    }
}

fn usage(line: &Value) -> Usage {
    let tokens = |name: &str| number(line, &format!("/part/tokens/{name}"));
    let usage = Usage {
        input: tokens("input"),
        cached: tokens("cache/read"),
        cache_write: tokens("cache/write"),
        output: tokens("output"),
        cost: dollars(line, "/part/cost"),
    };
    // Some providers count reasoning apart from the output: then the sum is short of the total.
    let missing = tokens("total")
        .saturating_sub(usage.amount().tokens)
        .min(tokens("reasoning"));
    Usage {
        output: usage.output.saturating_add(missing),
        ..usage
    }
}

#[cfg(test)]
mod tests {
    use ronde_protocol::{MicroUsd, access::Level};

    use super::*;
    use crate::preset::{Preset::OpenCode, tests};

    const STEP: &str = r#"
{"type":"step_start","timestamp":1,"sessionID":"s","part":{}}
{"type":"text","timestamp":2,"sessionID":"s","part":{"text":"I look."}}
{"type":"tool_use","timestamp":3,"sessionID":"s","part":{"tool":"bash"}}
{"type":"step_finish","timestamp":4,"sessionID":"s","part":{"reason":"tool-calls","tokens":{"input":10,"output":2,"reasoning":3,"total":35,"cache":{"read":20,"write":0}},"cost":0.001}}
"#;
    const LAST: &str = r#"
{"type":"step_start","timestamp":5,"sessionID":"s","part":{}}
{"type":"text","timestamp":6,"sessionID":"s","part":{"text":"Done."}}
{"type":"step_finish","timestamp":7,"sessionID":"s","part":{"reason":"stop","tokens":{"input":5,"output":4,"reasoning":1,"total":9,"cache":{"read":0,"write":0}},"cost":0.0005}}
"#;

    #[test]
    fn a_last_step_with_words_is_a_success() {
        let (said, shown) = tests::read(OpenCode, &format!("{STEP}{LAST}"));
        assert_eq!(
            (said.end, said.claim.as_str(), said.iterations),
            (Ok(()), "Done.", 2)
        );
        let cost = MicroUsd(1500);
        let usage = Usage {
            input: 15,
            cached: 20,
            cache_write: 0,
            output: 2 + 3 + 4,
            cost,
        };
        assert_eq!(said.usage, usage);
        assert_eq!(shown, ["I look.", "Done."]);
    }

    #[test]
    fn a_refused_permission_or_an_error_is_no_success() {
        let end = |stream: String| tests::read(OpenCode, &stream).0.end;
        let has = |end: Result<(), Trouble>, part: &str| match end {
            Err(Trouble::Failed(error)) => assert!(error.contains(part), "{error}"),
            other => panic!("{other:?}"),
        };
        has(end(STEP.to_owned()), "permission");
        has(
            end(STEP.lines().take(4).collect::<Vec<_>>().join("\n")),
            "within a step",
        );
        let silent = LAST.replace("Done.", " ");
        has(end(format!("{STEP}{silent}")), "without a last word");
        let error = r#"{"type":"error","timestamp":8,"sessionID":"s","error":{"name":"APIError","data":{"message":"quota"}}}"#;
        has(end(format!("{STEP}{LAST}{error}")), "quota");
    }

    #[test]
    fn it_says_yes_to_itself_only_inside_a_sandbox() {
        let (argv, launch) = tests::launch(
            OpenCode,
            Level::WorkspaceWrite,
            &[("HOME", "/h"), ("XDG_DATA_HOME", "/d")],
        );
        assert_eq!(
            argv.join(" "),
            "opencode run --format json --auto --model m Do the following task."
        );
        assert_eq!(launch.state[0], std::path::Path::new("/d/opencode"));
        assert_eq!(
            launch.state[1],
            std::path::Path::new("/h/.local/state/opencode")
        );
        let (argv, _) = tests::launch(OpenCode, Level::Full, &[]);
        assert!(!argv.contains(&"--auto".to_owned()));
    }
}
