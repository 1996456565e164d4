//! The raw stage: a TOML text read against the table of keys.
//!
//! It finds what is wrong with each value by itself: syntax, unknown keys, kinds, units, words of a
//! choice, parts not built yet. What keys mean together is not its business.

use std::{collections::BTreeMap, ops::Range, time::Duration};

use ronde_protocol::MicroUsd;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::{
    diagnostic::Findings,
    keys::{Key, Kind, Need, Table, Word},
    units,
    validators::Refusal,
};

/// A value and its place.
#[derive(Debug, Clone)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) span: Range<usize>,
}

/// A value of the kind its key asks for.
enum Value {
    Text(String),
    Texts(Vec<At<String>>),
    Flag(bool),
    Count(u64),
    Duration(Duration),
    Tokens(u64),
    Money(MicroUsd),
    Word(&'static str),
    Words(Vec<At<&'static str>>),
    Tables(Vec<Raw>),
    Named(Vec<(At<String>, Raw)>),
}

/// A table as written. A key with a bad value is mentioned but has none.
pub(crate) struct Raw {
    spec: &'static Table,
    pub(crate) span: Range<usize>,
    mentioned: BTreeMap<&'static str, Range<usize>>,
    values: BTreeMap<&'static str, At<Value>>,
}

macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident: $variant:ident($value:ident) -> $result:ty = $get:expr;)+) => {$(
        $(#[$doc])*
        pub(crate) fn $name(&self, key: &str) -> Option<At<$result>> {
            match self.get(key)? {
                At { value: Value::$variant($value), span } => {
                    Some(At { value: $get, span: span.clone() })
                }
                _ => None,
            }
        }
    )+};
}

impl Raw {
    getters! {
        text: Text(text) -> String = text.clone();
        texts: Texts(texts) -> Vec<At<String>> = texts.clone();
        flag: Flag(flag) -> bool = *flag;
        count: Count(count) -> u64 = *count;
        duration: Duration(duration) -> Duration = *duration;
        tokens: Tokens(tokens) -> u64 = *tokens;
        money: Money(money) -> MicroUsd = *money;
        word: Word(word) -> &'static str = *word;
        words: Words(words) -> Vec<At<&'static str>> = words.clone();
    }

    /// The tables of a key, in the file's order; one for a key that holds a single table.
    pub(crate) fn tables(&self, key: &str) -> &[Self] {
        match self.get(key) {
            Some(At {
                value: Value::Tables(tables),
                ..
            }) => tables,
            _ => &[],
        }
    }

    /// The table of a key.
    pub(crate) fn table(&self, key: &str) -> Option<&Self> {
        self.tables(key).first()
    }

    /// The tables of a key by their names.
    pub(crate) fn named(&self, key: &str) -> &[(At<String>, Self)] {
        match self.get(key) {
            Some(At {
                value: Value::Named(tables),
                ..
            }) => tables,
            _ => &[],
        }
    }

    /// Where a key is written, whatever its value.
    pub(crate) fn mention(&self, key: &str) -> Option<&Range<usize>> {
        debug_assert!(
            self.spec.key(key).is_some(),
            "`{key}` is in the table of keys"
        );
        self.mentioned.get(key)
    }

    /// Whether the value of a key could be read as tables at all.
    pub(crate) fn is_list(&self, key: &str) -> bool {
        matches!(
            self.get(key),
            Some(At {
                value: Value::Tables(_),
                ..
            })
        )
    }

    /// Whether a key of a part that is not built yet is written.
    pub(crate) fn mentions_unbuilt(&self) -> bool {
        self.mentioned.keys().any(|name| {
            self.spec
                .key(name)
                .is_some_and(|key| matches!(key.need, Need::Later { .. }))
        })
    }

    fn get(&self, key: &str) -> Option<&At<Value>> {
        debug_assert!(
            self.spec.key(key).is_some(),
            "`{key}` is in the table of keys"
        );
        self.values.get(key)
    }
}

/// Reads a text against a table. Errors go to `findings`; what could be read is returned even so, but for
/// a text that is no TOML, where what is missing may only be misspelt.
pub(crate) fn read(spec: &'static Table, findings: &mut Findings<'_>) -> Option<Raw> {
    let (document, syntax) = DeTable::parse_recoverable(findings.text());
    if let Some(at) = findings.text().find('\0') {
        findings.error(&(at..at + 1), "the file holds a NUL byte", None);
    }
    let nul = findings.text().contains('\0');
    for error in &syntax {
        let span = error.span().unwrap_or(0..0);
        let message = words_of_syntax(error.message());
        if !(nul && findings.on_lines_of(&span)) {
            findings.error(&span, message, None);
        }
    }
    let mut reader = Reader {
        root: spec,
        findings,
        quiet: !syntax.is_empty(),
    };
    let raw = reader.table(spec, document.get_ref(), 0..0);
    if !syntax.is_empty() {
        return None;
    }
    reader.missing(&raw);
    Some(raw)
}

/// A parser's message in this crate's style.
fn words_of_syntax(message: &str) -> String {
    let message = message.trim();
    let mut chars = message.chars();
    let lower: String = match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => "not TOML".to_owned(),
    };
    lower.replace('\n', ", ")
}

struct Reader<'f, 'a> {
    root: &'static Table,
    findings: &'f mut Findings<'a>,
    /// The text is no whole TOML: lines with an error of syntax get no second one.
    quiet: bool,
}

impl Reader<'_, '_> {
    fn error(
        &mut self,
        span: &Range<usize>,
        message: impl Into<String>,
        hint: impl Into<Option<String>>,
    ) {
        if !(self.quiet && self.findings.on_lines_of(span)) {
            self.findings.error(span, message, hint);
        }
    }

    fn table(&mut self, spec: &'static Table, table: &DeTable<'_>, span: Range<usize>) -> Raw {
        let mut raw = Raw {
            spec,
            span,
            mentioned: BTreeMap::new(),
            values: BTreeMap::new(),
        };
        for (name, value) in table {
            let span = name.span();
            let Some(key) = spec.key(name.get_ref()) else {
                let (message, hint) = unknown(self.root, spec, name.get_ref());
                self.error(&span, message, hint);
                continue;
            };
            raw.mentioned.insert(key.name, span.clone());
            if let Need::Later { part, instead } = key.need {
                self.error(&span, format!("{part} not built yet"), instead.to_owned());
                continue;
            }
            if let Some(read) = self.value(key, value) {
                raw.values.insert(
                    key.name,
                    At {
                        value: read,
                        span: value.span(),
                    },
                );
            }
        }
        raw
    }

    /// Notes what is required and not there, in all tables.
    fn missing(&mut self, raw: &Raw) {
        for key in raw.spec.keys {
            if key.need == Need::Required && !raw.mentioned.contains_key(key.name) {
                let (message, hint) = missing(raw.spec, key);
                self.error(&raw.span, message, hint);
            }
            match raw.values.get(key.name) {
                Some(At {
                    value: Value::Tables(tables),
                    ..
                }) => {
                    tables.iter().for_each(|table| self.missing(table));
                }
                Some(At {
                    value: Value::Named(tables),
                    ..
                }) => {
                    tables.iter().for_each(|(_, table)| self.missing(table));
                }
                _ => {}
            }
        }
    }

    fn value(&mut self, key: &Key, value: &Spanned<DeValue<'_>>) -> Option<Value> {
        let span = value.span();
        let name = key.name;
        match (&key.kind, value.get_ref()) {
            (Kind::Text, DeValue::String(text)) => self
                .plain(name, text, &span)
                .then(|| Value::Text(text.to_string())),
            (Kind::Texts, DeValue::Array(items)) => {
                let mut texts = Vec::new();
                let mut good = true;
                for item in items {
                    match item.get_ref() {
                        DeValue::String(text) => {
                            good &= self.plain(name, text, &item.span());
                            texts.push(At {
                                value: text.to_string(),
                                span: item.span(),
                            });
                        }
                        other => {
                            good = false;
                            let message =
                                format!("`{name}` is a list of strings, not of {}s", kind(other));
                            self.error(&item.span(), message, None);
                        }
                    }
                }
                good.then_some(Value::Texts(texts))
            }
            (Kind::Flag, DeValue::Boolean(flag)) => Some(Value::Flag(*flag)),
            (Kind::Count, DeValue::Integer(integer)) => {
                let number = i128::from_str_radix(integer.as_str(), integer.radix());
                match number.map(u64::try_from) {
                    Ok(Ok(0)) => {
                        let hint = format!("the least is `{name} = 1`");
                        self.error(&span, format!("`{name}` must be more than 0"), hint);
                        None
                    }
                    Ok(Ok(number)) if number <= u64::from(u32::MAX) => Some(Value::Count(number)),
                    _ => {
                        let message = format!("`{name}` is a number from 1 to {}", u32::MAX);
                        self.error(&span, message, None);
                        None
                    }
                }
            }
            (Kind::Duration, DeValue::String(text)) => {
                let read = units::duration(text);
                self.judge(&span, read).map(Value::Duration)
            }
            (Kind::Tokens, DeValue::String(text)) => {
                let read = units::tokens(text);
                self.judge(&span, read).map(Value::Tokens)
            }
            (Kind::Tokens, DeValue::Integer(integer)) if integer.radix() == 10 => {
                let read = units::tokens(integer.as_str());
                self.judge(&span, read).map(Value::Tokens)
            }
            (Kind::Money, DeValue::String(text)) => {
                let read = units::money(text);
                self.judge(&span, read).map(Value::Money)
            }
            (Kind::Choice(words), DeValue::String(text)) => {
                self.choice(name, words, text, &span).map(Value::Word)
            }
            (Kind::Choices(words), DeValue::Array(items)) => {
                let mut chosen = Vec::new();
                let mut good = true;
                for item in items {
                    let word = match item.get_ref() {
                        DeValue::String(text) => self.choice(name, words, text, &item.span()),
                        other => {
                            let message =
                                format!("`{name}` is a list of strings, not of {}s", kind(other));
                            self.error(&item.span(), message, None);
                            None
                        }
                    };
                    match word {
                        Some(word) => chosen.push(At {
                            value: word,
                            span: item.span(),
                        }),
                        None => good = false,
                    }
                }
                good.then_some(Value::Words(chosen))
            }
            (Kind::Table(spec) | Kind::TableOrTables(spec), DeValue::Table(table)) => {
                Some(Value::Tables(vec![self.table(spec, table, span)]))
            }
            (Kind::Tables(spec) | Kind::TableOrTables(spec), DeValue::Array(items)) => {
                let mut tables = Vec::new();
                for item in items {
                    if let DeValue::Table(table) = item.get_ref() {
                        tables.push(self.table(spec, table, item.span()));
                    } else {
                        let message = format!("`{name}` is a list of tables");
                        self.error(&item.span(), message, format!("write `[[{name}]]`"));
                    }
                }
                Some(Value::Tables(tables))
            }
            (Kind::Tables(_), DeValue::Table(_)) => {
                let message = format!("`{name}` can be there several times, so it is a list");
                self.error(
                    &span,
                    message,
                    format!("write `[[{name}]]` with two brackets"),
                );
                None
            }
            (Kind::Named(spec), DeValue::Table(table)) => {
                let mut tables = Vec::new();
                for (label, value) in table {
                    if let DeValue::Table(table) = value.get_ref() {
                        let table = self.table(spec, table, value.span());
                        let label = At {
                            value: label.get_ref().to_string(),
                            span: label.span(),
                        };
                        tables.push((label, table));
                    } else {
                        let message = format!("`{name}` holds tables by name");
                        let hint = format!("write `[{name}.{}]`", label.get_ref());
                        self.error(&label.span(), message, hint);
                    }
                }
                Some(Value::Named(tables))
            }
            (expected, found) => {
                let hint = example(name, expected, found);
                let message = format!(
                    "`{name}` is {}, not {}",
                    noun(expected),
                    article(kind(found))
                );
                self.error(&span, message, hint);
                None
            }
        }
    }

    /// Refuses what no text of the file may hold.
    fn plain(&mut self, name: &str, text: &str, span: &Range<usize>) -> bool {
        if text.contains('\0') {
            self.error(span, format!("`{name}` holds a NUL byte"), None);
            return false;
        }
        if text.trim().is_empty() {
            self.error(span, format!("`{name}` is empty"), None);
            return false;
        }
        true
    }

    fn choice(
        &mut self,
        name: &str,
        words: &'static [Word],
        text: &str,
        span: &Range<usize>,
    ) -> Option<&'static str> {
        match words.iter().find(|word| word.word == text) {
            Some(Word {
                word,
                instead: None,
            }) => Some(word),
            Some(Word {
                word,
                instead: Some(instead),
            }) => {
                let message = format!("`{name} = \"{word}\"` is not built yet");
                self.error(span, message, (*instead).to_owned());
                None
            }
            None => {
                let built = words.iter().filter(|word| word.instead.is_none());
                let built: Vec<&str> = built.map(|word| word.word).collect();
                let hint = match likely(text, words.iter().map(|word| word.word)) {
                    Some(likely) => format!("did you mean `{likely}`?"),
                    None => format!("one of {}", listed(&built)),
                };
                self.error(span, format!("unknown `{name}` {}", quoted(text)), hint);
                None
            }
        }
    }

    fn judge<T>(&mut self, span: &Range<usize>, read: Result<T, Refusal>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(refusal) => {
                let _: Option<()> = self.refuse(span, refusal);
                None
            }
        }
    }

    fn refuse<T>(&mut self, span: &Range<usize>, refusal: Refusal) -> Option<T> {
        self.error(span, refusal.message, refusal.hint);
        None
    }
}

fn unknown(root: &'static Table, spec: &'static Table, name: &str) -> (String, Option<String>) {
    let place = if spec.name.is_empty() {
        String::new()
    } else {
        format!(" in `{}`", spec.name)
    };
    let message = format!("unknown key {}{place}", quoted(name));
    let hint = match likely(name, spec.keys.iter().map(|key| key.name)) {
        Some(likely) => Some(format!("did you mean `{likely}`?")),
        None => home(root, spec, name).map(|home| format!("`{name}` belongs {home}")),
    };
    (message, hint)
}

/// Where a key that is not known here would be.
fn home(root: &'static Table, here: &'static Table, name: &str) -> Option<String> {
    fn search(table: &'static Table, here: &'static Table, name: &str) -> Option<&'static Table> {
        if table.name != here.name && table.key(name).is_some() {
            return Some(table);
        }
        table
            .keys
            .iter()
            .filter_map(|key| key.kind.table())
            .find_map(|table| search(table, here, name))
    }
    let table = search(root, here, name)?;
    Some(if table.name.is_empty() {
        "at the top of the file, before the first `[`".to_owned()
    } else {
        format!("in `{}`", table.name)
    })
}

fn missing(spec: &Table, key: &Key) -> (String, Option<String>) {
    match (spec.name, key.name) {
        ("", "check") => (
            "the loop has no `[[check]]`, so nothing can say that it is done".to_owned(),
            Some("add `[[check]]` with a command: `run = \"cargo test\"`".to_owned()),
        ),
        ("", "worker") => (
            "the loop has no `[worker]`".to_owned(),
            Some("add `[worker]` with `agent = \"claude\"` or a `command`".to_owned()),
        ),
        ("", name) => (
            format!("missing key `{name}`"),
            Some(format!("add {}", sample(name, &key.kind))),
        ),
        (table, name) => (
            format!("missing key `{name}` in `{table}`"),
            Some(format!("add {}", sample(name, &key.kind))),
        ),
    }
}

/// The word that was probably meant.
pub(crate) fn likely<'w>(text: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let fold = |text: &str| text.to_lowercase().replace('-', "_");
    let folded = fold(text);
    words
        .filter(|word| word.len() > 1)
        .map(|word| (strsim::damerau_levenshtein(&folded, &fold(word)), word))
        .filter(|(distance, word)| *distance <= (word.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// A text as a message shows it: short and on one line.
pub(crate) fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(60).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    let shown: String = shown
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    format!("`{shown}`")
}

/// `a`, `b` or `c`.
pub(crate) fn listed(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "string",
        DeValue::Integer(_) => "number",
        DeValue::Float(_) => "fraction",
        DeValue::Boolean(_) => "boolean",
        DeValue::Datetime(_) => "date",
        DeValue::Array(_) => "list",
        DeValue::Table(_) => "table",
    }
}

fn article(noun: &str) -> String {
    format!("a {noun}")
}

fn noun(kind: &Kind) -> &'static str {
    match kind {
        Kind::Text | Kind::Choice(_) => "a string",
        Kind::Texts | Kind::Choices(_) => "a list of strings",
        Kind::Flag => "true or false",
        Kind::Count => "a whole number",
        Kind::Duration => "a duration: a string with a unit",
        Kind::Tokens => "a number of tokens, such as \"2M\"",
        Kind::Money => "an amount of money: a string with a currency",
        Kind::Table(_) | Kind::TableOrTables(_) | Kind::Named(_) => "a table",
        Kind::Tables(_) => "a list of tables",
        Kind::Any => "anything",
    }
}

/// What to write instead of a value of the wrong kind.
fn example(name: &str, kind: &Kind, found: &DeValue<'_>) -> String {
    match (kind, found) {
        (Kind::Duration, DeValue::Integer(number)) if number.as_str() != "0" => {
            format!("write the unit: `{name} = \"{number}s\"`")
        }
        (Kind::Money, DeValue::Integer(number)) if number.as_str() != "0" => {
            format!("write the currency: `{name} = \"{number} USD\"`")
        }
        (Kind::Money, DeValue::Float(number)) => {
            format!("write the currency: `{name} = \"{} USD\"`", number.as_str())
        }
        (Kind::Texts, DeValue::String(text)) if text.len() < 60 => {
            format!("write a list: `{name} = [{:?}]`", text.as_ref())
        }
        _ => format!("write {}", sample(name, kind)),
    }
}

/// An example of a key with a value.
pub(crate) fn sample(name: &str, kind: &Kind) -> String {
    let value = match kind {
        Kind::Text | Kind::Any => "\"…\"".to_owned(),
        Kind::Texts => "[\"…\"]".to_owned(),
        Kind::Flag => "true".to_owned(),
        Kind::Count => "5".to_owned(),
        Kind::Duration => "\"15m\"".to_owned(),
        Kind::Tokens => "\"2M\"".to_owned(),
        Kind::Money => "\"5 USD\"".to_owned(),
        Kind::Choice(words) => format!("\"{}\"", words[0].word),
        Kind::Choices(words) => format!("[\"{}\"]", words[0].word),
        Kind::Table(spec) if spec.name.starts_with('[') => return format!("`{}`", spec.name),
        Kind::Table(spec) => {
            let key = &spec.keys[0];
            return format!(
                "`{name} = {{ {} }}`",
                sample(key.name, &key.kind).trim_matches('`')
            );
        }
        Kind::TableOrTables(_) => return format!("`[{name}]`"),
        Kind::Tables(_) => return format!("`[[{name}]]`"),
        Kind::Named(_) => return format!("`[{name}.NAME]`"),
    };
    format!("`{name} = {value}`")
}
