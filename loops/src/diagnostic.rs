//! What is wrong with a file, where, and what to write instead.

use std::{
    fmt::{self, Write as _},
    ops::Range,
    path::{Path, PathBuf},
};

use serde::Serialize;

/// One thing that is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// The file.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1, in characters.
    pub column: usize,
    /// The same place as bytes of the file.
    pub span: Range<usize>,
    /// What is wrong: lowercase, no full stop.
    pub message: String,
    /// What to write instead, where that is known.
    pub hint: Option<String>,
    /// The line it is in, without its end.
    pub source: String,
}

impl fmt::Display for Diagnostic {
    /// `loop.toml:12:5: message`, and the hint on a line of its own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}:{}: {}",
            self.file.display(),
            self.line,
            self.column,
            self.message
        )?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl Diagnostic {
    /// The error with its line of the file and a mark under the place; with colours if asked.
    pub fn render(&self, color: bool) -> String {
        let style = |code: &'static str| if color { code } else { "" };
        let (red, blue, bold, off) = (
            style("\x1b[1;31m"),
            style("\x1b[1;34m"),
            style("\x1b[1m"),
            style("\x1b[0m"),
        );
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        // Tabs stay as they are above the mark, so that it stands under its place.
        let (source, before) = clip(&self.source, self.column - 1);
        let pad: String = before
            .chars()
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        let mark = "^".repeat(self.width(&source, before.chars().count()));
        let mut text = format!("{red}error{off}{bold}: {}{off}\n", self.message);
        let place = format!("{}:{}:{}", self.file.display(), self.line, self.column);
        writeln!(text, "{margin}{blue}-->{off} {place}").expect("a String takes all");
        writeln!(text, "{margin} {blue}|{off}").expect("a String takes all");
        writeln!(text, "{blue}{number} |{off} {source}").expect("a String takes all");
        writeln!(text, "{margin} {blue}|{off} {pad}{red}{mark}{off}").expect("a String takes all");
        if let Some(hint) = &self.hint {
            writeln!(text, "{margin} {blue}={off} {bold}hint{off}: {hint}")
                .expect("a String takes all");
        }
        text
    }

    fn width(&self, source: &str, before: usize) -> usize {
        let rest = source.chars().count().saturating_sub(before);
        self.span.len().min(rest).max(1)
    }
}

/// A line short enough for a screen, and the part of it before the place.
fn clip(line: &str, column: usize) -> (String, String) {
    const MOST: usize = 200;
    let chars: Vec<char> = line
        .chars()
        .map(|c| {
            if c.is_control() && c != '\t' {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect();
    let start = if column > MOST / 2 && chars.len() > MOST {
        column - MOST / 2
    } else {
        0
    };
    let end = chars.len().min(start + MOST);
    (
        chars[start..end].iter().collect(),
        chars[start..column.min(end)].iter().collect(),
    )
}

/// Everything that is wrong with a file, in the order of the file. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Errors(pub Vec<Diagnostic>);

impl Errors {
    /// All errors with their lines; with colours if asked.
    pub fn render(&self, color: bool) -> String {
        let parts: Vec<String> = self.0.iter().map(|error| error.render(color)).collect();
        parts.join("\n")
    }
}

impl fmt::Display for Errors {
    /// One error after the other, without colours.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, error) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_char('\n')?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}

/// A text and the errors found in it so far.
pub(crate) struct Findings<'a> {
    file: &'a Path,
    text: &'a str,
    found: Vec<Diagnostic>,
}

impl<'a> Findings<'a> {
    pub(crate) fn new(file: &'a Path, text: &'a str) -> Self {
        Self {
            file,
            text,
            found: Vec::new(),
        }
    }

    /// The text all spans point into.
    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    /// Notes an error at a place.
    pub(crate) fn error(
        &mut self,
        span: &Range<usize>,
        message: impl Into<String>,
        hint: impl Into<Option<String>>,
    ) {
        self.found.push(diagnostic(
            self.file,
            self.text,
            span.clone(),
            message.into(),
            hint.into(),
        ));
    }

    /// Whether anything was found on one of the lines of this span.
    pub(crate) fn on_lines_of(&self, span: &Range<usize>) -> bool {
        let first = line_of(self.text, span.start);
        let last = line_of(self.text, span.end.saturating_sub(1).max(span.start));
        self.found
            .iter()
            .any(|error| (first..=last).contains(&error.line))
    }

    /// The errors in the order of the file; `None` where there are none.
    pub(crate) fn into_errors(mut self) -> Option<Errors> {
        self.found
            .sort_by_key(|error| (error.span.start, error.span.end));
        self.found.dedup();
        (!self.found.is_empty()).then_some(Errors(self.found))
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}

/// An error at bytes of a text, which need not lie on borders of characters.
pub(crate) fn diagnostic(
    file: &Path,
    text: &str,
    span: Range<usize>,
    message: String,
    hint: Option<String>,
) -> Diagnostic {
    let start = floor_char(text, span.start);
    let end = floor_char(text, span.end).max(start);
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
    let source = text[line_start..line_end].trim_end_matches('\r');
    // A byte order mark is no column.
    let (source, line_start) = match source.strip_prefix('\u{feff}') {
        Some(rest) => (rest, (line_start + 3).min(start)),
        None => (source, line_start),
    };
    Diagnostic {
        file: file.to_owned(),
        line: line_of(text, start),
        column: text[line_start..start].chars().count() + 1,
        span: start..end,
        message,
        hint,
        source: source.to_owned(),
    }
}

fn floor_char(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
