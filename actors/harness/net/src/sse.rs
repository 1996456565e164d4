//! Server-sent events, as the HTML standard (section 9.2) has them: bytes in, events out. Pure; it opens
//! no connection and waits for nothing.

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sse {
    /// The last id the stream gave, with this event or before it.
    pub id: Option<String>,
    /// Its kind, where the stream names one.
    pub event: Option<String>,
    /// Its data, the lines joined by `\n`.
    pub data: String,
}

/// The most bytes an event may have, its lines and what is read of the next one added.
pub const LARGEST: usize = 16 * 1024 * 1024;

/// Reads a stream piece by piece. The borders of the pieces mean nothing.
#[derive(Debug)]
pub struct Parser {
    limit: usize,
    line: Vec<u8>,
    /// No line has ended yet: a byte order mark may come.
    first: bool,
    /// The last byte was a carriage return: a line feed belongs to it.
    after_cr: bool,
    too_large: bool,
    id: Option<String>,
    event: Option<String>,
    data: Option<String>,
}

impl Default for Parser {
    fn default() -> Self {
        Self::new(LARGEST)
    }
}

impl Parser {
    /// At the beginning of a stream whose events have at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            first: true,
            after_cr: false,
            too_large: false,
            id: None,
            event: None,
            data: None,
        }
    }

    /// The next bytes; the events that end in them. Once an event is too large, nothing more comes out.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<Sse> {
        let mut events = Vec::new();
        let mut rest = chunk;
        while !rest.is_empty() && !self.too_large {
            if std::mem::take(&mut self.after_cr) && rest[0] == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            self.line
                .extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
            let held = self.data.as_ref().map_or(0, String::len);
            if self.line.len().saturating_add(held) > self.limit {
                self.too_large = true;
                self.line = Vec::new();
                self.data = None;
                break;
            }
            let Some(end) = end else { break };
            self.after_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            events.extend(self.end_line());
        }
        events
    }

    /// Whether an event was larger than it may be: the rest of the stream is lost.
    pub fn too_large(&self) -> bool {
        self.too_large
    }

    fn end_line(&mut self) -> Option<Sse> {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if std::mem::take(&mut self.first) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            let event = self.event.take();
            let data = self.data.take()?;
            let id = self.id.clone();
            return Some(Sse { id, event, data });
        }
        let text = String::from_utf8_lossy(line);
        let (field, value) = text.split_once(':').unwrap_or((&text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        let some = || Some(value.to_owned()).filter(|value| !value.is_empty());
        match field {
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "event" => self.event = some(),
            "id" if !value.contains('\0') => self.id = some(),
            // A comment (the field is empty), `retry`, and whatever else there may be.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event(id: &str, event: &str, data: &str) -> Sse {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Sse {
            id: some(id),
            event: some(event),
            data: data.to_owned(),
        }
    }

    fn all(bytes: &[u8]) -> Vec<Sse> {
        Parser::default().push(bytes)
    }

    #[test]
    fn as_the_standard_says() {
        let table: [(&str, Vec<Sse>); 21] = [
            ("", vec![]),
            ("data: a\n\n", vec![event("", "", "a")]),
            ("data: a\r\n\r\n", vec![event("", "", "a")]),
            (
                "data: a\r\rdata: b\r\r",
                vec![event("", "", "a"), event("", "", "b")],
            ),
            (
                "data: a\r\n\ndata: b\n\r\n",
                vec![event("", "", "a"), event("", "", "b")],
            ),
            ("data: a\ndata: b\ndata\n\n", vec![event("", "", "a\nb\n")]),
            ("data\n\n", vec![event("", "", "")]),
            ("data:\n\n", vec![event("", "", "")]),
            ("data:  two\n\n", vec![event("", "", " two")]),
            ("data: a", vec![]),
            ("data: a\n", vec![]),
            (": ping\n\n", vec![]),
            (": ping\ndata: a\n: pong\n\n", vec![event("", "", "a")]),
            (
                "event: e\nid: 7\ndata: a: b\n\n",
                vec![event("7", "e", "a: b")],
            ),
            // A kind is of one event, an id of all that follow until there is another.
            (
                "id: 7\nevent: e\n\ndata: a\n\nid\ndata: b\n\n",
                vec![event("7", "", "a"), event("", "", "b")],
            ),
            ("id: 7\nid: 8\0\ndata: a\n\n", vec![event("7", "", "a")]),
            (
                "retry: 10\nother: x\n data: y\ndata: a\n\n",
                vec![event("", "", "a")],
            ),
            ("\u{feff}data: a\n\n", vec![event("", "", "a")]),
            ("\u{feff}\u{feff}data: a\n\n", vec![]),
            ("data: a\n\u{feff}data: b\n\n", vec![event("", "", "a")]),
            ("data: \u{feff}é\n\n", vec![event("", "", "\u{feff}é")]),
        ];
        for (text, want) in table {
            assert_eq!(all(text.as_bytes()), want, "{text:?}");
        }
        assert_eq!(all(b"data: \xff\n\n"), vec![event("", "", "\u{fffd}")]);
    }

    #[test]
    fn what_is_too_large_ends_it() {
        let mut fits = Parser::new(10);
        assert_eq!(fits.push(b"data: 1234\n\n").len(), 1);
        assert!(!fits.too_large());
        for text in [
            "data: 12345",
            "data: 12345\n\n",
            "data: 1\ndata: 2\ndata: 333\ndata: 4\n\n",
            ":2345678901",
        ] {
            let mut parser = Parser::new(10);
            assert_eq!(parser.push(b"data: a\n\n"), vec![event("", "", "a")]);
            assert_eq!(parser.push(text.as_bytes()), vec![], "{text:?}");
            assert!(parser.too_large(), "{text:?}");
            assert_eq!(parser.push(b"\n\ndata: b\n\n"), vec![], "{text:?}");
        }
    }

    /// Streams of pieces that mean something, and some that do not.
    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            4 => prop::sample::select(vec!["\n", "\r", "\r\n", "\n\n", "data: ", "data", "id: ", "event:", ":", "é", "\u{feff}", "€uro", "x"])
                .prop_map(|text| text.as_bytes().to_vec()),
            1 => prop::collection::vec(any::<u8>(), 0..4),
        ];
        prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn borders_mean_nothing(bytes in stream(), cuts in prop::collection::vec(0usize..80, 0..12), limit in 0usize..60) {
            let mut whole = Parser::new(limit);
            let want = whole.push(&bytes);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut parser = Parser::new(limit);
            let mut got = Vec::new();
            for cut in cuts.windows(2) {
                got.extend(parser.push(&bytes[cut[0]..cut[1]]));
            }
            prop_assert_eq!(&got, &want);
            prop_assert_eq!(parser.too_large(), whole.too_large());
            let mut single = Parser::new(limit);
            let got: Vec<Sse> = bytes.iter().flat_map(|byte| single.push(&[*byte])).collect();
            prop_assert_eq!(got, want);
        }
    }
}
