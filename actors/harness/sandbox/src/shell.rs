//! What a shell command will run, as far as that can be said without running it. Pure. It reads the
//! command as a POSIX shell (and bash) would, splits it into simple commands, and looks through what
//! hides them: assignments, quoting, paths, wrappers, nested shells, global options of git.
//!
//! It errs to one side only: what it cannot follow is said to be opaque or to match perhaps, never
//! to be harmless. It does not decide; that is the gate's business.

mod program;
mod read;

use crate::pattern::{Meets, UNSURE};

/// Shells within shells that are followed.
const DEPTH: usize = 8;
/// Texts kept of one command, and texts read within it.
const TEXTS: usize = 4_000;
const READS: usize = 500;

/// What a command may run.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// Commands that it runs if it gets there, in every spelling a rule may use.
    certain: Vec<Text>,
    /// Commands that it may run.
    possible: Vec<Text>,
    /// The simple commands as written; `None` if one is more than words.
    plain: Vec<Option<String>>,
    /// Why the rest is not known, if it is not.
    pub(crate) opaque: Option<&'static str>,
    depth: usize,
    reads: usize,
    /// Whether some of it was not read at all.
    cut: bool,
}

/// A command as one text.
#[derive(Debug)]
struct Text {
    /// With everything that an unknown word may turn out to be.
    loose: String,
    /// Without the words that may vanish, and with each of them as one word; where there are any.
    firm: Option<[String; 2]>,
}

/// Reads a command.
pub(crate) fn analyse(command: &str) -> Script {
    let mut script = Script::default();
    script.read(command);
    if script.cut {
        script.hide("it is too long or nested too deeply to be read");
    }
    script
}

impl Script {
    /// How what it runs meets a pattern.
    pub(crate) fn runs(&self, meets: impl Fn(&str) -> Meets) -> Meets {
        let meets = |text: &Text| match &text.firm {
            // A word that matters neither by being there nor by being away does not matter.
            Some(firm) if firm.iter().all(|text| meets(text) == Meets::Yes) => Meets::Yes,
            _ => meets(&text.loose),
        };
        let certain = self.certain.iter().map(&meets);
        let possible = self
            .possible
            .iter()
            .map(|text| meets(text).min(Meets::Maybe));
        certain.chain(possible).max().unwrap_or(Meets::No)
    }

    /// Whether it is nothing but simple commands all of which are covered. Wrappers and paths are not
    /// looked through here: what is allowed is what is written.
    pub(crate) fn is_plainly(&self, covered: impl Fn(&str) -> bool) -> bool {
        self.opaque.is_none()
            && !self.plain.is_empty()
            && self
                .plain
                .iter()
                .all(|text| text.as_deref().is_some_and(&covered))
    }

    fn read(&mut self, text: &str) {
        self.reads += 1;
        if self.depth >= DEPTH || self.reads > READS {
            self.cut = true;
            return;
        }
        self.depth += 1;
        let chars: Vec<char> = text.chars().collect();
        read::Reader::new(&chars, self).all();
        self.depth -= 1;
    }

    /// Notes that a part cannot be followed.
    fn hide(&mut self, why: &'static str) {
        self.opaque.get_or_insert(why);
    }

    fn add(&mut self, words: &[Word], certain: bool) {
        if self.certain.len() + self.possible.len() >= TEXTS {
            self.cut = true;
            return;
        }
        let firm = words.iter().any(Word::may_vanish).then(|| {
            let spaced = |keep: fn(&Word) -> bool| {
                let texts: Vec<&str> = words
                    .iter()
                    .filter(|word| keep(word))
                    .map(|word| word.text.as_str())
                    .collect();
                texts.join(" ")
            };
            [spaced(|word| !word.may_vanish()), spaced(|_| true)]
        });
        let text = Text {
            loose: join(words),
            firm,
        };
        if certain {
            self.certain.push(text)
        } else {
            self.possible.push(text)
        }
    }
}

/// A word after expansion, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Word {
    /// Its characters, [`UNSURE`] for those that are not known.
    text: String,
    /// Whether any of it was quoted.
    quoted: bool,
}

impl Word {
    fn known(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            quoted: false,
        }
    }

    fn is_known(&self) -> bool {
        !self.text.contains(UNSURE)
    }

    /// Whether it can turn out to be no word, or several.
    fn may_vanish(&self) -> bool {
        !self.text.is_empty() && self.text.chars().all(|c| c == UNSURE)
    }

    /// An unquoted word, which may be a keyword.
    fn bare(&self) -> &str {
        if self.quoted { "" } else { &self.text }
    }
}

/// The words with a space between; none around a word that may vanish, which stands for its spaces
/// too.
fn join(words: &[Word]) -> String {
    let mut text = String::new();
    let mut glue = true;
    for word in words {
        let vanishes = word.may_vanish();
        if !glue && !vanishes {
            text.push(' ');
        }
        text.push_str(&word.text);
        glue = vanishes;
    }
    text
}

#[cfg(test)]
mod tests;
