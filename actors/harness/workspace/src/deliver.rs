//! Puts a result into a repository: its objects, and one new ref. Nothing else there changes, and
//! nothing of that repository's configuration runs.

use std::{fs, path::Path};

use ronde_protocol::{CommitId, Timestamp, TreeId};

use crate::{
    Base, Error, Git, Workspace,
    files::{self, blocking},
    git::{Call, is_id},
    locate::{Located, locate},
    seed::signed,
};

impl Workspace {
    /// Commits a tree on top of the base, by `ronde <ronde@localhost>` at `at`, and makes a new branch
    /// of it in the base's repository. Done again with the same values it gives the same commit and
    /// changes nothing.
    ///
    /// # Errors
    /// [`Error::BranchTaken`] where another commit has that name, [`Error::Deliver`] where the branch
    /// cannot be made, and what keeps git or the file system from it.
    pub async fn deliver(
        &self,
        base: &Base,
        tree: &TreeId,
        branch: &str,
        message: &str,
        at: Timestamp,
    ) -> Result<CommitId, Error> {
        if branch.is_empty() || branch.contains(['\n', '\0', ' ']) {
            return Err(Error::Name {
                what: "branch",
                name: branch.to_owned(),
            });
        }
        let pinned = self.pinned()?;
        let dir = self.git_dir();
        let mut text = message.trim_end().to_owned();
        text.push('\n');
        let call = Call::new(
            &dir,
            ["commit-tree", tree.as_str(), "-p", base.commit.as_str()],
        );
        let date = format!("@{} +0000", at.as_second().max(0));
        let commit = CommitId::new(self.git.id(signed(call.stdin(text), &date)).await?);

        let repo = locate(&base.repo)?;
        let name = format!("refs/heads/{branch}");
        match at_ref(&self.git, &repo, &name).await? {
            Some(there) if there == commit.as_str() => return Ok(commit),
            Some(commit) => {
                let branch = branch.to_owned();
                return Err(Error::BranchTaken {
                    repo: base.repo.clone(),
                    branch,
                    commit,
                });
            }
            None => {}
        }
        let new = files::unused(&self.tmp());
        files::make(&new)?;
        self.pack(&new, &commit, Some(&pinned.local)).await?;
        let objects = repo.objects();
        blocking(move || {
            install(&new, &objects)?;
            files::remove(&new)
        })
        .await?;
        let zero = "0".repeat(commit.as_str().len());
        match set_ref(&self.git, &repo, &name, commit.as_str(), &zero).await? {
            Ok(()) => Ok(commit),
            Err(detail) => match at_ref(&self.git, &repo, &name).await? {
                Some(there) if there == commit.as_str() => Ok(commit),
                Some(commit) => {
                    let branch = branch.to_owned();
                    Err(Error::BranchTaken {
                        repo: base.repo.clone(),
                        branch,
                        commit,
                    })
                }
                None => {
                    let branch = branch.to_owned();
                    Err(Error::Deliver {
                        repo: base.repo.clone(),
                        branch,
                        detail,
                    })
                }
            },
        }
    }
}

/// The object a ref of a repository is at.
async fn at_ref(git: &Git, repo: &Located, name: &str) -> Result<Option<String>, Error> {
    let call = Call::new(&repo.git, ["cat-file", "--batch-check=%(objectname)"]);
    let output = git.ok(call.stdin(format!("{name}\n"))).await?;
    let text = String::from_utf8_lossy(&output).trim().to_owned();
    Ok(is_id(&text).then_some(text))
}

/// Moves a ref from one commit (zeros: none) to another; what git said if it would not.
pub(crate) async fn set_ref(
    git: &Git,
    repo: &Located,
    name: &str,
    to: &str,
    from: &str,
) -> Result<Result<(), String>, Error> {
    let call = || Call::new(&repo.git, ["update-ref", "--no-deref", name, to, from]);
    let mut output = git.run(call()).await?;
    if output.code != 0 && unlock(&repo.common.join(format!("{name}.lock")), to)? {
        output = git.run(call()).await?;
    }
    Ok(match output.code {
        0 => Ok(()),
        _ => Err(output.stderr.trim().to_owned()),
    })
}

/// Removes the lock of a ref if a process that wanted to move the ref to the same commit left it: it
/// holds that commit's id, or nothing yet. git itself has waited for it by then.
fn unlock(lock: &Path, to: &str) -> Result<bool, Error> {
    let ours = match files::read(lock)? {
        Some(text) => text.is_empty() || text.trim_ascii_end() == to.as_bytes(),
        None => false,
    };
    if ours {
        files::remove(lock)?;
    }
    Ok(ours)
}

/// Puts a pack into an object store, the index last: a pack counts once it has one.
fn install(from: &Path, objects: &Path) -> Result<(), Error> {
    let to = objects.join("pack");
    files::make(&to)?;
    let mut names = Vec::new();
    for entry in fs::read_dir(from).map_err(Error::io("read", from))? {
        names.push(entry.map_err(Error::io("read", from))?.file_name());
    }
    names.sort_by_key(|name| Path::new(name).extension().is_some_and(|end| end == "idx"));
    for name in names {
        let place = to.join(&name);
        if place.exists() {
            continue;
        }
        // A name that `git gc` cleans up, should we be killed.
        let new = files::unused_named(&to, "tmp_ronde_");
        let put = (|| {
            fs::copy(from.join(&name), &new)?;
            files::sync_folder(&new)?;
            fs::rename(&new, &place)
        })();
        put.map_err(Error::io("write", &place))?;
    }
    files::sync_folder(&to).map_err(Error::io("write", &to))
}
