//! Every kind of repository, and everything that is none.

use std::{fs, os::unix::fs::symlink};

use ronde_workspace::{Error, Rules, Source, inspect};

use crate::support::*;

/// A whole run on a source: prepare, a change, a checkout, a delivery. Gives the base's branch.
async fn whole_run(place: &Place, source: &Source, run: &str) -> Option<String> {
    inspect(&place.git, source).await.unwrap();
    let workspace = place.workspace(run);
    let base = workspace.prepare(source).await.unwrap();
    let folder = workspace
        .reset(&main_worker(), &base.tree, &base)
        .await
        .unwrap();
    assert_eq!(git(&folder, &["status", "--porcelain"]).await, "");
    fs::write(folder.join("src/a.txt"), format!("{run}\n")).unwrap();
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    assert_eq!(snapshot.changed, ["src/a.txt"], "{run}");
    let rules = Rules {
        protect: vec!["README".into()],
        programs: vec![],
    };
    let checkout = workspace
        .checkout("c", &snapshot.tree, &base, &rules)
        .await
        .unwrap();
    assert!(checkout.protected.is_empty());
    let (ok, out) = sh(
        &checkout.folder,
        "git status --porcelain && git log --oneline",
    )
    .await;
    assert!(ok && out.contains("What is being checked"), "{run}: {out}");
    let branch = format!("ronde/{run}");
    let commit = workspace
        .deliver(&base, &snapshot.tree, &branch, "m", noon())
        .await
        .unwrap();
    assert_eq!(
        git(&source.repo, &["rev-parse", &branch]).await,
        commit.as_str()
    );
    let shown = git(&source.repo, &["show", &format!("{branch}:src/a.txt")]).await;
    assert_eq!(shown, run);
    base.branch
}

#[tokio::test]
async fn worktrees_bare_ones_links_and_detached_heads() {
    let place = Place::named("with space é");
    let repo = place.repo().await;
    assert_eq!(
        whole_run(&place, &place.source(&repo), "plain")
            .await
            .as_deref(),
        Some("main")
    );
    let linked = place.root.join("linked");
    git(
        &repo,
        &[
            "worktree",
            "add",
            "-q",
            "-b",
            "side",
            linked.to_str().unwrap(),
        ],
    )
    .await;
    let branch = whole_run(&place, &place.source(&linked), "linked").await;
    assert_eq!(branch.as_deref(), Some("side"));
    let bare = place.root.join("bare.git");
    git(
        &place.root,
        &[
            "clone",
            "-q",
            "--bare",
            repo.to_str().unwrap(),
            bare.to_str().unwrap(),
        ],
    )
    .await;
    assert_eq!(
        whole_run(&place, &place.source(&bare), "bare")
            .await
            .as_deref(),
        Some("main")
    );
    // Its objects are all another's, by alternates.
    let shared = place.root.join("shared");
    git(
        &place.root,
        &[
            "clone",
            "-q",
            "--shared",
            repo.to_str().unwrap(),
            shared.to_str().unwrap(),
        ],
    )
    .await;
    whole_run(&place, &place.source(&shared), "shared").await;
    // `.git` is a link.
    fs::rename(shared.join(".git"), place.root.join("moved.git")).unwrap();
    symlink("../moved.git", shared.join(".git")).unwrap();
    whole_run(&place, &place.source(&shared), "symlinked").await;
    // The way to it is a link.
    let way = place.root.join("way");
    symlink(&repo, &way).unwrap();
    whole_run(&place, &place.source(&way), "way").await;
    git(&repo, &["checkout", "-q", "--detach"]).await;
    assert_eq!(
        whole_run(&place, &place.source(&repo), "detached").await,
        None
    );
    // A `core.worktree` that leads nowhere.
    git(&repo, &["config", "core.worktree", "../gone"]).await;
    let source = place.source(&repo);
    inspect(&place.git, &source).await.unwrap();
}

#[tokio::test]
async fn sha256_and_shallow_and_reftable() {
    let place = Place::new();
    let long = place.root.join("long");
    place.repo_at(&long, &["--object-format=sha256"]).await;
    whole_run(&place, &place.source(&long), "sha256").await;
    let table = place.root.join("table");
    place.repo_at(&table, &["--ref-format=reftable"]).await;
    let branch = whole_run(&place, &place.source(&table), "reftable").await;
    assert_eq!(branch.as_deref(), Some("main"));
    let repo = place.repo().await;
    fs::write(repo.join("README"), "more\n").unwrap();
    commit(&repo, "second").await;
    let shallow = place.root.join("shallow");
    let url = format!("file://{}", repo.display());
    git(
        &place.root,
        &["clone", "-q", "--depth=1", &url, shallow.to_str().unwrap()],
    )
    .await;
    whole_run(&place, &place.source(&shallow), "shallow").await;
    git(&shallow, &["fsck"]).await;
}

#[tokio::test]
async fn submodules_stay_as_they_are() {
    let place = Place::new();
    let module = place.root.join("module");
    place.repo_at(&module, &[]).await;
    let repo = place.repo().await;
    git(&repo, &["submodule", "--quiet", "add", "../module", "mod"]).await;
    commit(&repo, "module").await;
    git(&module, &["commit", "-q", "--allow-empty", "-m", "later"]).await;
    let (workspace, base, folder) = place.ready(&repo).await;
    assert_eq!(fs::read_dir(folder.join("mod")).unwrap().count(), 0);
    assert_eq!(
        workspace
            .snapshot(&main_worker(), &base)
            .await
            .unwrap()
            .tree,
        base.tree
    );
    // Files put there do not count, nor does another commit.
    fs::write(folder.join("mod/x"), "x").unwrap();
    assert_eq!(
        workspace
            .snapshot(&main_worker(), &base)
            .await
            .unwrap()
            .tree,
        base.tree
    );
    fs::remove_dir_all(folder.join("mod")).unwrap();
    git(&folder, &["clone", "-q", module.to_str().unwrap(), "mod"]).await;
    assert_eq!(
        workspace
            .snapshot(&main_worker(), &base)
            .await
            .unwrap()
            .tree,
        base.tree
    );
    fs::write(folder.join("README"), "changed\n").unwrap();
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    assert_eq!(snapshot.changed, ["README"]);
    let checkout = workspace
        .checkout("c", &snapshot.tree, &base, &Rules::default())
        .await
        .unwrap();
    assert_eq!(
        fs::read_dir(checkout.folder.join("mod")).unwrap().count(),
        0
    );
    workspace
        .deliver(&base, &snapshot.tree, "ronde/x", "m", noon())
        .await
        .unwrap();
    assert!(
        git(&repo, &["ls-tree", "ronde/x"])
            .await
            .contains("160000 commit")
    );
    // To remove one is a change.
    fs::remove_dir_all(folder.join("mod")).unwrap();
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    assert_eq!(snapshot.changed, ["README", "mod"]);
    let rules = Rules {
        protect: vec!["/mod".into()],
        programs: vec![],
    };
    let checkout = workspace
        .checkout("c", &snapshot.tree, &base, &rules)
        .await
        .unwrap();
    assert_eq!(checkout.protected, ["mod"]);
    assert!(checkout.folder.join("mod").is_dir());
    // A submodule's own folder is a repository, too: its `.git` is a file.
    let inner = repo.join("mod");
    assert!(fs::metadata(inner.join(".git")).unwrap().is_file());
    whole_run(&place, &place.source(&inner), "inner").await;
}

#[tokio::test]
async fn line_ends_and_other_attributes_make_no_change() {
    let place = Place::new();
    let repo = place.repo().await;
    fs::write(
        repo.join(".gitattributes"),
        "*.bat text eol=crlf\n*.u16 text working-tree-encoding=UTF-16LE\n*.id ident\n",
    )
    .unwrap();
    fs::write(repo.join("x.bat"), "a\r\nb\r\n").unwrap();
    fs::write(repo.join("x.u16"), b"a\0\n\0").unwrap();
    fs::write(repo.join("x.id"), "$Id$\n").unwrap();
    fs::write(repo.join("mixed.txt"), "a\r\nb\n").unwrap();
    commit(&repo, "attributes").await;
    let (workspace, base, folder) = place.ready(&repo).await;
    assert_eq!(fs::read(folder.join("x.bat")).unwrap(), b"a\r\nb\r\n");
    assert_eq!(fs::read(folder.join("x.u16")).unwrap(), b"a\0\n\0");
    for path in ["x.bat", "x.u16", "x.id", "mixed.txt"] {
        let bytes = fs::read(folder.join(path)).unwrap();
        fs::remove_file(folder.join(path)).unwrap();
        fs::write(folder.join(path), bytes).unwrap();
    }
    // A worker's own attributes, even senseless ones, change nothing of how its files are read.
    fs::write(
        folder.join(".gitattributes"),
        "* working-tree-encoding=nonsense text eol=crlf\n",
    )
    .unwrap();
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    assert_eq!(snapshot.changed, [".gitattributes"]);
    let checkout = workspace
        .checkout("c", &snapshot.tree, &base, &Rules::default())
        .await
        .unwrap();
    assert_eq!(files(&checkout.folder), files(&folder));
}

#[tokio::test]
async fn what_is_no_repository_or_no_base() {
    let place = Place::new();
    let repo = place.repo().await;
    let commit_id = git(&repo, &["rev-parse", "HEAD"]).await;
    git(&repo, &["tag", "v1"]).await;
    git(&repo, &["tag", "-a", "-m", "x", "v2"]).await;
    git(&repo, &["branch", "other"]).await;
    git(&repo, &["update-ref", "refs/remotes/origin/far", "HEAD"]).await;
    let with = |base: &str| Source {
        base: Some(base.to_owned()),
        ..place.source(&repo)
    };

    // What is there: name to branch.
    let short = &commit_id[..10];
    let table = [
        ("main", Some("main")),
        ("other", Some("other")),
        ("refs/heads/other", Some("other")),
        ("v1", None),
        ("v2", None),
        ("origin/far", None),
        (commit_id.as_str(), None),
        (short, None),
        ("HEAD", None),
    ];
    for (at, (base, branch)) in table.into_iter().enumerate() {
        inspect(&place.git, &with(base)).await.unwrap();
        let found = place
            .workspace(&format!("r{at}"))
            .prepare(&with(base))
            .await
            .unwrap();
        assert_eq!(
            (found.commit.as_str(), found.branch.as_deref()),
            (commit_id.as_str(), branch)
        );
    }

    // What is not: the words of the error, and of the hint.
    let missing = place.root.join("missing");
    let file = place.root.join("file");
    fs::write(&file, "").unwrap();
    let plain = place.root.join("plain");
    fs::create_dir(&plain).unwrap();
    let broken = place.root.join("broken");
    fs::create_dir(&broken).unwrap();
    fs::write(broken.join(".git"), "nonsense").unwrap();
    let inner = repo.join("src");
    let unborn = place.root.join("unborn");
    fs::create_dir(&unborn).unwrap();
    git(&unborn, &["init", "-q", "-b", "trunk"]).await;
    let table: [(Source, &str, &str); 12] = [
        (place.source(&missing), "does not exist", "repo"),
        (place.source(&file), "is not a git repository", "git init"),
        (place.source(&plain), "is not a git repository", "git init"),
        (place.source(&broken), "is not a git repository", "git init"),
        (
            place.source(&inner),
            "is not a git repository",
            repo.to_str().unwrap(),
        ),
        (place.source(&unborn), "`trunk`", "commit once"),
        (
            Source {
                base: Some("trunk".into()),
                ..place.source(&unborn)
            },
            "no commit yet",
            "commit once",
        ),
        (
            with("nothing"),
            "no branch, tag or commit `nothing`",
            "checked out",
        ),
        (
            with("far"),
            "no branch, tag or commit `far`",
            "`origin/far` exists",
        ),
        (with(""), "no branch, tag or commit ``", "checked out"),
        (with("a\nb"), "no branch, tag or commit", "checked out"),
        (
            with("HEAD:README"),
            "no branch, tag or commit",
            "checked out",
        ),
    ];
    let before = everything(&place.root, &["home"]);
    for (source, words, hint) in table {
        let error = inspect(&place.git, &source).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(words), "{text}");
        assert!(text.contains(source.repo.to_str().unwrap()), "{text}");
        assert!(
            error.hint().unwrap().contains(hint),
            "{text}: {:?}",
            error.hint()
        );
        assert!(place.workspace("bad").prepare(&source).await.is_err());
    }
    assert_eq!(
        everything(&place.root, &["home"]),
        before,
        "a look changes nothing"
    );
    let error = place
        .workspace("bad")
        .snapshot(&main_worker(), &some_base())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NotPrepared { .. }), "{error}");
}

fn some_base() -> ronde_workspace::Base {
    ronde_workspace::Base {
        commit: "0".repeat(40).into(),
        tree: "0".repeat(40).into(),
        branch: None,
        repo: "/nowhere".into(),
    }
}
