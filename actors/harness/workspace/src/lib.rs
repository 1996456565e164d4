//! Git for ronde: private clones with a git folder of the engine's own, snapshots as trees, fresh
//! checkouts for the verifier, and the delivery of one ref.
//!
//! The crate talks to git alone, through the sandbox's spawner, and to the folders of one run. It
//! knows nothing of attempts, verdicts or loops, confines no worker (the sandbox does), and never
//! runs git with a repository's hooks, filters, helpers or index: see
//! `docs/decisions/private-clones.md`.
//!
//! A run's folder, given by the engine:
//!
//! ```text
//! git/             the engine's GIT_DIR: objects of snapshots, the user's objects as an alternate
//! base.json        what was pinned by the first `prepare`
//! base/            a pack of what a worker's own git needs and cannot read elsewhere (mostly empty)
//! index/<worker>   the index a snapshot of that worker starts from
//! work/<worker>/   the worker's files, with a small `.git` of their own that the engine never uses
//! check/<name>/    fresh checkouts, with a throwaway `.git`
//! tmp/             everything half made
//! ```
//!
//! # Processes
//!
//! Each git process is one spawn, and [`Git::commands`] counts them. A run that changes nothing
//! needs seven:
//!
//! | step | processes |
//! | --- | --- |
//! | [`inspect`] | `cat-file` |
//! | [`Workspace::prepare`] | `cat-file`, `grep` (the base's ignore files) |
//! | [`Workspace::reset`] | `read-tree` |
//! | [`Workspace::snapshot`] | `ls-files`, `write-tree` |
//! | [`Workspace::checkout`] | `read-tree` |
//!
//! A change costs two more in a snapshot (`update-index`, `diff-tree`), one more in a reset to it
//! (`read-tree`), and three more in a checkout (`diff-tree`, `commit-tree`, `pack-objects`; three again
//! where something has to be restored). [`Workspace::deliver`] needs four (`commit-tree`, `cat-file`,
//! `pack-objects`, `update-ref`), [`Workspace::programs`] one (`ls-tree`), a fetch three to six, a seed
//! five to eight.

mod checkout;
mod deliver;
mod error;
mod excludes;
mod fetch;
mod files;
mod git;
mod locate;
mod programs;
mod protect;
mod removal;
mod resolve;
mod scan;
mod seed;
mod skeleton;
mod source;
mod workspace;

pub use checkout::{Checkout, Rules};
pub use error::Error;
pub use git::Git;
pub use programs::programs_in;
pub use protect::check_pattern;
pub use removal::remove_tree;
pub use source::{Base, Seed, Source, inspect};
pub use workspace::{STATE_FOLDER, Snapshot, Workspace};
