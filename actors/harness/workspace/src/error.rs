//! What can go wrong with repositories and workspaces, in words for the person who has to mend it.

use std::{io, path::PathBuf};

use ronde_protocol::CommitId;

/// A repository or a workspace that is not as it must be. Each message names the repository or the
/// path; [`Error::hint`] says what to do, where that is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The repository's folder does not exist.
    #[error("the repository {} does not exist", repo.display())]
    NoFolder {
        /// The folder.
        repo: PathBuf,
    },
    /// The folder is there, and git does not know it.
    #[error("{} is not a git repository", repo.display())]
    NotARepository {
        /// The folder.
        repo: PathBuf,
        /// The repository it lies in, if it does.
        within: Option<PathBuf>,
    },
    /// The branch has no commit yet.
    #[error("the branch `{branch}` of {} has no commit yet", repo.display())]
    Unborn {
        /// The repository.
        repo: PathBuf,
        /// The branch.
        branch: String,
    },
    /// Neither a branch, a tag nor a commit has that name.
    #[error("{} has no branch, tag or commit `{base}`", repo.display())]
    NoBase {
        /// The repository.
        repo: PathBuf,
        /// What was asked for.
        base: String,
        /// A name that does exist and was probably meant.
        likely: Option<String>,
    },
    /// The remote could not be fetched from.
    #[error("cannot fetch `{branch}` from the remote `{remote}` ({url}) of {}: {detail}", repo.display())]
    Fetch {
        /// The repository.
        repo: PathBuf,
        /// The remote's name there.
        remote: String,
        /// Its address, without user name and password.
        url: String,
        /// The branch there.
        branch: String,
        /// What git said.
        detail: String,
    },
    /// Both the branch and its remote have commits the other lacks.
    #[error(
        "the branch `{branch}` of {} and `{upstream}` have diverged ({ours} against {theirs})",
        repo.display()
    )]
    Diverged {
        /// The repository.
        repo: PathBuf,
        /// The branch.
        branch: String,
        /// Its upstream: `origin/main`.
        upstream: String,
        /// The branch's commit.
        ours: CommitId,
        /// The upstream's commit.
        theirs: CommitId,
    },
    /// The folder to seed a repository from does not exist.
    #[error("the seed folder {} does not exist", folder.display())]
    NoSeed {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder to seed a repository from has no file.
    #[error("the seed folder {} has no file that git would keep", folder.display())]
    EmptySeed {
        /// The folder.
        folder: PathBuf,
    },
    /// Another commit has the branch's name.
    #[error(
        "the branch `{branch}` of {} is already there, at another commit ({commit})",
        repo.display()
    )]
    BranchTaken {
        /// The repository.
        repo: PathBuf,
        /// The branch.
        branch: String,
        /// The commit it is at.
        commit: String,
    },
    /// The branch could not be made.
    #[error("cannot make the branch `{branch}` in {}: {detail}", repo.display())]
    Deliver {
        /// The repository.
        repo: PathBuf,
        /// The branch.
        branch: String,
        /// What was said.
        detail: String,
    },
    /// A name that cannot be part of a path or a ref.
    #[error("`{name}` cannot be the name of a {what}")]
    Name {
        /// What it was to be the name of.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A protect pattern that is not a glob.
    #[error("the protect pattern `{pattern}` is not valid: {detail}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The worker's folder is gone.
    #[error("the worker's folder {} is not there", folder.display())]
    NoWork {
        /// The folder.
        folder: PathBuf,
    },
    /// `prepare` was not called, or its result is gone.
    #[error("the workspace {} is not prepared", dir.display())]
    NotPrepared {
        /// The run's folder.
        dir: PathBuf,
    },
    /// A file of ronde's own does not hold what it must.
    #[error("{} is damaged: {detail}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// There is no git on this machine.
    #[error("cannot run git: {detail}")]
    NoGit {
        /// What was said.
        detail: String,
    },
    /// A git command failed.
    #[error("`git {command}` failed in {}: {detail}", path.display())]
    Git {
        /// The subcommand.
        command: String,
        /// The repository or folder it was about.
        path: PathBuf,
        /// What it said, or how it ended.
        detail: String,
    },
    /// git could not even be started.
    #[error(transparent)]
    Spawn(#[from] ronde_sandbox::Error),
    /// A file or folder could not be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// `read`, `write`, `remove` …
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Error {
    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoFolder { .. } => Some("`[workspace] repo` names the folder of a git repository".into()),
            Self::NotARepository { within: Some(within), .. } => Some(format!(
                "it lies in the repository {}: name that one, or run `git init` here",
                within.display()
            )),
            Self::NotARepository { within: None, .. } => {
                Some("run `git init` there and commit once, or name another folder in `[workspace] repo`".into())
            }
            Self::Unborn { .. } => {
                Some("commit once, so that there is something to start from".into())
            }
            Self::NoBase { likely: Some(likely), .. } => Some(format!("`{likely}` exists: did you mean that?")),
            Self::NoBase { likely: None, .. } => {
                Some("`[workspace] base` names a branch, a tag or a commit; left out, it is the branch checked out".into())
            }
            Self::Fetch { .. } => Some(
                "look whether the remote can be reached without a question, or set `[workspace] fetch = false`".into(),
            ),
            Self::Diverged { upstream, .. } => Some(format!(
                "rebase or merge the branch, name `base = \"{upstream}\"`, or set `[workspace] fetch = false`"
            )),
            Self::NoSeed { .. } | Self::EmptySeed { .. } => {
                Some("`[workspace] seed` names a folder beside the loop file".into())
            }
            Self::BranchTaken { branch, .. } => {
                Some(format!("ronde never overwrites a branch: rename or delete `{branch}`"))
            }
            Self::Deliver { .. } => Some("the work is kept in the run's folder; make room for the branch and go on with `ronde continue`".into()),
            Self::Pattern { .. } => Some("patterns are written as in a .gitignore file".into()),
            Self::NoGit { .. } => Some("install git 2.31 or later and have it on the PATH".into()),
            Self::Git { detail, .. } if detail.contains("unable to read") => Some(
                "objects are missing there; if it is a partial clone, use a full one".into(),
            ),
            Self::Name { .. }
            | Self::NoWork { .. }
            | Self::NotPrepared { .. }
            | Self::Damaged { .. }
            | Self::Git { .. }
            | Self::Spawn(_)
            | Self::Io { .. } => None,
        }
    }

    /// Wraps an I/O error. For `map_err`.
    pub(crate) fn io(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            doing,
            path,
            source,
        }
    }
}
