//! Sees a model that goes in circles: the same calls with the same arguments, again and again, over as
//! many rounds as it takes. Pure.

use std::collections::VecDeque;

use ronde_protocol::Digest;
use serde_json::Value;

/// The same call so often in a row ends a turn.
const IN_A_ROW: usize = 5;
/// A cycle of several calls so often in a row ends a turn.
const CYCLES: usize = 4;
/// The longest cycle that is seen, in calls.
const LONGEST: usize = 4;

/// The last tool calls of a conversation.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    /// The newest last.
    last: VecDeque<(String, Digest)>,
}

impl Repeats {
    /// Takes the next call. Says, in words, if the conversation goes in circles now.
    pub(crate) fn note(&mut self, tool: &str, input: &Value) -> Option<String> {
        // `Value` keeps its keys sorted, so equal inputs have equal texts.
        self.last
            .push_back((tool.to_owned(), Digest::of(input.to_string())));
        if self.last.len() > LONGEST * CYCLES {
            self.last.pop_front();
        }
        if self.repeats(1, IN_A_ROW) {
            return Some(format!(
                "`{tool}` was called {IN_A_ROW} times in a row with the same input"
            ));
        }
        (2..=LONGEST)
            .find(|&length| self.repeats(length, CYCLES))
            .map(|length| {
                let tools: Vec<_> = self
                    .last
                    .iter()
                    .rev()
                    .take(length)
                    .map(|(t, _)| t.as_str())
                    .collect();
                let tools: Vec<_> = tools
                    .into_iter()
                    .rev()
                    .map(|tool| format!("`{tool}`"))
                    .collect();
                format!(
                    "the same {length} calls ({}) were made {CYCLES} times in a row",
                    tools.join(", ")
                )
            })
    }

    /// Whether the last calls are one cycle of this length, so many times.
    fn repeats(&self, length: usize, times: usize) -> bool {
        let Some(from) = self.last.len().checked_sub(length * times) else {
            return false;
        };
        (from..self.last.len() - length).all(|at| self.last[at] == self.last[at + length])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// After how many calls the circle is seen.
    fn seen(calls: &[&str]) -> Option<usize> {
        let mut repeats = Repeats::default();
        calls
            .iter()
            .position(|call| repeats.note("t", &json!({ "x": call })).is_some())
            .map(|at| at + 1)
    }

    #[test]
    fn circles() {
        let table: [(&str, Option<usize>); 8] = [
            ("aaaa", None),
            ("aaaaa", Some(5)),
            ("baaaaa", Some(6)),
            ("aaaabaaaa", None),
            ("abababab", Some(8)),
            ("xabcabcabcabc", Some(13)),
            ("abcdabcdabcdabcd", Some(16)),
            ("ababab", None),
        ];
        for (calls, want) in table {
            let calls: Vec<String> = calls.chars().map(String::from).collect();
            let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
            assert_eq!(seen(&calls), want, "{calls:?}");
        }
    }

    #[test]
    fn the_order_of_keys_does_not_hide_a_circle() {
        let mut repeats = Repeats::default();
        let texts = [r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#];
        let seen = (0..IN_A_ROW)
            .map(|at| serde_json::from_str(texts[at % 2]).expect("json"))
            .filter(|input| repeats.note("t", input).is_some())
            .count();
        assert_eq!(seen, 1);
    }

    proptest! {
        #[test]
        fn calls_that_all_differ_are_never_a_circle(n in 1usize..200) {
            let mut repeats = Repeats::default();
            for i in 0..n {
                prop_assert_eq!(repeats.note("t", &json!({ "i": i })), None);
            }
        }

        #[test]
        fn any_short_cycle_is_seen_in_the_end(prefix in prop::collection::vec(0u8..9, 0..9), cycle in prop::collection::vec(0u8..9, 1..=LONGEST)) {
            let mut repeats = Repeats::default();
            let calls = prefix.into_iter().chain(cycle.iter().copied().cycle().take(LONGEST * IN_A_ROW));
            let seen = calls.into_iter().any(|call| repeats.note("t", &json!({ "i": call })).is_some());
            prop_assert!(seen);
        }
    }
}
