//! The ids that journals, messages and screens share. They are made here and nowhere else, so that
//! two processes that mean the same thing write the same id.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Position of a record in one journal, counted from 1, without gaps.
pub type Seq = u64;

/// Number of an owner's turn: each process that takes a home over, and each lease of a run, has a
/// higher one than the last. A writer with an old epoch is fenced.
pub type Epoch = u64;

/// Number of an item in the inbox, counted from 1 over the whole home.
pub type ItemNumber = u64;

macro_rules! text_id {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps a text that is known to be such an id.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }
    )+};
}

text_id! {
    /// A run: `<loop>-<12 hex>`, made from its slot, so that a slot has one run whoever asks.
    RunId;
    /// A scheduled instant or a start by hand: see [`SlotId::scheduled`] and [`SlotId::manual`].
    SlotId;
    /// A project: the first 12 hex digits of the SHA-256 of its root folder.
    ProjectId;
    /// One worker of a loop; `main` where the file names none.
    WorkerName;
    /// One model call: `<run>/<attempt>/<worker>/<n>/e<epoch>`. A reservation is keyed by it.
    CallId;
    /// The name of a check within its loop.
    CheckName;
    /// A stored blob: 64 hex digits of its SHA-256.
    ArtefactId;
    /// Any other SHA-256, as 64 hex digits.
    Digest;
    /// A git tree: 40 or 64 hex digits.
    TreeId;
    /// A git commit: 40 or 64 hex digits.
    CommitId;
}

impl Digest {
    /// SHA-256 of some bytes.
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self(hex(bytes.as_ref()))
    }

    /// The first eight hex digits, for people.
    pub fn short(&self) -> &str {
        self.0.get(..8).unwrap_or(&self.0)
    }
}

impl ArtefactId {
    /// The id under which these bytes are stored.
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self(hex(bytes.as_ref()))
    }
}

impl ProjectId {
    /// The id of the project whose root folder this is. `root` must be absolute and resolved.
    pub fn of(root: &str) -> Self {
        Self(hex(root.as_bytes())[..12].to_owned())
    }
}

impl WorkerName {
    /// The worker of a loop that names none.
    pub fn main() -> Self {
        Self("main".to_owned())
    }
}

impl SlotId {
    /// The slot of a scheduled instant: `<project>/<loop>/<trigger>/<instant>`. `trigger` is the hash
    /// of the trigger's own content, so that reordering the triggers of a file changes nothing.
    pub fn scheduled(
        project: &ProjectId,
        loop_name: &LoopName,
        trigger: &Digest,
        due: Timestamp,
    ) -> Self {
        Self(format!("{project}/{loop_name}/{}/{due}", trigger.short()))
    }

    /// The slot of a start by a person: `<project>/<loop>/manual/<nonce>`. The caller brings the
    /// nonce, so that a request sent twice starts one run.
    pub fn manual(project: &ProjectId, loop_name: &LoopName, nonce: &str) -> Self {
        Self(format!("{project}/{loop_name}/manual/{nonce}"))
    }
}

impl RunId {
    /// The run of a slot.
    pub fn of(loop_name: &LoopName, slot: &SlotId) -> Self {
        Self(format!(
            "{loop_name}-{}",
            &hex(slot.as_str().as_bytes())[..12]
        ))
    }
}

impl CallId {
    /// The id of model call number `n` (from 1) of an attempt. `epoch` is that of the run's owner, so
    /// that an attempt taken up again after a crash does not reuse a call it may have paid for.
    pub fn of(run: &RunId, attempt: u32, worker: &WorkerName, n: u32, epoch: Epoch) -> Self {
        Self(format!("{run}/{attempt}/{worker}/{n}/e{epoch}"))
    }
}

/// The name of a loop: 1 to 64 of `a-z A-Z 0-9 . _ -`, beginning with a letter or a digit. It becomes
/// part of folder and branch names, hence no more than that.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LoopName(String);

/// A text that cannot be the name of a loop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a loop's name {0}")]
pub struct InvalidName(&'static str);

impl LoopName {
    /// The longest name, in bytes.
    pub const MAX: usize = 64;

    /// Checks a name.
    ///
    /// # Errors
    /// [`InvalidName`] says which rule the text breaks.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        if text.is_empty() {
            return Err(InvalidName("must not be empty"));
        }
        if text.len() > Self::MAX {
            return Err(InvalidName("is at most 64 characters long"));
        }
        if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return Err(InvalidName("begins with a letter or a digit"));
        }
        if !text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
        {
            return Err(InvalidName("has only letters, digits, `.`, `_` and `-`"));
        }
        // `git check-ref-format` refuses these in a branch name.
        if text.contains("..") || text.ends_with('.') || text.ends_with(".lock") {
            return Err(InvalidName(
                "has no `..` and does not end in `.` or `.lock`",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LoopName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for LoopName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoopName({})", self.0)
    }
}

impl TryFrom<String> for LoopName {
    type Error = InvalidName;

    fn try_from(text: String) -> Result<Self, InvalidName> {
        Self::new(&text)
    }
}

impl From<LoopName> for String {
    fn from(name: LoopName) -> Self {
        name.0
    }
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    let digest = Sha256::digest(bytes);
    digest
        .iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            write!(text, "{byte:02x}").expect("writing to a String cannot fail");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_loops() {
        for good in ["a", "nightly-green", "A.b_c-9", &"x".repeat(64)] {
            assert!(LoopName::new(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "a/b",
            "-a",
            ".a",
            "a..b",
            "a.",
            "a.lock",
            "a b",
            "é",
            &"x".repeat(300),
        ] {
            assert!(LoopName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn one_slot_has_one_run() {
        let name = LoopName::new("l").expect("a good name");
        let project = ProjectId::of("/p");
        let due: Timestamp = "2026-03-29T01:00:00Z".parse().expect("a timestamp");
        let slot = SlotId::scheduled(&project, &name, &Digest::of("cron"), due);
        assert_eq!(RunId::of(&name, &slot), RunId::of(&name, &slot.clone()));
        let later = SlotId::scheduled(
            &project,
            &name,
            &Digest::of("cron"),
            due + jiff::SignedDuration::from_secs(60),
        );
        assert_ne!(RunId::of(&name, &slot), RunId::of(&name, &later));
    }
}
