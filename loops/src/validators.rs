//! What this crate asks others: cron texts, time zones, permission rules and patterns of paths are known
//! elsewhere.

use std::ops::Range;

/// Why a text was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong: lowercase, no full stop.
    pub message: String,
    /// What to write instead, where that is known.
    pub hint: Option<String>,
    /// Where, as bytes of the text; `None` means all of it.
    pub span: Option<Range<usize>>,
}

impl Refusal {
    /// A refusal of the whole text, without a hint.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            span: None,
        }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Judges the texts whose meaning lies outside of this crate.
pub trait Validators {
    /// Whether this is a cron text.
    ///
    /// # Errors
    /// Why not.
    fn cron(&self, text: &str) -> Result<(), Refusal>;

    /// Whether there is such a time zone.
    ///
    /// # Errors
    /// Why not.
    fn zone(&self, name: &str) -> Result<(), Refusal>;

    /// Whether this is a pattern of a permission rule, such as `shell(git push *)`.
    ///
    /// # Errors
    /// Why not.
    fn rule(&self, pattern: &str) -> Result<(), Refusal>;

    /// Whether this is a pattern of paths, as in a `.gitignore` file. Where nobody knows, every text
    /// is.
    ///
    /// # Errors
    /// Why not.
    fn glob(&self, pattern: &str) -> Result<(), Refusal> {
        let _ = pattern;
        Ok(())
    }

    /// Whether a notification of this name is configured. Where nobody knows, every name is.
    ///
    /// # Errors
    /// Why not.
    fn notify(&self, name: &str) -> Result<(), Refusal> {
        let _ = name;
        Ok(())
    }
}

/// Accepts everything: for a text that was judged before, such as one frozen in a journal.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lenient;

impl Validators for Lenient {
    fn cron(&self, _: &str) -> Result<(), Refusal> {
        Ok(())
    }

    fn zone(&self, _: &str) -> Result<(), Refusal> {
        Ok(())
    }

    fn rule(&self, _: &str) -> Result<(), Refusal> {
        Ok(())
    }
}
