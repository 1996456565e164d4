//! Cuts a stream into lines in bounded memory. Pure.

/// Bytes of the longest line that is kept; a longer one is passed over.
pub(crate) const LONGEST: usize = 8 * 1024 * 1024;

/// A line splitter that is fed chunks.
#[derive(Debug)]
pub(crate) struct Lines {
    longest: usize,
    part: Vec<u8>,
    /// The line at hand is too long, or began before the first chunk.
    skip: bool,
}

impl Lines {
    /// For lines of at most so many bytes.
    pub(crate) fn new(longest: usize) -> Self {
        Self {
            longest,
            part: Vec::new(),
            skip: false,
        }
    }

    /// For a stream whose first line is not whole.
    pub(crate) fn mid_line(longest: usize) -> Self {
        Self {
            skip: true,
            ..Self::new(longest)
        }
    }

    /// Takes the next bytes and gives each line that ended.
    pub(crate) fn push(&mut self, mut chunk: &[u8], mut each: impl FnMut(&[u8])) {
        while let Some(at) = chunk.iter().position(|&byte| byte == b'\n') {
            self.take(&chunk[..at]);
            self.finish(&mut each);
            chunk = &chunk[at + 1..];
        }
        self.take(chunk);
    }

    /// Gives the last line, if it has no end.
    pub(crate) fn finish(&mut self, mut each: impl FnMut(&[u8])) {
        if !self.skip && !self.part.is_empty() {
            each(&self.part);
        }
        self.part.clear();
        self.skip = false;
    }

    fn take(&mut self, bytes: &[u8]) {
        if self.skip {
            return;
        }
        if self.part.len() + bytes.len() > self.longest {
            self.skip = true;
            self.part = Vec::new();
        } else {
            self.part.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(mut lines: Lines, chunks: &[&str]) -> Vec<String> {
        let mut all = Vec::new();
        let mut keep = |line: &[u8]| all.push(String::from_utf8_lossy(line).into_owned());
        for chunk in chunks {
            lines.push(chunk.as_bytes(), &mut keep);
        }
        lines.finish(&mut keep);
        all
    }

    #[test]
    fn lines_however_they_come() {
        assert_eq!(
            split(Lines::new(9), &["a\nb", "c\n", "\nd"]),
            ["a", "bc", "d"]
        );
        assert_eq!(
            split(Lines::new(3), &["abcd\ne\nab", "cd", "\nf"]),
            ["e", "f"]
        );
        assert_eq!(split(Lines::new(3), &["abc\nabcd"]), ["abc"]);
        assert_eq!(split(Lines::mid_line(9), &["rest", " of it\na\n"]), ["a"]);
        assert_eq!(split(Lines::new(3), &[]), [""; 0]);
    }
}
