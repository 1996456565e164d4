//! Cuts long texts to what a model should read: the beginning and the end, with a line between that
//! says what is missing. Pure.

/// The text, or its beginning and end where it has more than `head + tail` bytes. `whole` names where
/// the rest can be found.
pub(crate) fn middle(text: &str, head: usize, tail: usize, whole: &str) -> String {
    if text.len() <= head.saturating_add(tail) {
        return text.to_owned();
    }
    let start = &text[..text.floor_char_boundary(head)];
    let end = &text[text.ceil_char_boundary(text.len() - tail)..];
    let left_out = text.len() - start.len() - end.len();
    let line_break = if start.is_empty() || start.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    format!("{start}{line_break}[… {left_out} bytes left out{whole} …]\n{end}")
}

/// The last `max` bytes of a text, after a mark where something is missing.
pub(crate) fn end(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    format!("…{}", &text[text.ceil_char_boundary(text.len() - max)..])
}

/// The first line of a text, at most `max` bytes of it.
pub(crate) fn line(text: &str, max: usize) -> String {
    let first = text.trim().lines().next().unwrap_or_default();
    let cut = &first[..first.floor_char_boundary(max)];
    if cut.len() < text.trim().len() {
        format!("{cut}…")
    } else {
        cut.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_ends_stay() {
        assert_eq!(middle("abcdef", 3, 3, ""), "abcdef");
        assert_eq!(
            middle("abcdefg", 3, 3, ""),
            "abc\n[… 1 bytes left out …]\nefg"
        );
        assert_eq!(
            middle("ab\ndefg", 3, 3, " (x)"),
            "ab\n[… 1 bytes left out (x) …]\nefg"
        );
        assert_eq!(middle("ééé", 1, 1, ""), "[… 6 bytes left out …]\n");
        assert_eq!(line(" a\nb", 9), "a…");
        assert_eq!(line("abc", 2), "ab…");
        assert_eq!(end("ééa", 3), "…éa");
    }

    proptest! {
        #[test]
        fn nothing_panics_and_lengths_hold(text in "\\PC{0,80}", head in 0usize..90, tail in 0usize..90) {
            let cut = middle(&text, head, tail, "");
            prop_assert!(cut.len() <= head + tail + 60);
            let _ = (line(&text, head), end(&text, tail));
        }
    }
}
