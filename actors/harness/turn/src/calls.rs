//! The tool calls of an answer: each with an id that is its own, in the order asked. Pure; the loop
//! runs them.

use std::collections::BTreeSet;

use ronde_model::wire::Block;
use serde_json::Value;

/// A tool call of the model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) input: Value,
}

/// Makes the ids of an answer's calls unique over the conversation: a provider that repeats one, or
/// gives none, gets it replaced before it is ever sent back. Returns the calls.
pub(crate) fn take(blocks: &mut [Block], n: u32, seen: &mut BTreeSet<String>) -> Vec<Call> {
    let mut calls = Vec::new();
    for (index, block) in blocks.iter_mut().enumerate() {
        let Block::ToolUse { id, name, input } = block else {
            continue;
        };
        let mut attempt = index;
        while id.is_empty() || seen.contains(id) {
            *id = format!("call_{n}_{attempt}");
            attempt += 1;
        }
        seen.insert(id.clone());
        calls.push(Call {
            id: id.clone(),
            name: name.clone(),
            input: input.clone(),
        });
    }
    calls
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ids_are_unique_and_go_back_as_they_are(rounds in prop::collection::vec(prop::collection::vec("(|a|b|call_1_0|call_2_1)", 0..6), 0..5)) {
            let mut seen = BTreeSet::new();
            let mut all = Vec::new();
            for (n, ids) in (1u32..).zip(&rounds) {
                let mut blocks: Vec<_> = ids
                    .iter()
                    .map(|id| Block::ToolUse { id: id.clone(), name: "t".into(), input: Value::Null })
                    .collect();
                let calls = take(&mut blocks, n, &mut seen);
                for (call, block) in calls.iter().zip(&blocks) {
                    let goes_back = matches!(block, Block::ToolUse { id, .. } if *id == call.id);
                    prop_assert!(goes_back);
                }
                prop_assert_eq!(calls.len(), blocks.len());
                all.extend(calls.into_iter().map(|call| call.id));
            }
            let count = all.len();
            prop_assert_eq!(all.into_iter().collect::<BTreeSet<_>>().len(), count);
        }
    }
}
