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

/// Lines kept around a mark.
const AROUND: usize = 8;

/// The useful end of some output, at most `max` bytes: without terminal codes, as lossy UTF-8. If its
/// end is short of marks, the lines around the last marks before it are put in front.
pub fn useful_end(output: &[u8], max: usize) -> String {
    let text = plain(&String::from_utf8_lossy(output));
    if text.len() <= max {
        return text.trim_end().to_owned();
    }
    let end = cut(&text, max / 2);
    let before = &text[..text.len() - end.len()];
    let lines: Vec<&str> = before.lines().collect();
    let marked = |line: &str| {
        let lower = line.to_ascii_lowercase();
        MARKS.iter().any(|mark| lower.contains(mark))
    };
    let mut kept = Vec::new();
    let mut room = max - end.len().min(max);
    let mut until = lines.len();
    while let Some(at) = lines[..until].iter().rposition(|line| marked(line)) {
        let from = at.saturating_sub(AROUND);
        let block = lines[from..(at + AROUND).min(until)].join("\n");
        // Room for the line that says something is left out.
        if block.len() + 8 > room {
            break;
        }
        room -= block.len() + 8;
        kept.push(block);
        until = from;
    }
    kept.reverse();
    let mut parts = kept;
    parts.push(end.trim_end().to_owned());
    format!("[…]\n{}", parts.join("\n[…]\n"))
}

/// The last bytes of a text, from the beginning of a line where there is one.
fn cut(text: &str, max: usize) -> &str {
    let mut from = text.len().saturating_sub(max);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    match text[from..].find('\n') {
        Some(line) if line + 1 < text.len() - from => &text[from + line + 1..],
        _ => &text[from..],
    }
}

/// A text without terminal codes and carriage returns.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => match chars.next() {
                // CSI: parameters, then one final byte.
                Some('[') => while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
                // OSC: up to BEL or ESC \.
                Some(']') => {
                    while let Some(c) = chars.next() {
                        if c == '\u{7}' || (c == '\u{1b}' && chars.next_if_eq(&'\\').is_some()) {
                            break;
                        }
                    }
                }
                _ => {}
            },
            '\r' => {}
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_output_is_whole_and_plain() {
        assert_eq!(
            useful_end(b"\x1b[31merror\x1b[0m: no\r\n", 100),
            "error: no"
        );
        assert_eq!(useful_end(b"caf\xe9\n", 100), "caf\u{fffd}");
        assert_eq!(useful_end(b"\x1b]0;title\x07x", 100), "x");
        assert_eq!(useful_end(b"", 100), "");
    }

    #[test]
    fn the_last_failure_is_kept_though_it_is_far_from_the_end() {
        let mut output = String::from("test a ... ok\n");
        output.push_str("thread 'b' panicked at src/lib.rs:7:\nassertion failed: 1 == 2\n");
        for n in 0..1000 {
            output.push_str(&format!("cleaning up {n}\n"));
        }
        let end = useful_end(output.as_bytes(), 2000);
        assert!(end.len() <= 2100, "{}", end.len());
        assert!(end.contains("panicked at src/lib.rs:7"), "{end}");
        assert!(end.ends_with("cleaning up 999"), "{end}");
    }
}
