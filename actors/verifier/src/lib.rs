//! Judges a snapshot it did not make: a fresh checkout of the exact tree, the checks of the definition,
//! the rules of the base, a sandbox, and an environment by allow list. Its request carries no word of
//! the worker's, and it imports nothing that knows one.

mod actor;
mod check;
mod environment;
mod evidence;
mod guard;
mod judge;
mod programs;
mod scratch;

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;
use ronde_protocol::{
    ArtefactId, CheckName, Digest, TreeId,
    verdict::{Check, Finding},
};
use ronde_sandbox::Spawner;
use ronde_workspace::{Base, Workspace};

pub use actor::{Handle, spawn};
pub use environment::digest;
pub use evidence::useful_end;
pub use judge::judge;

/// What is to be judged, and by what.
#[derive(Debug, Clone)]
pub struct Request {
    /// The name of the checkout: one per verification of a run.
    pub name: String,
    /// The tree.
    pub tree: TreeId,
    /// The base: protected paths and the programs of checks are restored from it.
    pub base: Base,
    /// The definition whose checks these are; the verdict is keyed by it.
    pub definition: Digest,
    /// The checks, in the file's order.
    pub checks: Vec<Check>,
    /// Patterns of paths that must not change.
    pub protect: Vec<String>,
    /// A command line for the fresh checkout, run once before the checks, with network.
    pub setup: Option<String>,
}

/// What a verification is done with.
#[derive(Clone)]
pub struct Config {
    /// What is judged.
    pub request: Request,
    /// Where checkouts come from.
    pub workspace: Workspace,
    /// What starts processes.
    pub spawner: Spawner,
    /// A folder of its own, made anew and removed in the end: the checks' `HOME` and `TMPDIR`, and
    /// their output on its way.
    pub scratch: PathBuf,
    /// Paths no check can reach.
    pub hidden: Vec<PathBuf>,
    /// Where whole outputs are kept.
    pub artefacts: Arc<dyn Artefacts>,
    /// Told when a check begins and when it has ended; for screens.
    pub progress: Arc<dyn Fn(CheckName, Option<Finding>) + Send + Sync>,
}

/// Keeps whole outputs.
#[async_trait]
pub trait Artefacts: Send + Sync + 'static {
    /// Stores a file, which may be moved.
    ///
    /// # Errors
    /// In words, for the log.
    async fn put_file(&self, file: &std::path::Path) -> Result<ArtefactId, String>;
}

/// A verification that did not take place. It says nothing about the tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There was no checkout to judge.
    #[error("cannot check out the tree: {0}")]
    Checkout(String),
    /// The folder of the verification cannot be made.
    #[error("cannot make {folder}: {error}")]
    Scratch {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        error: String,
    },
    /// A check changed a protected file, and that cannot be undone.
    #[error("cannot put back {path}, which a check changed: {error}")]
    Restore {
        /// The file, from the root of the checkout.
        path: PathBuf,
        /// What the system said.
        error: String,
    },
    /// It was asked to stop.
    #[error("the verification was stopped")]
    Stopped,
    /// The verifier itself broke.
    #[error("the verifier broke: {0}")]
    Broken(String),
}
