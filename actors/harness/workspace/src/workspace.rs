//! The folder of one run: prepared once, then workers' folders are reset and written down as trees.
//! What a step half made lies in `tmp/` and is never found in the place of something whole, so every
//! step can be done again after a crash.

use std::{
    collections::{BTreeSet, HashSet},
    fs,
    path::{Path, PathBuf},
};

use ronde_protocol::{CommitId, TreeId, WorkerName};
use serde::{Deserialize, Serialize};

use crate::{
    Base, Error, Git, Source, excludes, fetch,
    files::{self, blocking},
    git::Call,
    programs_in,
    protect::{Change, SUBMODULE, changes},
    scan::{Ignore, Scan, set_entries},
    seed,
    skeleton::Skeleton,
    source::{open, upstream},
};

/// Paths a snapshot names at most.
const NAMED: usize = 1000;
/// The folder of a workspace whose files are no part of the result: what is kept between runs lies there.
pub const STATE_FOLDER: &str = ".ronde-state";
/// Bytes of a patch.
const PATCH: usize = 4 << 20;

/// The folder of one run. Clones mean the same folder.
#[derive(Debug, Clone)]
pub struct Workspace {
    pub(crate) git: Git,
    pub(crate) dir: PathBuf,
}

/// What a worker left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// All of it that is not ignored.
    pub tree: TreeId,
    /// Paths that differ from the base, sorted, the first thousand; what is not UTF-8 in them is
    /// replaced.
    pub changed: Vec<String>,
    /// How many there are in all.
    pub changed_total: usize,
}

/// What `prepare` found, as it is written down.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Pinned {
    version: u32,
    commit: CommitId,
    tree: TreeId,
    branch: Option<String>,
    repo: PathBuf,
    /// The repository's object store.
    objects: PathBuf,
    /// A commit the repository has: the base, or what it was before the fetch.
    pub(crate) local: CommitId,
    /// Whether the repository is a seeded one, which lies in ronde's home, out of a sandbox's reach.
    seeded: bool,
    /// When the base was committed, in seconds since 1970.
    pub(crate) time: i64,
}

impl Pinned {
    fn base(&self) -> Base {
        Base {
            commit: self.commit.clone(),
            tree: self.tree.clone(),
            branch: self.branch.clone(),
            repo: self.repo.clone(),
        }
    }
}

impl Workspace {
    /// The folder of a run. It need not be there yet.
    pub fn at(git: Git, dir: PathBuf) -> Self {
        Self { git, dir }
    }

    pub(crate) fn git_dir(&self) -> PathBuf {
        self.dir.join("git")
    }

    /// A folder for what is half made.
    pub(crate) fn tmp(&self) -> PathBuf {
        self.dir.join("tmp")
    }

    fn index(&self, worker: &WorkerName) -> PathBuf {
        self.dir.join("index").join(worker.as_str())
    }

    /// The folder of a worker's files.
    pub fn folder(&self, worker: &WorkerName) -> PathBuf {
        self.dir.join("work").join(worker.as_str())
    }

    /// The folder checkouts are made in.
    pub(crate) fn checkouts(&self) -> PathBuf {
        self.dir.join("check")
    }

    /// What was pinned.
    pub(crate) fn pinned(&self) -> Result<Pinned, Error> {
        self.read_pinned()?.ok_or_else(|| Error::NotPrepared {
            dir: self.dir.clone(),
        })
    }

    fn read_pinned(&self) -> Result<Option<Pinned>, Error> {
        let path = self.dir.join("base.json");
        let Some(bytes) = files::read(&path)? else {
            return Ok(None);
        };
        let damaged = |detail: String| Error::Damaged {
            path: path.clone(),
            detail,
        };
        let pinned: Pinned = serde_json::from_slice(&bytes).map_err(|e| damaged(e.to_string()))?;
        if pinned.version != 1 {
            return Err(damaged(format!(
                "its version {} is not known here",
                pinned.version
            )));
        }
        Ok(Some(pinned))
    }

    /// Makes the engine's git folder and pins the base. Done again, it gives the base pinned before,
    /// wherever the repository has moved to since; what an interrupted one left is made anew.
    ///
    /// # Errors
    /// Those of [`inspect`](crate::inspect), [`Error::Fetch`] and [`Error::Diverged`].
    pub async fn prepare(&self, source: &Source) -> Result<Base, Error> {
        for folder in ["work", "check", "index"] {
            files::make(&self.dir.join(folder))?;
        }
        let tmp = self.tmp();
        blocking(move || files::remove(&tmp).and_then(|()| files::make(&tmp))).await?;
        if let Some(pinned) = self.read_pinned()? {
            return Ok(pinned.base());
        }
        if let Some(seed) = &source.seed {
            seed::plant(&self.git, seed, &self.tmp()).await?;
        }
        let (at, found) = open(&self.git, source).await?;
        let follows = upstream(&self.git, source, &at, &found).await?;
        let local = found.commit.clone();
        let dir = self.git_dir();
        {
            let (dir, new, found) = (dir.clone(), files::unused(&self.tmp()), found.clone());
            let (objects, shallow) = (at.objects(), at.shallow()?);
            blocking(move || {
                let skeleton = Skeleton {
                    bare: true,
                    sha256: found.commit.len() == 64,
                    head: "refs/heads/none",
                    refs: vec![("refs/ronde/local".into(), &found.commit)],
                    alternates: vec![objects],
                    shallow,
                    ..Skeleton::default()
                };
                skeleton.write(&new)?;
                files::remove(&dir)?;
                files::rename(&new, &dir)
            })
            .await?;
        }
        let found = match &follows {
            Some(follows) => fetch::fetch(&self.git, &dir, &at, follows, found).await?,
            None => found,
        };
        let tree = TreeId::new(found.tree);
        let mut ignored = excludes::of(&self.git, &dir, &tree).await?;
        ignored.extend_from_slice(format!("/{STATE_FOLDER}/\n").as_bytes());
        files::write(&dir.join("info/exclude"), ignored)?;
        let pinned = Pinned {
            version: 1,
            commit: CommitId::new(found.commit),
            tree,
            branch: found.branch,
            repo: at.repo.clone(),
            objects: at.objects(),
            local: CommitId::new(local),
            seeded: source.seed.is_some(),
            time: found.time,
        };
        self.pack_base(&pinned).await?;
        let text = serde_json::to_vec(&pinned).map_err(|_| Error::Name {
            what: "repository, as it is not UTF-8",
            name: at.repo.display().to_string(),
        })?;
        let run = self.dir.clone();
        blocking(move || {
            files::sync(&run.join("git"))?;
            files::sync(&run.join("base"))?;
            files::write_whole(&run.join("base.json"), &text)
        })
        .await?;
        Ok(pinned.base())
    }

    /// Packs what a worker's own git could not read elsewhere: what was fetched, or all of a seed.
    async fn pack_base(&self, pinned: &Pinned) -> Result<(), Error> {
        let new = files::unused(&self.tmp());
        files::make(&new)?;
        if pinned.seeded {
            self.pack(&new, &pinned.commit, None).await?;
        } else if pinned.local != pinned.commit {
            self.pack(&new, &pinned.commit, Some(&pinned.local)).await?;
        }
        let base = self.dir.join("base");
        blocking(move || files::remove(&base).and_then(|()| files::rename(&new, &base))).await
    }

    /// Writes a pack of what `commit` has and `without` has not into a folder.
    pub(crate) async fn pack(
        &self,
        to: &Path,
        commit: &CommitId,
        without: Option<&CommitId>,
    ) -> Result<(), Error> {
        let dir = self.git_dir();
        let revisions = match without {
            Some(without) => format!("{commit}\n^{without}\n"),
            None => format!("{commit}\n"),
        };
        let options = [
            "pack-objects",
            "--quiet",
            "--revs",
            "--non-empty",
            "--delta-base-offset",
        ];
        let call = Call::new(&dir, options)
            .arg(to.join("pack"))
            .stdin(revisions);
        self.git.ok(call).await.map(drop)
    }

    /// Writes a git folder for whoever works in `folder`: it knows the base, shares the user's objects
    /// where it may, and has no remote, hook or helper. `at` is its commit.
    pub(crate) fn own_git(
        &self,
        pinned: &Pinned,
        base: &Base,
        folder: &Path,
        at: &CommitId,
    ) -> Result<PathBuf, Error> {
        let git = folder.join(".git");
        let branch = base.branch.as_deref().unwrap_or("work");
        let head = format!("refs/heads/{branch}");
        let exclude = format!("/{STATE_FOLDER}/\n");
        let skeleton = Skeleton {
            bare: false,
            sha256: base.commit.as_str().len() == 64,
            identity: true,
            exclude: &exclude,
            head: &head,
            refs: vec![
                (head.clone(), at.as_str()),
                (
                    format!("refs/remotes/origin/{branch}"),
                    base.commit.as_str(),
                ),
            ],
            alternates: if pinned.seeded {
                vec![]
            } else {
                vec![pinned.objects.clone()]
            },
            shallow: files::read(&self.git_dir().join("shallow"))?,
        };
        skeleton.write(&git)?;
        files::copy_flat(&self.dir.join("base"), &git.join("objects/pack"))?;
        Ok(git)
    }

    /// Fills a new folder with a tree, as the base's attributes say, and writes its index. One process.
    pub(crate) async fn fill(
        &self,
        folder: &Path,
        index: &Path,
        tree: &TreeId,
        base: &Base,
    ) -> Result<(), Error> {
        files::make(folder)?;
        let dir = self.git_dir();
        let call = Call::new(&dir, ["read-tree", "--reset", "-u", tree.as_str()]);
        let call = call
            .work(folder)
            .index(index)
            .attributes(Some(base.tree.as_str()));
        self.git.ok(call).await.map(drop)
    }

    /// Makes a worker's folder hold exactly a tree, whatever was in it, and gives the folder. Its own
    /// `.git` is at the base's commit, with the tree as uncommitted changes.
    ///
    /// Submodules are empty folders.
    ///
    /// # Errors
    /// [`Error::NotPrepared`], and what keeps git or the file system from it.
    pub async fn reset(
        &self,
        worker: &WorkerName,
        tree: &TreeId,
        base: &Base,
    ) -> Result<PathBuf, Error> {
        files::plain("worker", worker.as_str())?;
        let pinned = self.pinned()?;
        let new = files::unused(&self.tmp());
        let (folder, index) = (new.join("files"), new.join("index"));
        self.fill(&folder, &index, tree, base).await?;
        let git = self.own_git(&pinned, base, &folder, &base.commit)?;
        files::copy_with_time(&index, &git.join("index"))?;
        if *tree != base.tree {
            // One tree into an index: entries that are the same keep what is known of their files.
            let dir = self.git_dir();
            let call = Call::new(&dir, ["read-tree", "-m", "-i", base.tree.as_str()]);
            self.git
                .ok(call.work(&folder).index(&git.join("index")))
                .await?;
        }
        let (to, to_index) = (self.folder(worker), self.index(worker));
        let put = to.clone();
        blocking(move || {
            files::remove(&to_index)?;
            replace(&put, &folder, &new.join("old"))?;
            files::rename(&index, &to_index)?;
            files::remove(&new)
        })
        .await?;
        Ok(to)
    }

    /// Writes down what a worker's folder holds. Done again, it gives the same tree.
    ///
    /// New files count, but for those the base's `.gitignore` files ignore; how a file becomes an
    /// object (line ends, encodings) the base's `.gitattributes` say. Files of a git repository
    /// made within count as plain files. What was put into a submodule's folder does not count, nor
    /// does another commit of it; a submodule that was removed is removed.
    ///
    /// # Errors
    /// [`Error::NoWork`], [`Error::NotPrepared`], and what keeps git or the file system from it.
    pub async fn snapshot(&self, worker: &WorkerName, base: &Base) -> Result<Snapshot, Error> {
        files::plain("worker", worker.as_str())?;
        self.pinned()?;
        let folder = self.folder(worker);
        if !fs::symlink_metadata(&folder).is_ok_and(|meta| meta.is_dir()) {
            return Err(Error::NoWork { folder });
        }
        let kept = self.index(worker);
        let index = files::unused_named(&self.tmp(), "index-");
        let known = fs::symlink_metadata(&kept).is_ok();
        if known {
            files::copy_with_time(&kept, &index)?;
        }
        let scanned = match known {
            true => self.scan(&folder, &index, base).await,
            false => self.scan_anew(&folder, &index, base).await,
        };
        let (tree, changed, differences) = match scanned {
            // An index a power cut has torn: without it all files are read, and that is all it costs.
            Err(error) if known => {
                tracing::warn!(%error, index = %kept.display(), "scanning without the index");
                self.scan_anew(&folder, &index, base).await?
            }
            other => other?,
        };
        if changed {
            files::rename(&index, &kept)?;
        } else {
            files::remove(&index)?;
        }
        if tree != base.tree {
            self.pin(&tree)?;
        }
        let total = differences.len();
        let named = differences.into_iter().take(NAMED);
        Ok(Snapshot {
            tree,
            changed: named
                .map(|c| String::from_utf8_lossy(&c.path).into_owned())
                .collect(),
            changed_total: total,
        })
    }

    async fn scan_anew(
        &self,
        folder: &Path,
        index: &Path,
        base: &Base,
    ) -> Result<(TreeId, bool, Vec<Change>), Error> {
        files::remove(index)?;
        let dir = self.git_dir();
        let call = Call::new(&dir, ["read-tree", base.tree.as_str()]).index(index);
        self.git.ok(call).await?;
        let (tree, _, differences) = self.scan(folder, index, base).await?;
        Ok((tree, true, differences))
    }

    /// The tree of a folder, whether the index had to be changed for it, and what differs from the base.
    async fn scan(
        &self,
        folder: &Path,
        index: &Path,
        base: &Base,
    ) -> Result<(TreeId, bool, Vec<Change>), Error> {
        let dir = self.git_dir();
        let exclude = dir.join("info/exclude");
        let digits = base.tree.as_str().len();
        let ignore = Ignore::List(&exclude);
        let attributes = Some(base.tree.as_str());
        let scan = Scan {
            dir: &dir,
            folder,
            index,
            ignore,
            attributes,
            digits,
        };
        let changed = scan.update(&self.git).await?;
        let tree = self.write_tree(index).await?;
        if tree == base.tree {
            return Ok((tree, changed, Vec::new()));
        }
        let mut differences = self.differences(&base.tree, &tree).await?;
        let moved: Vec<Change> = differences
            .iter()
            .filter(|c| is_moved(c))
            .cloned()
            .collect();
        if moved.is_empty() {
            return Ok((tree, changed, differences));
        }
        let entries = moved.iter().map(Change::undo);
        set_entries(&self.git, &dir, index, digits, entries).await?;
        differences.retain(|change| !is_moved(change));
        Ok((self.write_tree(index).await?, true, differences))
    }

    pub(crate) async fn write_tree(&self, index: &Path) -> Result<TreeId, Error> {
        let dir = self.git_dir();
        Ok(TreeId::new(
            self.git
                .id(Call::new(&dir, ["write-tree"]).index(index))
                .await?,
        ))
    }

    /// What differs between two trees, sorted by path. Renames are a removal and an addition.
    pub(crate) async fn differences(
        &self,
        from: &TreeId,
        to: &TreeId,
    ) -> Result<Vec<Change>, Error> {
        let dir = self.git_dir();
        let options = [
            "diff-tree",
            "-r",
            "-z",
            "--raw",
            "--no-renames",
            "--no-abbrev",
        ];
        let call = Call::new(&dir, options).arg(from.as_str()).arg(to.as_str());
        let mut changes = changes(&self.git.ok(call).await?).ok_or_else(|| Error::Git {
            command: "diff-tree".into(),
            path: dir.clone(),
            detail: "its output cannot be read".into(),
        })?;
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(changes)
    }

    /// Keeps a tree from ever being cleaned up, by a ref in the engine's git folder.
    fn pin(&self, tree: &TreeId) -> Result<(), Error> {
        let folder = self.git_dir().join("refs/ronde/trees");
        let path = folder.join(tree.as_str());
        if fs::symlink_metadata(&path).is_ok() {
            return Ok(());
        }
        files::make(&folder)?;
        files::write_whole(&path, format!("{tree}\n").as_bytes())
    }

    /// The content of one file of a tree; none where there is no such file.
    ///
    /// # Errors
    /// What keeps git from it.
    pub async fn file(&self, tree: &TreeId, path: &str) -> Result<Option<Vec<u8>>, Error> {
        let dir = self.git_dir();
        let call = Call::new(&dir, ["cat-file", "--batch"]);
        let output = self.git.ok(call.stdin(format!("{tree}:{path}\n"))).await?;
        // `<id> blob <size>\n<content>\n`, or `<name> missing\n`.
        let end = output
            .iter()
            .position(|&byte| byte == b'\n')
            .unwrap_or(output.len());
        let head = String::from_utf8_lossy(&output[..end]).into_owned();
        let mut words = head.rsplit(' ');
        let size = words.next().and_then(|size| size.parse::<usize>().ok());
        match (size, words.next()) {
            (Some(size), Some("blob")) => {
                Ok(output.get(end + 1..end + 1 + size).map(<[u8]>::to_vec))
            }
            _ => Ok(None),
        }
    }

    /// The files of a tree, as `git ls-tree` names them; what is not UTF-8 is replaced. For
    /// [`programs_in`](crate::programs_in).
    ///
    /// # Errors
    /// What keeps git from it.
    pub async fn paths(&self, tree: &TreeId) -> Result<Vec<String>, Error> {
        let dir = self.git_dir();
        let options = ["ls-tree", "-r", "-z", "--name-only", "--full-tree"];
        let listed = self
            .git
            .ok(Call::new(&dir, options).arg(tree.as_str()))
            .await?;
        let paths = listed
            .split(|&byte| byte == 0)
            .filter(|path| !path.is_empty());
        Ok(paths
            .map(|path| String::from_utf8_lossy(path).into_owned())
            .collect())
    }

    /// The files of the base that some command lines run as programs, sorted: see
    /// [`programs_in`](crate::programs_in). A path that goes through a link of the base counts as there.
    /// One process.
    ///
    /// # Errors
    /// What keeps git from it.
    pub async fn programs<'a>(
        &self,
        base: &Base,
        runs: impl IntoIterator<Item = &'a str>,
    ) -> Result<Vec<String>, Error> {
        let known: HashSet<String> = self.paths(&base.tree).await?.into_iter().collect();
        let there = |path: &str| {
            let mut above = path.match_indices('/').map(|(at, _)| &path[..at]);
            known.contains(path) || above.any(|above| known.contains(above))
        };
        let programs: BTreeSet<String> = runs
            .into_iter()
            .flat_map(|run| programs_in(run, there))
            .collect();
        Ok(programs.into_iter().collect())
    }

    /// A unified diff, with binary files whole, so that `git apply` takes it. Past 4 MiB it is cut, and
    /// says so in its last line.
    ///
    /// # Errors
    /// What keeps git from it.
    pub async fn patch(&self, from: &TreeId, to: &TreeId) -> Result<String, Error> {
        let dir = self.git_dir();
        let options = [
            "diff-tree",
            "-r",
            "-p",
            "-M",
            "--binary",
            "--full-index",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            "--src-prefix=a/",
            "--dst-prefix=b/",
        ];
        let call = Call::new(&dir, options)
            .arg(from.as_str())
            .arg(to.as_str())
            .cut(PATCH);
        let output = self.git.run(call).await?;
        let left_out = output.total.saturating_sub(output.stdout.len() as u64);
        let mut patch = String::from_utf8_lossy(&output.ok()?).into_owned();
        if left_out > 0 {
            patch.push_str(&format!("\n[… {left_out} bytes left out …]\n"));
        }
        Ok(patch)
    }

    /// Removes the files of workers and checkouts, and follows no link. What was written down stays.
    ///
    /// # Errors
    /// What the file system says.
    pub async fn remove(&self) -> Result<(), Error> {
        let dir = self.dir.clone();
        blocking(move || {
            for folder in ["work", "check", "index", "tmp"] {
                files::remove(&dir.join(folder))?;
            }
            Ok(())
        })
        .await
    }
}

/// Puts a folder in the place of another, which goes to `old`.
pub(crate) fn replace(place: &Path, new: &Path, old: &Path) -> Result<(), Error> {
    if let Some(parent) = place.parent() {
        files::make(parent)?;
    }
    if fs::symlink_metadata(place).is_ok() {
        // A folder that was made read-only can only be moved by a superuser.
        if files::rename(place, old).is_err() {
            files::mend(place);
            files::rename(place, old)?;
        }
    }
    files::rename(new, place)
}

/// Whether only the commit of a submodule changed.
fn is_moved(change: &Change) -> bool {
    let is_module =
        |side: &Option<(String, String)>| side.as_ref().is_some_and(|(mode, _)| mode == SUBMODULE);
    is_module(&change.before) && is_module(&change.after)
}
