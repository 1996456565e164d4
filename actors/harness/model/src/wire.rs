//! Requests and responses in a form no provider owns. Pure: adapters translate it, and [`render`]
//! shows that a request only ever grows at its end.

use ronde_protocol::Usage;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Everything a model is given for one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The model, `provider/name`.
    pub model: String,
    /// The part of the prompt that never changes.
    pub system: String,
    /// The tools, in a fixed order.
    pub tools: Vec<ToolSpec>,
    /// What was said and done so far; only ever appended to.
    pub items: Vec<Item>,
    /// Tokens the answer may have at most. No part of [`render`]: it shrinks with the budget.
    pub max_output: u32,
}

/// A tool as the model is shown it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does, in the words the model reads.
    pub description: String,
    /// JSON Schema of its input, an object.
    pub input_schema: Value,
}

/// One entry of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Item {
    /// What the harness says.
    User {
        /// The words.
        text: String,
    },
    /// What the model answered, block by block, unchanged.
    Assistant {
        /// The blocks.
        blocks: Vec<Block>,
    },
    /// What its tool calls came to: one for each, in the order asked.
    ToolResults {
        /// The results.
        results: Vec<ToolResult>,
    },
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Block {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// A tool is to be used.
    ToolUse {
        /// The call's id, unique within a conversation.
        id: String,
        /// The tool.
        name: String,
        /// Its input.
        input: Value,
    },
    /// Reasoning that only its provider can read. It goes back exactly as it came.
    Reasoning {
        /// JSON text, byte for byte.
        raw: String,
    },
}

/// What one tool call came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call.
    pub id: String,
    /// What the model reads.
    pub content: String,
    /// Whether that tells of a failure or a refusal.
    pub is_error: bool,
}

/// What a model answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// The blocks. A tool call whose input came incomplete is not among them.
    pub blocks: Vec<Block>,
    /// Why it stopped.
    pub stop: StopReason,
    /// Tokens used; the price is filled in by the client.
    pub usage: Usage,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model has said what it had to say.
    EndTurn,
    /// It waits for tool results.
    ToolUse,
    /// The limit of output tokens cut it off.
    MaxTokens,
    /// It will not answer.
    Refusal,
}

/// The request as bytes, for byte counts and for the exact-prefix rule: what stays the same (model,
/// system, tools) on the first line, then one line an item. Of two requests of one conversation, the
/// earlier one's bytes are a prefix of the later one's.
pub fn render(request: &Request) -> Vec<u8> {
    #[derive(Serialize)]
    struct Envelope<'a> {
        model: &'a str,
        system: &'a str,
        tools: &'a [ToolSpec],
    }
    let mut bytes = Vec::new();
    let Request {
        model,
        system,
        tools,
        items,
        max_output: _,
    } = request;
    line(
        &mut bytes,
        &Envelope {
            model,
            system,
            tools,
        },
    );
    for item in items {
        line(&mut bytes, item);
    }
    bytes
}

fn line(bytes: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(&mut *bytes, value)
        .expect("these types have only text keys and writing to memory cannot fail");
    bytes.push(b'\n');
}

impl Response {
    /// Its words, block by block, with a line break between blocks.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self
            .blocks
            .iter()
            .filter_map(|block| match block {
                Block::Text { text } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        texts.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shrinks_with_the_budget_is_not_rendered_and_growth_is_at_the_end() {
        let mut request = Request {
            model: "scripted/s".into(),
            system: "s".into(),
            tools: vec![],
            items: vec![Item::User {
                text: "a\nb".into(),
            }],
            max_output: 5,
        };
        let first = render(&request);
        request.max_output = 4;
        assert_eq!(render(&request), first);
        request.items.push(Item::Assistant {
            blocks: vec![Block::Reasoning {
                raw: r#"{"b":1, "a":2}"#.into(),
            }],
        });
        let second = render(&request);
        assert!(second.starts_with(&first) && second.len() > first.len());
        assert_eq!(first.iter().filter(|&&byte| byte == b'\n').count(), 2);
    }
}
