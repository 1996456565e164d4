//! What a model is given before it says anything, in layers from the most to the least constant: the
//! system text, the tools, the project's own instructions, the surroundings, the task. Later requests
//! only append, so each is an exact prefix of the next. Pure.

use std::fmt::Write as _;

use ronde_model::wire::{Item, Request};
use ronde_protocol::access::Level;

use crate::{Turn, cut, tools};

/// The part that is the same for every attempt of every run.
const SYSTEM: &str = include_str!("context/system.md");
/// Bytes of a project's instructions that are given.
const INSTRUCTIONS: usize = 64 * 1024;

/// The first request of an attempt.
pub(crate) fn first(turn: &Turn) -> Request {
    let mut items = Vec::new();
    if let Some(text) = turn
        .agents_md
        .as_deref()
        .filter(|text| !text.trim().is_empty())
    {
        let text = cut::middle(text.trim_end(), INSTRUCTIONS, 0, "");
        items.push(Item::User {
            text: format!("# Instructions of the project (AGENTS.md)\n\n{text}"),
        });
    }
    items.push(Item::User {
        text: surroundings(turn),
    });
    items.push(Item::User {
        text: turn.prompt.clone(),
    });
    Request {
        model: turn.model.clone(),
        system: SYSTEM.to_owned(),
        tools: tools::enabled(turn).map(tools::Tool::spec).collect(),
        items,
        max_output: turn.max_output,
    }
}

fn surroundings(turn: &Turn) -> String {
    let files = match turn.access.level {
        Level::ReadOnly => "No file can be changed, except in the folder $TMPDIR.",
        Level::WorkspaceWrite => "Files can be changed in the workspace and in the folder $TMPDIR.",
        Level::Full => {
            "Commands are not isolated: take care to change nothing outside the workspace."
        }
    };
    let network = if turn.access.network {
        "There is network."
    } else {
        "There is no network."
    };
    let mut text = format!("# Surroundings\n\n{files} {network}");
    write!(text, " You have at most {} answers.", turn.iterations)
        .expect("writing to a String cannot fail");
    text
}
