//! The beginning and the end of a stream of any length, in bounded memory. Pure; `spawn` feeds it.

use std::collections::VecDeque;

/// What is kept of one output stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// Its first bytes.
    pub head: Vec<u8>,
    /// Its last bytes, none of which are in `head`.
    pub tail: Vec<u8>,
    /// Bytes it had in all.
    pub total: u64,
}

impl Captured {
    /// The stream as text, with a line that names the bytes left out in the middle. What is not
    /// UTF-8 becomes U+FFFD.
    pub fn text(&self) -> String {
        let left_out = self.left_out();
        if left_out == 0 {
            return String::from_utf8_lossy(&self.both()).into_owned();
        }
        let mut text = String::from_utf8_lossy(cut_end(&self.head)).into_owned();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&note(left_out));
        text.push_str(&String::from_utf8_lossy(cut_start(&self.tail)));
        text
    }

    /// At most the last `max` bytes of the stream as text, after a line that names the bytes left out
    /// before them, if any are.
    pub fn tail_text(&self, max: usize) -> String {
        let kept = if self.left_out() == 0 {
            self.both()
        } else {
            self.tail.clone()
        };
        let mut end = kept.as_slice();
        if end.len() > max {
            end = cut_start(&end[end.len() - max..]);
        } else if self.left_out() > 0 {
            end = cut_start(end);
        }
        let left_out = self.total.saturating_sub(end.len() as u64);
        let text = String::from_utf8_lossy(end);
        if left_out == 0 {
            text.into_owned()
        } else {
            note(left_out) + &text
        }
    }

    fn both(&self) -> Vec<u8> {
        [self.head.as_slice(), self.tail.as_slice()].concat()
    }

    fn left_out(&self) -> u64 {
        self.total
            .saturating_sub((self.head.len() + self.tail.len()) as u64)
    }
}

fn note(bytes: u64) -> String {
    format!("[… {bytes} bytes left out …]\n")
}

/// The bytes without a character that begins before them.
fn cut_start(bytes: &[u8]) -> &[u8] {
    let partial = bytes
        .iter()
        .take(3)
        .take_while(|&&byte| byte & 0xC0 == 0x80)
        .count();
    &bytes[partial..]
}

/// The bytes without a character that ends after them.
fn cut_end(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        // Not UTF-8 somewhere before the end, so only the last few bytes matter.
        Err(_) => {
            let from = bytes.len().saturating_sub(3);
            match bytes[from..].iter().rposition(|&byte| byte >= 0xC0) {
                Some(at) if std::str::from_utf8(&bytes[from + at..]).is_err() => {
                    &bytes[..from + at]
                }
                _ => bytes,
            }
        }
        Ok(_) => bytes,
    }
}

/// Gathers a [`Captured`] from chunks.
#[derive(Debug)]
pub(crate) struct Collector {
    head: Vec<u8>,
    head_limit: usize,
    tail: VecDeque<u8>,
    tail_limit: usize,
    total: u64,
}

impl Collector {
    /// One that keeps so many bytes of each end.
    pub(crate) fn new(head_limit: usize, tail_limit: usize) -> Self {
        Self {
            head: Vec::new(),
            head_limit,
            tail: VecDeque::new(),
            tail_limit,
            total: 0,
        }
    }

    /// Takes the next bytes.
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.total += chunk.len() as u64;
        let room = (self.head_limit - self.head.len()).min(chunk.len());
        let (first, rest) = chunk.split_at(room);
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.tail_limit)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// What was kept.
    pub(crate) fn finish(self) -> Captured {
        Captured {
            head: self.head,
            tail: self.tail.into(),
            total: self.total,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn captured(head: usize, tail: usize, bytes: &[u8]) -> Captured {
        let mut collector = Collector::new(head, tail);
        collector.push(bytes);
        collector.finish()
    }

    #[test]
    fn texts() {
        let table: [(usize, usize, &[u8], &str); 8] = [
            (4, 4, b"", ""),
            (4, 4, b"12345678", "12345678"),
            (
                4,
                4,
                b"123456789",
                "1234\n[\u{2026} 1 bytes left out \u{2026}]\n6789",
            ),
            (
                0,
                4,
                b"123456789",
                "[\u{2026} 5 bytes left out \u{2026}]\n6789",
            ),
            // A character across the seam of head and tail is whole.
            (1, 9, "é".as_bytes(), "é"),
            // Characters cut by what is left out vanish.
            (
                2,
                2,
                "aéxxéb".as_bytes(),
                "a\n[\u{2026} 4 bytes left out \u{2026}]\nb",
            ),
            (8, 8, b"a\xffb", "a\u{fffd}b"),
            (
                3,
                1,
                b"\xffa\xc3zz",
                "\u{fffd}a\n[\u{2026} 1 bytes left out \u{2026}]\nz",
            ),
        ];
        for (head, tail, bytes, want) in table {
            assert_eq!(captured(head, tail, bytes).text(), want, "{bytes:?}");
        }
    }

    #[test]
    fn tails() {
        assert_eq!(captured(4, 4, b"12345678").tail_text(8), "12345678");
        assert_eq!(
            captured(4, 4, b"12345678").tail_text(3),
            "[\u{2026} 5 bytes left out \u{2026}]\n678"
        );
        assert_eq!(
            captured(2, 4, b"12345678").tail_text(100),
            "[\u{2026} 4 bytes left out \u{2026}]\n5678"
        );
        assert_eq!(
            captured(9, 9, b"12").tail_text(0),
            "[\u{2026} 2 bytes left out \u{2026}]\n"
        );
    }

    proptest! {
        #[test]
        fn both_ends_are_exact_however_it_is_cut(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            cuts in prop::collection::vec(1usize..40, 1..20),
            head in 0usize..50,
            tail in 0usize..50,
        ) {
            let mut collector = Collector::new(head, tail);
            let (mut rest, mut cut) = (bytes.as_slice(), cuts.iter().cycle());
            while !rest.is_empty() {
                let n = (*cut.next().expect("cycles")).min(rest.len());
                collector.push(&rest[..n]);
                rest = &rest[n..];
            }
            let got = collector.finish();
            let h = head.min(bytes.len());
            let t = tail.min(bytes.len() - h);
            prop_assert_eq!(&got.head, &bytes[..h]);
            prop_assert_eq!(&got.tail, &bytes[bytes.len() - t..]);
            prop_assert_eq!(got.total, bytes.len() as u64);
            let _ = (got.text(), got.tail_text(7));
        }
    }
}
