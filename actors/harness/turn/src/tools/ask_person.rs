//! `ask_person`: a question only a person can answer. It ends the turn; the answer comes in the prompt
//! of the next attempt.

use serde::Deserialize;
use serde_json::{Value, json};

pub(super) fn spec() -> (&'static str, Value) {
    (
        "Asks a person something that only a person can decide. It ends your turn at once: what you \
         did so far stays, and you go on later with the answer.",
        json!({
            "type": "object",
            "properties": {
                "question": { "type": "string", "description": "The question, with all that is needed to answer it." }
            },
            "required": ["question"],
            "additionalProperties": false
        }),
    )
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    question: String,
}

/// The question.
pub(super) fn question(input: Input) -> Result<String, String> {
    let question = input.question.trim();
    if question.is_empty() {
        return Err("`question` must not be empty".to_owned());
    }
    Ok(question.to_owned())
}
