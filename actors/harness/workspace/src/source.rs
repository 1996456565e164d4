//! Where a run's files come from, and the look at it before anything is done.

use std::path::PathBuf;

use ronde_protocol::{CommitId, TreeId};

use crate::{
    Error, Git, fetch,
    locate::{Located, locate},
    resolve::{Found, resolve},
    seed,
};

/// Where a run's files come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The repository's folder, absolute. Not looked at if there is a seed.
    pub repo: PathBuf,
    /// A branch, a remote's branch (`origin/main`), a tag or a commit; without one, what is checked
    /// out there.
    pub base: Option<String>,
    /// Whether the base is first brought up to date from its remote, where it has one.
    pub fetch: bool,
    /// A folder that is first made into a repository of its own.
    pub seed: Option<Seed>,
}

/// A folder that becomes a small repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seed {
    /// The folder, absolute. It is only read.
    pub folder: PathBuf,
    /// Where its (bare) repository is to be. It is made if it is not there, and reused if it is.
    pub repo: PathBuf,
}

/// What a run started from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// The commit.
    pub commit: CommitId,
    /// Its tree.
    pub tree: TreeId,
    /// The branch it was the end of, if it was one.
    pub branch: Option<String>,
    /// The repository deliveries go to: the user's or the seeded one.
    pub repo: PathBuf,
}

/// Looks whether a run could start from a source. It changes nothing and uses no network.
///
/// # Errors
/// [`Error::NoFolder`], [`Error::NotARepository`], [`Error::Unborn`], [`Error::NoBase`],
/// [`Error::NoSeed`], [`Error::EmptySeed`], and what keeps git from running.
pub async fn inspect(git: &Git, source: &Source) -> Result<(), Error> {
    match &source.seed {
        Some(seed) => {
            let folder = seed.folder.clone();
            crate::files::blocking(move || seed::inspect(&folder)).await
        }
        None => open(git, source).await.map(drop),
    }
}

/// Finds a source's repository and the commit its base is at.
pub(crate) async fn open(git: &Git, source: &Source) -> Result<(Located, Found), Error> {
    let at = match &source.seed {
        Some(seed) => locate(&seed.repo)?,
        None => locate(&source.repo)?,
    };
    let found = resolve(git, &at, source.base.as_deref()).await?;
    Ok((at, found))
}

/// Whether a source is fetched first.
pub(crate) async fn upstream(
    git: &Git,
    source: &Source,
    at: &Located,
    found: &Found,
) -> Result<Option<fetch::Upstream>, Error> {
    if !source.fetch || source.seed.is_some() {
        return Ok(None);
    }
    fetch::upstream(git, at, found).await
}
