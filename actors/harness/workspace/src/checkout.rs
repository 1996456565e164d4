//! Fresh checkouts of a tree for the verifier, with what a worker must not change put back to what the
//! base has.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

use ronde_protocol::{CommitId, TreeId};

use crate::{
    Base, Error, Workspace,
    files::{self, blocking},
    git::Call,
    protect::{Change, Protected},
    scan::set_entries,
    seed::signed,
    workspace::{Pinned, replace},
};

/// Links followed at most to find out what a program is.
const LINKS: usize = 40;

/// What a worker must not change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Patterns as in a `.gitignore` file at the root.
    pub protect: Vec<String>,
    /// Files a check runs, from the root: see [`programs_in`](crate::programs_in).
    pub programs: Vec<String>,
}

/// A fresh checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkout {
    /// Its folder.
    pub folder: PathBuf,
    /// Paths the rules cover that were not as in the base, sorted. They are now.
    pub protected: Vec<String>,
}

impl Workspace {
    /// Makes a new folder with exactly a tree, but for what the rules cover: that is as in the base,
    /// what was removed is back, and what was added is gone. A folder of that name is replaced.
    ///
    /// The folder has a throwaway `.git` of its own that needs nothing from ronde's home. Its commit
    /// is the base where nothing differs, else one on top of it with just these files, so that
    /// `git status` and `git diff` begin clean, as they do in CI.
    ///
    /// # Errors
    /// [`Error::Pattern`], [`Error::NotPrepared`], and what keeps git or the file system from it.
    pub async fn checkout(
        &self,
        name: &str,
        tree: &TreeId,
        base: &Base,
        rules: &Rules,
    ) -> Result<Checkout, Error> {
        files::plain("checkout", name)?;
        let pinned = self.pinned()?;
        let mut protected = Protected::new(&rules.protect, &rules.programs)?;
        let new = files::unused(&self.tmp());
        let differences = match *tree == base.tree {
            true => Vec::new(),
            false => self.differences(&base.tree, tree).await?,
        };
        let (folder, index) = (new.join("files"), new.join("index"));
        // A program may be a link, and what it leads to is the program, then. Where it leads is only
        // sure once the link is the base's.
        let (judged, restored) = loop {
            let restored: BTreeSet<usize> = differences
                .iter()
                .enumerate()
                .filter(|(_, change)| protected.covers(&change.path))
                .map(|(at, _)| at)
                .collect();
            let again = new.clone();
            blocking(move || files::remove(&again).and_then(|()| files::make(&again))).await?;
            let judged = self
                .judged(tree, base, &differences, &restored, &index)
                .await?;
            self.fill(&folder, &index, &judged, base).await?;
            let led_to = links(&folder, protected.files());
            protected.add(led_to);
            let all = |(at, change): (usize, &Change)| {
                restored.contains(&at) || !protected.covers(&change.path)
            };
            if differences.iter().enumerate().all(all) {
                break (judged, restored);
            }
        };
        let at = self.throwaway(&pinned, base, &judged).await?;
        let git = self.own_git(&pinned, base, &folder, &at)?;
        if at != base.commit {
            self.pack(&git.join("objects/pack"), &at, Some(&base.commit))
                .await?;
        }
        files::rename(&index, &git.join("index"))?;
        let to = self.checkouts().join(name);
        let put = to.clone();
        blocking(move || {
            replace(&put, &folder, &new.join("old"))?;
            files::remove(&new)
        })
        .await?;
        let paths = restored.into_iter().map(|at| &differences[at].path);
        let protected = paths
            .map(|path| String::from_utf8_lossy(path).into_owned())
            .collect();
        Ok(Checkout {
            folder: to,
            protected,
        })
    }

    /// The tree with some differences to the base undone. No process, or three.
    async fn judged(
        &self,
        tree: &TreeId,
        base: &Base,
        differences: &[Change],
        restored: &BTreeSet<usize>,
        index: &Path,
    ) -> Result<TreeId, Error> {
        if restored.is_empty() {
            return Ok(tree.clone());
        }
        let dir = self.git_dir();
        self.git
            .ok(Call::new(&dir, ["read-tree", tree.as_str()]).index(index))
            .await?;
        let entries = restored.iter().map(|&at| differences[at].undo());
        set_entries(&self.git, &dir, index, base.tree.as_str().len(), entries).await?;
        let judged = self.write_tree(index).await?;
        files::remove(index)?;
        Ok(judged)
    }

    /// A commit with a tree, on top of the base: always the same one.
    async fn throwaway(
        &self,
        pinned: &Pinned,
        base: &Base,
        tree: &TreeId,
    ) -> Result<CommitId, Error> {
        if *tree == base.tree {
            return Ok(base.commit.clone());
        }
        let dir = self.git_dir();
        let call = Call::new(
            &dir,
            ["commit-tree", tree.as_str(), "-p", base.commit.as_str()],
        )
        .stdin("What is being checked\n");
        let date = format!("@{} +0000", pinned.time.max(0));
        Ok(CommitId::new(self.git.id(signed(call, &date)).await?))
    }

    /// Removes a checkout, and follows no link. None there is fine.
    ///
    /// # Errors
    /// What the file system says.
    pub async fn remove_checkout(&self, name: &str) -> Result<(), Error> {
        files::plain("checkout", name)?;
        let folder = self.checkouts().join(name);
        blocking(move || files::remove(&folder)).await
    }
}

/// The files within a folder that some of its files lead to by links, each link's target among them.
fn links(folder: &Path, programs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for program in programs {
        let mut path = crate::scan::path_of(program);
        for _ in 0..LINKS {
            let Some(next) = follow(folder, &path) else {
                break;
            };
            found.push(next.clone().into_os_string().as_bytes().to_vec());
            path = next;
        }
    }
    found
}

/// Replaces the first link in a path by what it leads to; `None` if there is no link in it, or if it
/// leads out of the folder.
fn follow(folder: &Path, path: &Path) -> Option<PathBuf> {
    let mut before = PathBuf::new();
    let mut parts = path.components();
    for part in parts.by_ref() {
        let here = before.join(part);
        if let Ok(to) = fs::read_link(folder.join(&here)) {
            let joined = before.join(to).join(parts.as_path());
            return within(&joined);
        }
        before = here;
    }
    None
}

/// A path without `.` and `..`, if it stays below its root.
fn within(path: &Path) -> Option<PathBuf> {
    let mut parts: Vec<OsString> = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(part) => parts.push(part.to_owned()),
            Component::CurDir => {}
            Component::ParentDir => drop(parts.pop()?),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.iter().collect())
}
