//! Makes a folder into a small bare repository of its own, with one commit for each state the folder
//! was seeded in. The same state is the same commit, so that runs of one example share a repository.

use std::{fs, path::Path};

use crate::{
    Error, Git, Seed,
    deliver::set_ref,
    files,
    git::Call,
    locate::locate,
    resolve::{Found, look},
    scan::{Ignore, Scan},
    skeleton::Skeleton,
};

/// The branch it is on.
const BRANCH: &str = "refs/heads/main";
/// Author and committer of a seed's commits: always the same, so that the ids are.
const DATE: &str = "@946684800 +0000";

/// Looks whether a folder can be a seed.
pub(crate) fn inspect(folder: &Path) -> Result<(), Error> {
    match fs::metadata(folder) {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => {
            return Err(Error::NoSeed {
                folder: folder.to_owned(),
            });
        }
        Err(error) if files::is_missing(&error) => {
            return Err(Error::NoSeed {
                folder: folder.to_owned(),
            });
        }
        Err(error) => return Err(Error::io("look at", folder)(error)),
    }
    let mut entries = fs::read_dir(folder).map_err(Error::io("read", folder))?;
    let some = entries.any(|entry| entry.is_ok_and(|entry| entry.file_name() != ".git"));
    if some {
        Ok(())
    } else {
        Err(Error::EmptySeed {
            folder: folder.to_owned(),
        })
    }
}

/// Makes the seed's repository, or brings its `main` up to what the folder holds. `tmp` is for what
/// is half made; it lies on the file system the repository is to be on.
pub(crate) async fn plant(git: &Git, seed: &Seed, tmp: &Path) -> Result<(), Error> {
    let folder = seed.folder.clone();
    files::blocking(move || inspect(&folder)).await?;
    let folder = seed
        .folder
        .canonicalize()
        .map_err(Error::io("look at", &seed.folder))?;
    if !seed.repo.exists() {
        let parent = seed.repo.parent().unwrap_or(Path::new("/"));
        files::make(parent)?;
        let new = files::unused(tmp);
        Skeleton {
            bare: true,
            head: BRANCH,
            ..Skeleton::default()
        }
        .write(&new)?;
        grow(git, &new, &folder, tmp, &seed.folder).await?;
        match fs::rename(&new, &seed.repo) {
            Ok(()) => {
                files::sync_folder(parent).map_err(Error::io("write", parent))?;
                return Ok(());
            }
            // Another run was faster.
            Err(_) if seed.repo.exists() => files::blocking(move || files::remove(&new)).await?,
            Err(error) => return Err(Error::io("make the folder", &seed.repo)(error)),
        }
    }
    grow(git, &seed.repo, &folder, tmp, &seed.folder).await
}

/// Puts what a folder holds on `main` of a repository, unless it is what is there.
async fn grow(
    git: &Git,
    repo: &Path,
    folder: &Path,
    tmp: &Path,
    named: &Path,
) -> Result<(), Error> {
    let index = files::unused_named(tmp, "index-");
    let scan = Scan {
        dir: repo,
        folder,
        index: &index,
        ignore: Ignore::Own,
        attributes: None,
        digits: 40,
    };
    if !scan.update(git).await? {
        return Err(Error::EmptySeed {
            folder: named.to_owned(),
        });
    }
    let tree = git
        .id(Call::new(repo, ["write-tree"]).index(&index))
        .await?;
    files::remove(&index)?;
    let at = locate(repo)?;
    // Another run may put a commit there at the same time; then look again.
    for _ in 0..5 {
        let now: Option<Found> = look(git, &at, &[&format!("{BRANCH}^{{commit}}")])
            .await?
            .remove(0);
        if now.as_ref().is_some_and(|now| now.tree == tree) {
            return Ok(());
        }
        let call = Call::new(repo, ["commit-tree", &tree]).stdin("The seed\n");
        let call = match &now {
            Some(now) => call.arg("-p").arg(&now.commit),
            None => call,
        };
        let commit = git.id(signed(call, DATE)).await?;
        let before = now.map_or_else(|| "0".repeat(40), |now| now.commit);
        let Err(said) = set_ref(git, &at, BRANCH, &commit, &before).await? else {
            return Ok(());
        };
        let after = look(git, &at, &[&format!("{BRANCH}^{{commit}}")])
            .await?
            .remove(0);
        if after.map_or_else(|| "0".repeat(40), |after| after.commit) == before {
            return Err(Error::Git {
                command: "update-ref".into(),
                path: repo.to_owned(),
                detail: said,
            });
        }
    }
    Err(Error::Git {
        command: "update-ref".into(),
        path: repo.to_owned(),
        detail: "the seed's branch keeps changing".into(),
    })
}

/// A commit-making command with ronde as author and committer.
pub(crate) fn signed<'a>(call: Call<'a>, date: &str) -> Call<'a> {
    let (name, mail) = ("ronde", "ronde@localhost");
    call.env("GIT_AUTHOR_NAME", name)
        .env("GIT_AUTHOR_EMAIL", mail)
        .env("GIT_AUTHOR_DATE", date)
        .env("GIT_COMMITTER_NAME", name)
        .env("GIT_COMMITTER_EMAIL", mail)
        .env("GIT_COMMITTER_DATE", date)
}
