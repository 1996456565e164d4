//! Splits a command into words and simple commands, as the shell's grammar does.

use super::{Script, Word, program};
use crate::pattern::UNSURE;

/// A here-document that is announced and not yet read.
struct Here {
    end: String,
    literal: bool,
    strip_tabs: bool,
}

pub(super) struct Reader<'a> {
    chars: &'a [char],
    at: usize,
    script: &'a mut Script,
    here: Vec<Here>,
}

/// A simple command as it is gathered.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) words: Vec<Word>,
    /// Whether it redirects to or from something that matters.
    pub(super) redirects: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(chars: &'a [char], script: &'a mut Script) -> Self {
        Self {
            chars,
            at: 0,
            script,
            here: Vec::new(),
        }
    }

    /// Reads everything.
    pub(super) fn all(&mut self) {
        self.commands(false);
        if self.at < self.chars.len() {
            self.script.hide("its parentheses do not match");
        }
        if !self.here.is_empty() {
            self.script.hide("its here-document does not end");
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn starts(&self, text: &str) -> bool {
        text.chars()
            .enumerate()
            .all(|(i, c)| self.peek(i) == Some(c))
    }

    fn skip(&mut self, text: &str) -> bool {
        let found = self.starts(text);
        if found {
            self.at += text.chars().count();
        }
        found
    }

    /// Reads commands up to the end, or up to the parenthesis that closes a substitution, which is
    /// read too. Returns whether it closed.
    fn commands(&mut self, nested: bool) -> bool {
        let mut depth = 0_usize;
        let mut command = Gathered::default();
        loop {
            let Some(c) = self.peek(0) else {
                self.finish(&mut command);
                if depth > 0 {
                    self.script.hide("its parentheses do not match");
                }
                return false;
            };
            match c {
                ' ' | '\t' => self.at += 1,
                '\\' if self.peek(1) == Some('\n') => self.at += 2,
                '\n' => {
                    self.at += 1;
                    self.finish(&mut command);
                    self.here_documents();
                }
                '#' => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                '&' if self.starts("&>") => {
                    self.at += 2;
                    let _ = self.skip(">");
                    self.target(&mut command);
                }
                ';' | '&' | '|' => {
                    self.at += 1;
                    self.finish(&mut command);
                }
                '(' => {
                    if !command.words.is_empty() {
                        self.script.hide("it has parentheses after a word");
                    } else if self.peek(1) == Some('(') {
                        self.script.hide("it has an arithmetic command");
                    }
                    self.at += 1;
                    depth += 1;
                    self.finish(&mut command);
                }
                ')' => {
                    self.finish(&mut command);
                    if depth > 0 {
                        depth -= 1;
                    } else if nested {
                        self.at += 1;
                        return true;
                    } else {
                        self.script.hide("its parentheses do not match");
                    }
                    self.at += 1;
                }
                '<' | '>' if self.peek(1) != Some('(') => self.redirect(&mut command),
                _ => {
                    let word = self.word();
                    let digits = !word.quoted && word.text.chars().all(|c| c.is_ascii_digit());
                    // A number that touches a redirection belongs to it.
                    if digits && matches!(self.peek(0), Some('<' | '>')) {
                        self.redirect(&mut command);
                    } else {
                        if self.peek(0) == Some('(') {
                            self.script.hide("it has parentheses after a word");
                        }
                        command.words.push(word);
                    }
                }
            }
        }
    }

    fn finish(&mut self, command: &mut Gathered) {
        program::simple(self.script, std::mem::take(command));
    }

    fn blanks(&mut self) {
        while self.skip(" ") || self.skip("\t") || self.skip("\\\n") {}
    }

    fn redirect(&mut self, command: &mut Gathered) {
        if self.skip("<<<") {
            command.redirects = true;
            self.blanks();
            let _ = self.word();
        } else if self.skip("<<") {
            command.redirects = true;
            let strip_tabs = self.skip("-");
            self.blanks();
            let literal = self.peek(0).is_some_and(|_| {
                self.chars[self.at..]
                    .iter()
                    .take_while(|c| !c.is_whitespace() && !";&|<>()".contains(**c))
                    .any(|c| matches!(c, '\'' | '"' | '\\'))
            });
            let end = self.word();
            if !end.is_known() || end.text.is_empty() || end.text.contains('\n') {
                self.script
                    .hide("the end of its here-document is not known");
            }
            self.here.push(Here {
                end: end.text,
                literal,
                strip_tabs,
            });
        } else {
            for operator in [">>", ">&", ">|", "<&", "<>", ">", "<"] {
                if self.skip(operator) {
                    break;
                }
            }
            self.target(command);
        }
    }

    /// Reads what a redirection leads to.
    fn target(&mut self, command: &mut Gathered) {
        self.blanks();
        let copies = self.at > 0 && self.chars[self.at - 1] == '&';
        let word = self.word();
        if word.text.is_empty() && !word.quoted {
            self.script.hide("a redirection leads nowhere");
        }
        let number = word.text.chars().all(|c| c.is_ascii_digit() || c == '-');
        if word.text != "/dev/null" && !(copies && number) {
            command.redirects = true;
        }
    }

    fn here_documents(&mut self) {
        for here in std::mem::take(&mut self.here) {
            let mut ended = false;
            while self.at < self.chars.len() && !ended {
                let rest = &self.chars[self.at..];
                let length = rest.iter().position(|&c| c == '\n').unwrap_or(rest.len());
                let line: String = rest[..length].iter().collect();
                self.at += (length + 1).min(rest.len());
                let bare = if here.strip_tabs {
                    line.trim_start_matches('\t')
                } else {
                    &line
                };
                if bare == here.end {
                    ended = true;
                } else if !here.literal {
                    // A continued line could swallow the end; a substitution runs.
                    if line.ends_with('\\') || line.contains('`') || line.contains("$(") {
                        self.script.hide("its here-document runs something");
                    }
                }
            }
            if !ended {
                self.script.hide("its here-document does not end");
            }
        }
    }

    /// Reads a word. It is empty where none begins.
    fn word(&mut self) -> Word {
        let mut word = Word::default();
        let mut brace = false;
        let mut set = None;
        while let Some(c) = self.peek(0) {
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' => break,
                '<' | '>' => {
                    if self.peek(1) != Some('(') {
                        break;
                    }
                    self.at += 2;
                    self.substitution();
                    word.text.push(UNSURE);
                }
                '\\' => {
                    self.at += 1;
                    match self.peek(0) {
                        Some('\n') => self.at += 1,
                        Some(escaped) => {
                            self.at += 1;
                            word.text.push(escaped);
                            word.quoted = true;
                        }
                        None => self.script.hide("it ends in a backslash"),
                    }
                }
                '\'' => {
                    self.at += 1;
                    word.quoted = true;
                    loop {
                        match self.peek(0) {
                            Some('\'') => break,
                            Some(c) => word.text.push(c),
                            None => {
                                self.script.hide("its quotes do not match");
                                return word;
                            }
                        }
                        self.at += 1;
                    }
                    self.at += 1;
                }
                '"' => {
                    self.at += 1;
                    word.quoted = true;
                    self.double_quoted(&mut word);
                }
                '$' => self.dollar(&mut word, false),
                '`' => self.backtick(&mut word),
                '*' | '?' | '[' => {
                    self.at += 1;
                    // `[` and `[[` alone are commands.
                    if c == '[' && word.text.is_empty() {
                        let _ = self.skip("[").then(|| word.text.push('['));
                        if self.peek(0).is_none_or(char::is_whitespace) {
                            word.text.push('[');
                            continue;
                        }
                    }
                    if c == '[' {
                        let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                        if !word.text.is_empty() && word.text.chars().all(name) {
                            self.subscript();
                        }
                        // What a set matches is not worked out, nor where it ends.
                        set.get_or_insert(word.text.len());
                    }
                    word.text.push(UNSURE);
                }
                '{' => {
                    self.at += 1;
                    brace = true;
                    word.text.push('{');
                }
                ',' | '.' if brace && (c == ',' || self.peek(1) == Some('.')) => {
                    self.at += 1;
                    // A brace expansion: several words, none of them known.
                    // The rest is read for its substitutions alone.
                    word.quoted |= self.word().quoted;
                    word.text = UNSURE.to_string();
                    return word;
                }
                _ => {
                    self.at += 1;
                    word.text.push(c);
                }
            }
        }
        if let Some(start) = set {
            word.text.truncate(start);
            word.text.push(UNSURE);
        }
        word
    }

    /// Looks whether a bracket within a word ends in it. In `a[ 1 <<2]=x` it does not, and what looks
    /// like a here-document there is a shift: taking it for one would hide what follows.
    fn subscript(&mut self) {
        let rest = self.chars[self.at..].iter();
        let ends = rest.take_while(|c| !c.is_whitespace() && !"<>&|;()'\"\\$`".contains(**c));
        if !ends.into_iter().any(|&c| c == ']') {
            self.script.hide("it has a subscript that is not followed");
        }
    }

    fn double_quoted(&mut self, word: &mut Word) {
        while let Some(c) = self.peek(0) {
            match c {
                '"' => {
                    self.at += 1;
                    return;
                }
                '\\' => {
                    self.at += 1;
                    match self.peek(0) {
                        Some('\n') => {}
                        Some(c @ ('$' | '`' | '"' | '\\')) => word.text.push(c),
                        Some(c) => word.text.extend(['\\', c]),
                        None => break,
                    }
                    self.at += 1;
                }
                '$' => self.dollar(word, true),
                '`' => self.backtick(word),
                _ => {
                    self.at += 1;
                    word.text.push(c);
                }
            }
        }
        self.script.hide("its quotes do not match");
    }

    fn dollar(&mut self, word: &mut Word, quoted: bool) {
        self.at += 1;
        match self.peek(0) {
            Some('(') if self.peek(1) == Some('(') => {
                let start = self.at + 2;
                let simple = |c: &char| c.is_ascii_alphanumeric() || "_ +-*/%$".contains(*c);
                let length = self.chars[start..].iter().take_while(|c| simple(c)).count();
                self.at = start + length;
                if self.skip("))") {
                    word.text.push(UNSURE);
                    return;
                }
                self.script.hide("it calculates");
                // It may be a substitution that begins with a subshell, so it is read as one.
                self.at = start - 1;
                self.substitution();
            }
            Some('(') => {
                self.at += 1;
                self.substitution();
            }
            Some('{') => {
                self.at += 1;
                self.parameter();
            }
            Some('[') => self.script.hide("it calculates"),
            Some('\'') if !quoted => {
                self.at += 1;
                word.quoted = true;
                while let Some(c) = self.peek(0) {
                    self.at += if c == '\\' { 2 } else { 1 };
                    if c == '\'' {
                        word.text.push(UNSURE);
                        return;
                    }
                }
                self.script.hide("its quotes do not match");
            }
            Some('"') if !quoted => return,
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                while self
                    .peek(0)
                    .is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
                {
                    self.at += 1;
                }
            }
            Some(c) if c.is_ascii_digit() || "@*#?$!-".contains(c) => self.at += 1,
            _ => {
                word.text.push('$');
                return;
            }
        }
        word.text.push(UNSURE);
    }

    fn substitution(&mut self) {
        if !self.commands(true) {
            self.script.hide("its parentheses do not match");
        }
    }

    /// Reads the rest of `${…}`. Only what is surely without an effect is let pass.
    fn parameter(&mut self) {
        let start = self.at;
        let mut depth = 1_usize;
        while let Some(c) = self.peek(0) {
            self.at += 1;
            match c {
                '{' => depth += 1,
                '}' => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                '`' | '(' | '\'' | '"' | '\\' | '<' | '>' => {
                    self.script
                        .hide("it has an expansion that may run something");
                }
                _ => {}
            }
        }
        if depth > 0 {
            self.script.hide("its braces do not match");
        }
        let inside: String = self.chars[start..self.at].iter().collect();
        if inside.contains("@P") {
            self.script
                .hide("it has an expansion that may run something");
        }
    }

    fn backtick(&mut self, word: &mut Word) {
        self.at += 1;
        let mut inner = String::new();
        loop {
            match self.peek(0) {
                Some('`') => break,
                Some('\\') if matches!(self.peek(1), Some('`' | '$' | '\\')) => {
                    inner.extend(self.peek(1));
                    self.at += 2;
                }
                Some(c) => {
                    inner.push(c);
                    self.at += 1;
                }
                None => {
                    self.script.hide("its backquotes do not match");
                    return;
                }
            }
        }
        self.at += 1;
        self.script.read(&inner);
        word.text.push(UNSURE);
    }
}
