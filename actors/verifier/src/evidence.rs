//! The useful end of a check's output: what a person, or the next attempt, has to see of it. Pure.

/// Words that mark the lines worth keeping, as test runners and compilers write them.
const MARKS: [&str; 9] = [
    "error",
    "fail",
    "panicked",
    "assert",
    "expected",
    "traceback",
    "exception",
    "not ok",
    "fatal",
];

/// Lines kept on each side of a mark; fewer where they would not fit.
const AROUND: [usize; 3] = [8, 2, 0];

/// Stands for what is left out.
const GAP: &str = "[…]\n";

/// The useful end of some output, at most `max` bytes: as it would stand on a screen, without terminal
/// codes, as lossy UTF-8. If all of it is too long, half is its very end, and half the lines around the
/// last marks before that; without such marks all is the end. What is left out is shown as `[…]`.
pub fn useful_end(output: &[u8], max: usize) -> String {
    let text = plain(&String::from_utf8_lossy(output));
    let text = text.trim_end();
    if text.len() <= max {
        return text.to_owned();
    }
    let Some(max) = max.checked_sub(GAP.len()) else {
        return last(text, max).to_owned();
    };
    let end = last(text, max / 2);
    let kept = marked(&text[..text.len() - end.len()], max - end.len());
    if kept.is_empty() {
        return format!("{GAP}{}", last(text, max));
    }
    format!("{GAP}{}{end}", kept.concat())
}

/// The lines around the last marks of a text, in its order, each piece with the gap after it, in at most
/// `room` bytes.
fn marked(text: &str, mut room: usize) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let is_marked = |line: &&str| {
        let lower = line.to_ascii_lowercase();
        MARKS.iter().any(|mark| lower.contains(mark))
    };
    let mut kept = Vec::new();
    let mut until = lines.len();
    while let Some(at) = lines[..until].iter().rposition(is_marked) {
        let pieces = AROUND.iter().map(|around| {
            let from = at.saturating_sub(*around);
            let to = (at + around + 1).min(until);
            (from, format!("{}\n{GAP}", lines[from..to].join("\n")))
        });
        let Some((from, piece)) = pieces.into_iter().find(|(_, piece)| piece.len() <= room) else {
            break;
        };
        room -= piece.len();
        kept.push(piece);
        until = from;
    }
    kept.reverse();
    kept
}

/// The last bytes of a text, from the beginning of a line where there is one.
fn last(text: &str, max: usize) -> &str {
    let mut from = text.len().saturating_sub(max);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    if from == 0 || text[..from].ends_with('\n') {
        return &text[from..];
    }
    match text[from..].find('\n') {
        Some(line) => &text[from + line + 1..],
        None => &text[from..],
    }
}

/// A text as a terminal would show it: without its codes, and of a line written over only what was
/// written last.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut returned = false;
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => match chars.next_if(|c| *c != '\n') {
                // Parameters, then one final byte.
                Some('[') => {
                    while chars.next_if(|c| (' '..='?').contains(c)).is_some() {}
                    chars.next_if(|c| ('@'..='~').contains(c));
                }
                // A string, up to BEL or ESC \; no title has two lines.
                Some(']' | 'P' | 'X' | '^' | '_') => {
                    while let Some(c) = chars.next_if(|c| *c != '\n') {
                        if c == '\u{7}' || (c == '\u{1b}' && chars.next_if_eq(&'\\').is_some()) {
                            break;
                        }
                    }
                }
                // More of the code, then its final byte.
                Some(' '..='/') => {
                    while chars.next_if(|c| (' '..='/').contains(c)).is_some() {}
                    chars.next_if(|c| ('0'..='~').contains(c));
                }
                _ => {}
            },
            '\r' => returned = true,
            '\n' => {
                returned = false;
                out.push('\n');
            }
            c => {
                if std::mem::take(&mut returned) {
                    out.truncate(out.rfind('\n').map_or(0, |line| line + 1));
                }
                let shown = !c.is_control() || c == '\t';
                out.push(if shown { c } else { '\u{fffd}' });
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short_output_is_whole_and_plain() {
        let table: [(&[u8], &str); 14] = [
            (b"", ""),
            (b"\x1b[31merror\x1b[0m: no\r\n", "error: no"),
            (b"caf\xe9\n", "caf\u{fffd}"),
            (b"\x1b]0;title\x07x", "x"),
            (b"\x1b]0;title\x1b\\x", "x"),
            // A code that never ends takes its line and no more.
            (b"\x1b]0;title\nerror: x", "\nerror: x"),
            (b"\x1b[31\nerror: x", "\nerror: x"),
            (b"\x1b(Bx\x1b=y\x1b", "xy"),
            (b"\x1b\nx", "\nx"),
            // Progress, and what stood below it.
            (b"10 %\r 50 %\r100 %\ndone", "100 %\ndone"),
            (b"a\r\r\nb\r", "a\nb"),
            (b"one\ntwo\rTWO", "one\nTWO"),
            (b"a\tb\x00c\x08", "a\tb\u{fffd}c\u{fffd}"),
            (b"x  \n\n \n", "x"),
        ];
        for (output, want) in table {
            assert_eq!(useful_end(output, 100), want, "{output:?}");
        }
    }

    #[test]
    fn the_last_failure_is_kept_though_it_is_far_from_the_end() {
        let mut output = String::from("test a ... ok\n");
        output.push_str("thread 'b' panicked at src/lib.rs:7:\nassertion failed: 1 == 2\n");
        for n in 0..1000 {
            output.push_str(&format!("cleaning up {n}\n"));
        }
        let end = useful_end(output.as_bytes(), 2000);
        assert!(
            end.contains("test a ... ok\nthread 'b' panicked at src/lib.rs:7"),
            "{end}"
        );
        assert!(end.contains("cleaning up 7\n[…]\n"), "{end}");
        assert!(end.ends_with("cleaning up 999"), "{end}");
        // In little room, at least the line itself.
        let end = useful_end(output.as_bytes(), 100);
        assert!(
            end.starts_with("[…]\nassertion failed: 1 == 2\n[…]\n"),
            "{end}"
        );
    }

    #[test]
    fn without_marks_all_of_it_is_the_end() {
        let lines: Vec<String> = (0..1000).map(|n| format!("line {n}")).collect();
        let end = useful_end(lines.join("\n").as_bytes(), 1000);
        assert!(end.len() > 980 && end.starts_with("[…]\nline "), "{end}");
        assert!(end.ends_with("line 999"), "{end}");
    }

    proptest! {
        #[test]
        fn never_more_than_asked_for_and_always_its_end(
            parts in prop::collection::vec(
                prop_oneof![
                    Just("\n".to_owned()), Just("\r".to_owned()), Just("\u{1b}[1m".to_owned()),
                    Just("error: é".to_owned()), "[a-z ]{0,30}", any::<char>().prop_map(String::from),
                ],
                0..80,
            ),
            max in 0usize..300,
        ) {
            let output = parts.concat();
            let end = useful_end(output.as_bytes(), max);
            prop_assert!(end.len() <= max, "{} of {max}: {end:?}", end.len());
            prop_assert!(!end.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
            let whole = useful_end(output.as_bytes(), usize::MAX);
            let tail = end.rsplit(GAP).next().expect("there is a last piece");
            prop_assert!(whole.ends_with(tail), "{tail:?} of {whole:?}");
        }
    }
}
