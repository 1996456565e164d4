//! What an edit does to a file: the bytes an approval is bound to, and what a person is shown of it.
//! Pure. It does not read the file, and no rule matches by it: rules match paths.

/// Bytes of one text that a person is shown, marks included.
const SHOWN: usize = 1024;

/// What an edit does to its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// Puts a whole file there.
    Whole {
        /// All of it.
        content: &'a str,
    },
    /// Puts one text in place of another.
    Piece {
        /// What is replaced.
        old: &'a str,
        /// What comes in its place.
        new: &'a str,
        /// Whether it is replaced wherever it occurs.
        all: bool,
    },
}

impl Change<'_> {
    /// Bytes that no other change has.
    pub(super) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Whole { content } => [b"whole\0", content.as_bytes()].concat(),
            Self::Piece { old, new, all } => {
                let kind: &[u8] = if *all { b"all\0" } else { b"piece\0" };
                // The length says where the first text ends, whatever is in it.
                let length = (old.len() as u64).to_le_bytes();
                [kind, &length, old.as_bytes(), new.as_bytes()].concat()
            }
        }
    }

    /// The change for a person: each line after a mark, nothing that moves a cursor or turns the
    /// direction of writing, and a word where something is left out.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Whole { content } => {
                let length = content.len();
                let lines = marked('+', content, 2 * SHOWN);
                format!("the whole file, {length} bytes:\n{lines}")
            }
            Self::Piece { old, new, all } => {
                let place = if *all {
                    "wherever it occurs"
                } else {
                    "in one place"
                };
                let (old, new) = (marked('-', old, SHOWN), marked('+', new, SHOWN));
                format!("{place}:\n{old}{new}")
            }
        }
    }
}

/// The lines of a text, each after a mark, at most `max` bytes of them and a word about the rest.
fn marked(mark: char, text: &str, max: usize) -> String {
    if text.is_empty() {
        return String::new();
    }
    let mut out = format!("{mark} ");
    for (at, c) in text.char_indices() {
        if out.len() + c.len_utf8() + 2 > max {
            let (left, all) = (text.len() - at, text.len());
            return format!("{out}\n[cut: {left} of {all} bytes are not shown]\n");
        }
        match c {
            '\n' => out.extend(['\n', mark, ' ']),
            c => out.push(visible(c)),
        }
    }
    out.push('\n');
    out
}

/// The character, or a replacement for one that would hide itself or others.
pub(super) fn visible(c: char) -> char {
    match c {
        '\t' => c,
        '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}' => char::REPLACEMENT_CHARACTER,
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn piece<'a>(old: &'a str, new: &'a str, all: bool) -> Change<'a> {
        Change::Piece { old, new, all }
    }

    #[test]
    fn no_two_changes_have_the_same_bytes() {
        let changes = [
            Change::Whole { content: "" },
            Change::Whole { content: "ab" },
            Change::Whole { content: "ab\n" },
            piece("a", "b", false),
            piece("a", "b", true),
            piece("ab", "", false),
            piece("ab", "c", false),
            piece("a", "bc", false),
            piece("b", "a", false),
        ];
        let bytes: BTreeSet<_> = changes.iter().map(Change::bytes).collect();
        assert_eq!(bytes.len(), changes.len());
    }

    #[test]
    fn a_person_sees_what_changes() {
        let table = [
            (
                Change::Whole {
                    content: "a\n\u{1b}[2Kb\r",
                },
                "the whole file, 8 bytes:\n+ a\n+ \u{fffd}[2Kb\u{fffd}\n",
            ),
            (Change::Whole { content: "" }, "the whole file, 0 bytes:\n"),
            (
                piece("a\tb", "x\u{202e}\n[cut: 0]", false),
                "in one place:\n- a\tb\n+ x\u{fffd}\n+ [cut: 0]\n",
            ),
            (piece("a", "", true), "wherever it occurs:\n- a\n"),
        ];
        for (change, want) in table {
            assert_eq!(change.shown(), want);
        }
        // A long text does not push the other out of sight.
        let long = "é\n".repeat(5000);
        let shown = piece(&long, "the end", false).shown();
        assert!(
            shown.contains(" of 15000 bytes are not shown]\n+ the end\n"),
            "{shown}"
        );
    }

    proptest! {
        #[test]
        fn what_is_shown_is_short_and_says_what_is_cut(text in "(?s).{0,3000}") {
            for change in [Change::Whole { content: &text }, piece(&text, &text, true)] {
                let shown = change.shown();
                prop_assert!(shown.len() <= 2 * SHOWN + 200, "{}", shown.len());
                prop_assert!(!shown.contains(|c: char| c != '\n' && c != visible(c)));
            }
            let shown = Change::Whole { content: &text }.shown();
            let lines = text.split('\n').count();
            let is_whole = text.is_empty() || shown.lines().count() == lines + 1;
            prop_assert!(is_whole || shown.contains("\n[cut: "));
        }
    }
}
