//! Claude Code (2.1): `claude -p` with a stream of JSON lines. Its truth is the `result` line: an API
//! failure has the subtype `success` and `is_error: true`; an interrupted tool exits with 0 although
//! `is_error` is true; SIGTERM leaves no `result` line at all.

use ronde_protocol::{Usage, outcome::Limit};
use serde_json::Value;

use super::{Launch, Reader, Said, Setting, Trouble, dollars, number, text};

pub(super) const VARIABLES: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CONFIG_DIR",
];

pub(super) fn launch(setting: &Setting<'_>) -> Launch {
    let mode = if setting.is_confined() {
        "bypassPermissions"
    } else {
        "acceptEdits"
    };
    let iterations = setting.iterations.to_string();
    let mut argv = vec![
        "claude",
        "-p",
        "--output-format",
        "stream-json",
        "--verbose",
        "--permission-mode",
        mode,
        "--max-turns",
        &iterations,
    ];
    if let Some(model) = setting.model {
        argv.extend(["--model", model]);
    }
    let mut env = vec![
        ("DISABLE_AUTOUPDATER", "1"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ];
    if setting.is_confined() {
        // Without it root may not bypass its questions.
        env.push(("IS_SANDBOX", "1"));
    }
    // Beside its folder it keeps one file, inside the folder where that is set by name.
    let state_files = match (setting.var("CLAUDE_CONFIG_DIR"), setting.var("HOME")) {
        (None, Some(home)) => vec![std::path::Path::new(home).join(".claude.json")],
        _ => vec![],
    };
    Launch {
        argv: argv.into_iter().map(Into::into).collect(),
        env,
        state: setting
            .folder("CLAUDE_CONFIG_DIR", ".claude")
            .into_iter()
            .collect(),
        state_files,
    }
}

/// What has been read.
#[derive(Default)]
pub(super) struct Stream {
    result: Option<(Result<(), Trouble>, String)>,
    /// Its last words so far, for a stream that breaks off.
    words: String,
    turns: u32,
    usage: Usage,
}

impl Reader for Stream {
    fn line(&mut self, line: &Value) -> Option<String> {
        match text(line, "/type")? {
            "assistant" => {
                let blocks = line.pointer("/message/content")?.as_array()?;
                let words: Vec<_> = blocks
                    .iter()
                    .filter_map(|block| text(block, "/text"))
                    .collect();
                let words = words.join("\n");
                // What a helper of its own says is not its last word.
                if line.get("parent_tool_use_id").is_none_or(Value::is_null) && !words.is_empty() {
                    self.words.clone_from(&words);
                }
                (!words.is_empty()).then_some(words)
            }
            "result" => {
                self.turns = u32::try_from(number(line, "/num_turns")).unwrap_or(u32::MAX);
                self.usage = Usage {
                    input: number(line, "/usage/input_tokens"),
                    cached: number(line, "/usage/cache_read_input_tokens"),
                    cache_write: number(line, "/usage/cache_creation_input_tokens"),
                    output: number(line, "/usage/output_tokens"),
                    cost: dollars(line, "/total_cost_usd"),
                };
                let subtype = text(line, "/subtype").unwrap_or("unknown");
                let words = text(line, "/result").unwrap_or_default();
                let sound = line.get("is_error").and_then(Value::as_bool) == Some(false);
                let end = match subtype {
                    "success" if sound => Ok(()),
                    "error_max_turns" => Err(Trouble::Limit(Limit::Iterations)),
                    _ => Err(Trouble::Failed(trouble(line, subtype, words))),
                };
                self.result = Some((end, words.to_owned()));
                None
            }
            _ => None,
        }
    }

    fn said(&self) -> Said {
        let (end, claim) = self.result.clone().unwrap_or_else(|| {
            let error = "its stream ended without a result line".to_owned();
            (Err(Trouble::Failed(error)), self.words.clone())
        });
        let claim = if claim.is_empty() {
            self.words.clone()
        } else {
            claim
        };
        Said {
            end,
            claim,
            iterations: self.turns,
            usage: self.usage,
        }
    }
}

fn trouble(line: &Value, subtype: &str, words: &str) -> String {
    let mut parts = vec![subtype];
    if subtype == "success" {
        parts = vec![text(line, "/terminal_reason").unwrap_or("it reports an error")];
    }
    if let Some(errors) = line.get("errors").and_then(Value::as_array) {
        parts.extend(errors.iter().filter_map(Value::as_str));
    }
    if !words.is_empty() {
        parts.push(words);
    }
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    use ronde_protocol::{MicroUsd, access::Level};

    use super::*;
    use crate::preset::{Preset::Claude, tests};

    const BEGIN: &str = r#"
{"type":"system","subtype":"init","session_id":"s","tools":["Bash"],"model":"m","permissionMode":"bypassPermissions"}
{"type":"assistant","message":{"id":"a","content":[{"type":"text","text":"I look."}]},"parent_tool_use_id":null}
{"type":"assistant","message":{"id":"a","content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]},"parent_tool_use_id":null}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}}
{"type":"assistant","message":{"id":"b","content":[{"type":"text","text":"Helper words."}]},"parent_tool_use_id":"t"}
"#;

    fn result(rest: &str) -> String {
        format!(
            r#"{BEGIN}{{"type":"result",{rest},"num_turns":3,"total_cost_usd":0.0123,"usage":{{"input_tokens":10,"cache_creation_input_tokens":20,"cache_read_input_tokens":30,"output_tokens":40}}}}"#
        )
    }

    #[test]
    fn a_result_is_what_it_says_of_itself() {
        let (said, shown) = tests::read(
            Claude,
            &result(r#""subtype":"success","is_error":false,"result":"Done.""#),
        );
        assert_eq!(
            (said.end, said.claim.as_str(), said.iterations),
            (Ok(()), "Done.", 3)
        );
        let cost = MicroUsd(12_300);
        let usage = Usage {
            input: 10,
            cached: 30,
            cache_write: 20,
            output: 40,
            cost,
        };
        assert_eq!(said.usage, usage);
        assert_eq!(shown, ["I look.", "Helper words."]);
    }

    #[test]
    fn an_error_is_an_error_whatever_its_subtype() {
        let failed = |error: &str| Err(Trouble::Failed(error.to_owned()));
        let table = [
            (
                r#""subtype":"success","is_error":true,"terminal_reason":"api_error","result":"API Error: 529""#,
                failed("api_error: API Error: 529"),
            ),
            (
                r#""subtype":"error_during_execution","is_error":true,"errors":["aborted"]"#,
                failed("error_during_execution: aborted"),
            ),
            (
                r#""subtype":"success","result":"x""#,
                failed("it reports an error: x"),
            ),
            (
                r#""subtype":"error_max_turns","is_error":true"#,
                Err(Trouble::Limit(Limit::Iterations)),
            ),
        ];
        for (line, want) in table {
            assert_eq!(tests::read(Claude, &result(line)).0.end, want, "{line}");
        }
    }

    #[test]
    fn a_stream_without_a_result_is_no_success() {
        let (said, _) = tests::read(Claude, BEGIN);
        assert!(
            matches!(&said.end, Err(Trouble::Failed(error)) if error.contains("without a result"))
        );
        assert_eq!(said.claim, "I look.");
    }

    #[test]
    fn its_own_questions_are_off_only_inside_a_sandbox() {
        let (argv, launch) = tests::launch(Claude, Level::WorkspaceWrite, &[("HOME", "/h")]);
        assert_eq!(
            argv.join(" "),
            "claude -p --output-format stream-json --verbose --permission-mode bypassPermissions \
             --max-turns 7 --model m"
        );
        assert!(launch.env.contains(&("IS_SANDBOX", "1")));
        assert_eq!(launch.state, [std::path::Path::new("/h/.claude")]);
        assert_eq!(
            launch.state_files,
            [std::path::Path::new("/h/.claude.json")]
        );
        let env = [("HOME", "/h"), ("CLAUDE_CONFIG_DIR", "/c")];
        let (argv, launch) = tests::launch(Claude, Level::Full, &env);
        assert!(argv.contains(&"acceptEdits".to_owned()));
        assert!(!launch.env.contains(&("IS_SANDBOX", "1")));
        assert_eq!(
            (launch.state, launch.state_files.len()),
            (vec!["/c".into()], 0)
        );
    }
}
