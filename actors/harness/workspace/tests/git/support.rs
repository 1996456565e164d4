//! A temporary home, repositories of every kind, and looks at what is in a folder.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use ronde_protocol::{Timestamp, WorkerName};
use ronde_sandbox::{
    Command, Stdin,
    gate::{self, Purpose},
    test_spawner,
};
use ronde_workspace::{Base, Git, Source, Workspace};
use tempfile::TempDir;

/// A temporary folder with a counting git.
pub(crate) struct Place {
    pub(crate) root: PathBuf,
    pub(crate) git: Git,
    _folder: TempDir,
}

/// The time of every delivery here.
pub(crate) fn noon() -> Timestamp {
    "2026-03-29T12:00:00Z".parse().unwrap()
}

/// The worker.
pub(crate) fn main_worker() -> WorkerName {
    WorkerName::main()
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::named("ronde")
    }

    /// One whose folder has this name.
    pub(crate) fn named(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join(name);
        fs::create_dir_all(&root).unwrap();
        Self {
            root,
            git: Git::new(test_spawner()),
            _folder: folder,
        }
    }

    /// The workspace of a run.
    pub(crate) fn workspace(&self, run: &str) -> Workspace {
        Workspace::at(self.git.clone(), self.root.join("home/runs").join(run))
    }

    /// A repository with one commit on `main`.
    pub(crate) async fn repo(&self) -> PathBuf {
        let repo = self.root.join("project");
        self.repo_at(&repo, &[]).await;
        repo
    }

    pub(crate) async fn repo_at(&self, repo: &Path, options: &[&str]) {
        fs::create_dir_all(repo.join("src/deep")).unwrap();
        let mut init = vec!["init", "-q", "-b", "main"];
        init.extend(options);
        git(repo, &init).await;
        fs::write(repo.join("README"), "hello\n").unwrap();
        fs::write(repo.join("src/a.txt"), "one\n").unwrap();
        fs::write(repo.join("src/deep/b.txt"), "two\n").unwrap();
        fs::write(repo.join("line\nbreak é"), "odd\n").unwrap();
        fs::write(repo.join(".gitignore"), "/target/\n*.log\n").unwrap();
        fs::write(repo.join("src/.gitignore"), "/gen\n!keep.log\n").unwrap();
        write_program(&repo.join("check.sh"), "#!/bin/sh\nexit 0\n");
        symlink("src/a.txt", repo.join("link")).unwrap();
        commit(repo, "first").await;
    }

    pub(crate) fn source(&self, repo: &Path) -> Source {
        Source {
            repo: repo.to_owned(),
            base: None,
            fetch: false,
            seed: None,
        }
    }

    /// A prepared workspace with the worker's folder filled.
    pub(crate) async fn ready(&self, repo: &Path) -> (Workspace, Base, PathBuf) {
        let workspace = self.workspace("one");
        let base = workspace.prepare(&self.source(repo)).await.unwrap();
        let folder = workspace
            .reset(&main_worker(), &base.tree, &base)
            .await
            .unwrap();
        (workspace, base, folder)
    }
}

/// Writes a file that can be run.
pub(crate) fn write_program(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Commits everything in a repository.
pub(crate) async fn commit(repo: &Path, message: &str) {
    git(repo, &["add", "-A"]).await;
    git(
        repo,
        &[
            "commit",
            "-q",
            "--no-verify",
            "--allow-empty",
            "-m",
            message,
        ],
    )
    .await;
}

/// Runs git as a person would, in a folder, and gives what it wrote. It must succeed.
pub(crate) async fn git(cwd: &Path, args: &[&str]) -> String {
    let (code, out) = try_git(cwd, args).await;
    assert!(code, "git {args:?} in {}: {out}", cwd.display());
    out
}

/// Runs git as a person would; whether it succeeded, and what it wrote.
pub(crate) async fn try_git(cwd: &Path, args: &[&str]) -> (bool, String) {
    let argv = ["git", "-c", "protocol.file.allow=always"]
        .into_iter()
        .chain(args.iter().copied());
    let mut command = Command::new(argv, cwd);
    command.env = ronde_sandbox::env_allow(
        &["PATH".to_owned()],
        &[
            ("GIT_CONFIG_NOSYSTEM".to_owned(), "1".to_owned()),
            ("GIT_CONFIG_GLOBAL".to_owned(), "/dev/null".to_owned()),
            ("GIT_AUTHOR_NAME".to_owned(), "Ann".to_owned()),
            ("GIT_AUTHOR_EMAIL".to_owned(), "ann@localhost".to_owned()),
            ("GIT_COMMITTER_NAME".to_owned(), "Ann".to_owned()),
            ("GIT_COMMITTER_EMAIL".to_owned(), "ann@localhost".to_owned()),
        ],
    );
    command.stdin = Stdin::Null;
    let done = test_spawner()
        .output(gate::engine(Purpose::Git), command)
        .await
        .unwrap();
    let out = format!("{}{}", done.stdout.text(), done.stderr.text());
    (done.exit.success(), out.trim_end().to_owned())
}

/// Runs a program without git's variables and with nothing of ours; whether it succeeded, and what it wrote.
pub(crate) async fn sh(cwd: &Path, script: &str) -> (bool, String) {
    let mut command = Command::new(["sh", "-c", script], cwd);
    command.env = ronde_sandbox::env_allow(
        &["PATH".to_owned()],
        &[("HOME".to_owned(), "/nowhere".to_owned())],
    );
    let done = test_spawner()
        .output(gate::engine(Purpose::Probe), command)
        .await
        .unwrap();
    (
        done.exit.success(),
        format!("{}{}", done.stdout.text(), done.stderr.text()),
    )
}

/// What a folder holds, without `.git`: path to kind and content.
pub(crate) fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    look(folder, folder, &mut found, &|name| name != ".git");
    found
}

/// What a folder holds, `.git` too, but for what `skip` names.
pub(crate) fn everything(folder: &Path, skip: &[&str]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    look(folder, folder, &mut found, &|_| true);
    found.retain(|path, _| !skip.iter().any(|skip| path.starts_with(skip)));
    found
}

fn look(
    root: &Path,
    folder: &Path,
    found: &mut BTreeMap<String, String>,
    keep: &dyn Fn(&str) -> bool,
) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        if !keep(&name) {
            continue;
        }
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        let key = path
            .strip_prefix(root)
            .unwrap()
            .to_string_lossy()
            .into_owned();
        if kind.is_dir() {
            found.insert(format!("{key}/"), String::new());
            look(root, &path, found, keep);
        } else if kind.is_symlink() {
            found.insert(
                key,
                format!("-> {}", fs::read_link(&path).unwrap().display()),
            );
        } else {
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o111;
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            found.insert(key, format!("{}{text}", if mode == 0 { "" } else { "x " }));
        }
    }
}

/// The names of a git tree, with modes: `100644 src/a.txt`.
pub(crate) async fn tree(git_dir: &Path, tree: &str) -> Vec<String> {
    let listed = git(git_dir, &["ls-tree", "-r", "-z", tree]).await;
    let entries = listed.split('\0').filter(|entry| !entry.is_empty());
    let entry = |entry: &str| {
        let (head, path) = entry.split_once('\t').unwrap();
        format!("{} {path}", head.split(' ').next().unwrap())
    };
    entries.map(entry).collect()
}
