//! Codex (0.171): `codex exec --json`, the prompt on stdin (`-`). `error` lines also tell of each
//! reconnect, so only `turn.failed`, or a stream without `turn.completed`, is a failure. With its default
//! settings it waits for ever for a server that is down; the flag against that is set.
//!
//! Its own sandbox (bubblewrap) needs mounts and user namespaces that a process under ronde's sandbox
//! does not get, so inside it runs as `danger-full-access`; the outer sandbox holds it.

use ronde_protocol::{MicroUsd, Usage};
use serde_json::Value;

use super::{Launch, Reader, Said, Setting, Trouble, number, text};

pub(super) const VARIABLES: &[&str] = &[
    "CODEX_API_KEY",
    "CODEX_HOME",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
];

pub(super) fn launch(setting: &Setting<'_>) -> Launch {
    let sandbox = if setting.is_confined() {
        "danger-full-access"
    } else {
        "workspace-write"
    };
    let mut argv = vec![
        "codex",
        "exec",
        "--json",
        "--skip-git-repo-check",
        "--disable",
        "unbounded_connection_retries",
        "--sandbox",
        sandbox,
    ];
    if let Some(model) = setting.model {
        argv.extend(["--model", model]);
    }
    argv.push("-");
    Launch {
        argv: argv.into_iter().map(Into::into).collect(),
        env: vec![],
        state: setting.folder("CODEX_HOME", ".codex").into_iter().collect(),
        state_files: vec![],
    }
}

/// What has been read.
#[derive(Default)]
pub(super) struct Stream {
    completed: bool,
    failed: Option<String>,
    /// The last `error` line: often only a reconnect.
    last_error: Option<String>,
    words: String,
    usage: Usage,
}

impl Reader for Stream {
    fn line(&mut self, line: &Value) -> Option<String> {
        match text(line, "/type")? {
            "item.completed" if text(line, "/item/type") == Some("agent_message") => {
                let words = text(line, "/item/text")?.to_owned();
                self.words.clone_from(&words);
                return Some(words);
            }
            "turn.completed" => {
                self.completed = true;
                let (all, cached, cache_write) = (
                    number(line, "/usage/input_tokens"),
                    number(line, "/usage/cached_input_tokens"),
                    number(line, "/usage/cache_write_input_tokens"),
                );
                // Here the input includes what was read from and written to the cache.
                self.usage = self.usage.plus(Usage {
                    input: all.saturating_sub(cached).saturating_sub(cache_write),
                    cached,
                    cache_write,
                    output: number(line, "/usage/output_tokens"),
                    cost: MicroUsd(0),
                });
            }
            "turn.failed" => {
                let error = text(line, "/error/message").unwrap_or("the turn failed");
                self.failed = Some(error.to_owned());
            }
            "error" => self.last_error = text(line, "/message").map(str::to_owned),
            _ => {}
        }
        None
    }

    fn said(&self) -> Said {
        let end = match (&self.failed, self.completed) {
            (Some(error), _) => Err(Trouble::Failed(error.clone())),
            (None, true) => Ok(()),
            (None, false) => {
                let last = self.last_error.as_ref();
                let last = last.map(|error| format!("; the last error was: {error}"));
                Err(Trouble::Failed(format!(
                    "its stream ended without a completed turn{}",
                    last.unwrap_or_default()
                )))
            }
        };
        // Its stream does not tell model calls apart.
        Said {
            end,
            claim: self.words.clone(),
            iterations: 0,
            usage: self.usage,
        }
    }
}

#[cfg(test)]
mod tests {
    use ronde_protocol::access::Level;

    use super::*;
    use crate::preset::{Preset::Codex, tests};

    const BEGIN: &str = r#"
{"type":"thread.started","thread_id":"t"}
{"type":"turn.started"}
{"type":"error","message":"Reconnecting... 1/5"}
{"type":"item.completed","item":{"id":"1","type":"agent_message","text":"I look."}}
{"type":"item.completed","item":{"id":"2","type":"command_execution","command":"ls","aggregated_output":"x","exit_code":0,"status":"completed"}}
"#;

    #[test]
    fn a_completed_turn_is_a_success_even_after_a_reconnect() {
        let stream = format!(
            r#"{BEGIN}
{{"type":"item.completed","item":{{"id":"3","type":"agent_message","text":"Done."}}}}
{{"type":"turn.completed","usage":{{"input_tokens":100,"cached_input_tokens":60,"cache_write_input_tokens":10,"output_tokens":5,"reasoning_output_tokens":2}}}}"#
        );
        let (said, shown) = tests::read(Codex, &stream);
        assert_eq!((said.end, said.claim.as_str()), (Ok(()), "Done."));
        let usage = Usage {
            input: 30,
            cached: 60,
            cache_write: 10,
            output: 5,
            cost: MicroUsd(0),
        };
        assert_eq!(said.usage, usage);
        assert_eq!(shown, ["I look.", "Done."]);
    }

    #[test]
    fn a_failed_or_missing_turn_is_no_success() {
        let failed = format!(
            "{BEGIN}{}",
            r#"{"type":"turn.failed","error":{"message":"quota"}}"#
        );
        assert_eq!(
            tests::read(Codex, &failed).0.end,
            Err(Trouble::Failed("quota".into()))
        );
        let (said, _) = tests::read(Codex, BEGIN);
        let error =
            "its stream ended without a completed turn; the last error was: Reconnecting... 1/5";
        assert_eq!(said.end, Err(Trouble::Failed(error.into())));
    }

    #[test]
    fn its_own_sandbox_is_off_only_inside_ours() {
        let (argv, launch) = tests::launch(Codex, Level::WorkspaceWrite, &[("HOME", "/h")]);
        assert_eq!(
            argv.join(" "),
            "codex exec --json --skip-git-repo-check --disable unbounded_connection_retries \
             --sandbox danger-full-access --model m -"
        );
        assert_eq!(launch.state, [std::path::Path::new("/h/.codex")]);
        let (argv, launch) = tests::launch(Codex, Level::Full, &[("CODEX_HOME", "/c")]);
        assert!(argv.contains(&"workspace-write".to_owned()));
        assert_eq!(launch.state, [std::path::Path::new("/c")]);
    }
}
