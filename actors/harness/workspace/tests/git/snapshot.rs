//! Preparing, resetting and writing down what a worker left.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use ronde_protocol::WorkerName;
use ronde_workspace::{Rules, STATE_FOLDER, inspect};

use crate::support::*;

#[tokio::test]
async fn a_run_that_changes_nothing_needs_seven_processes() {
    let place = Place::new();
    let repo = place.repo().await;
    let before = everything(&repo, &[]);
    inspect(&place.git, &place.source(&repo)).await.unwrap();
    let (workspace, base, folder) = place.ready(&repo).await;
    assert_eq!(base.branch.as_deref(), Some("main"));
    assert_eq!(
        base.commit.as_str(),
        git(&repo, &["rev-parse", "HEAD"]).await
    );
    assert_eq!(base.repo, repo);
    assert_eq!(files(&folder), files(&repo));
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    assert_eq!(snapshot.tree, base.tree);
    assert_eq!((snapshot.changed.len(), snapshot.changed_total), (0, 0));
    let checkout = workspace
        .checkout("c", &snapshot.tree, &base, &Rules::default())
        .await
        .unwrap();
    assert_eq!(files(&checkout.folder), files(&repo));
    assert_eq!(place.git.commands(), 7);
    assert_eq!(
        everything(&repo, &[]),
        before,
        "the user's repository is untouched"
    );
}

#[tokio::test]
async fn what_a_worker_did_is_in_the_tree() {
    let place = Place::new();
    let repo = place.repo().await;
    let (workspace, base, folder) = place.ready(&repo).await;
    fs::write(folder.join("src/a.txt"), "ONE\n").unwrap();
    fs::remove_file(folder.join("README")).unwrap();
    fs::write(folder.join("new \"file\"\n"), "x").unwrap();
    fs::create_dir(folder.join("dir")).unwrap();
    write_program(&folder.join("dir/run"), "y");
    symlink("/etc/passwd", folder.join("out")).unwrap();
    fs::set_permissions(folder.join("check.sh"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::create_dir(folder.join("empty")).unwrap();
    let before = place.git.commands();
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    assert_eq!(place.git.commands() - before, 4);
    let want = [
        "README",
        "check.sh",
        "dir/run",
        "new \"file\"\n",
        "out",
        "src/a.txt",
    ]
    .map(str::to_owned);
    assert_eq!(snapshot.changed, want);
    assert_eq!(snapshot.changed_total, 6);
    let listed = tree(&repo, "HEAD").await;
    assert!(listed.contains(&"100755 check.sh".to_owned()));
    let listed = tree(
        &place.root.join("home/runs/one/git"),
        snapshot.tree.as_str(),
    )
    .await;
    for entry in [
        "100644 check.sh",
        "100755 dir/run",
        "120000 out",
        "100644 new \"file\"\n",
    ] {
        assert!(listed.contains(&entry.to_owned()), "{entry} in {listed:?}");
    }
    // Again: the same. And a second worker, and a reset to it, hold the same.
    let before = place.git.commands();
    let again = workspace.snapshot(&main_worker(), &base).await.unwrap();
    assert_eq!(again, snapshot);
    assert_eq!(
        place.git.commands() - before,
        3,
        "what is known is not read again"
    );
    let two = WorkerName::new("two");
    let other = workspace.reset(&two, &snapshot.tree, &base).await.unwrap();
    let mut want = files(&folder);
    want.remove("empty/");
    assert_eq!(files(&other), want);
    assert_eq!(workspace.snapshot(&two, &base).await.unwrap(), snapshot);
    // Its own git: at the base, with the rest as changes.
    let status = git(&other, &["status", "--porcelain", "-uall"]).await;
    assert!(
        status.contains(" D README") && status.contains(" M src/a.txt"),
        "{status}"
    );
    assert!(
        status.contains("?? dir/run") && status.lines().count() == 6,
        "{status}"
    );
    assert_eq!(
        git(&other, &["rev-parse", "HEAD"]).await,
        base.commit.as_str()
    );
    let pinned = git(
        &place.root.join("home/runs/one/git"),
        &["for-each-ref", "--format=%(refname)", "refs/ronde/trees"],
    )
    .await;
    assert_eq!(pinned, format!("refs/ronde/trees/{}", snapshot.tree));
}

#[tokio::test]
async fn a_change_in_the_same_second_and_of_the_same_size_is_seen() {
    let place = Place::new();
    let repo = place.repo().await;
    let (workspace, base, folder) = place.ready(&repo).await;
    // In place: the same inode, the same size, and the time of the checkout to the second.
    let path = folder.join("src/a.txt");
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, "eno\n").unwrap();
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(modified)
        .unwrap();
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    assert_eq!(snapshot.changed, ["src/a.txt"]);
}

#[tokio::test]
async fn the_ignore_files_of_the_base_decide() {
    let place = Place::new();
    let repo = place.repo().await;
    let (workspace, base, folder) = place.ready(&repo).await;
    for path in [
        "target/x",
        "a.log",
        "src/gen",
        "src/keep.log",
        "src/deep/keep.log",
        "gen",
        "hidden",
    ] {
        fs::create_dir_all(folder.join(path).parent().unwrap()).unwrap();
        fs::write(folder.join(path), "x").unwrap();
    }
    // The worker hides one file and uncovers another.
    fs::write(folder.join(".gitignore"), "hidden\n").unwrap();
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    let want = [
        ".gitignore",
        "gen",
        "hidden",
        "src/deep/keep.log",
        "src/keep.log",
    ];
    assert_eq!(snapshot.changed, want);
    // After a reset even what is ignored is gone.
    workspace
        .reset(&main_worker(), &base.tree, &base)
        .await
        .unwrap();
    assert_eq!(files(&folder), files(&repo));
}

#[tokio::test]
async fn files_become_folders_and_links_and_back() {
    let place = Place::new();
    let repo = place.repo().await;
    let (workspace, base, folder) = place.ready(&repo).await;
    // A file becomes a folder, a folder a file, and a folder a link to one with the same files.
    fs::remove_file(folder.join("README")).unwrap();
    fs::create_dir(folder.join("README")).unwrap();
    fs::write(folder.join("README/inner"), "x").unwrap();
    fs::rename(folder.join("src/deep"), folder.join("elsewhere")).unwrap();
    symlink("../elsewhere", folder.join("src/deep")).unwrap();
    fs::remove_file(folder.join("link")).unwrap();
    fs::create_dir(folder.join("link")).unwrap();
    fs::write(folder.join("link/x"), "x").unwrap();
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    let want = [
        "README",
        "README/inner",
        "elsewhere/b.txt",
        "link",
        "link/x",
        "src/deep",
        "src/deep/b.txt",
    ];
    assert_eq!(snapshot.changed, want);
    let two = WorkerName::new("two");
    let other = workspace.reset(&two, &snapshot.tree, &base).await.unwrap();
    assert_eq!(files(&other), files(&folder));
}

#[tokio::test]
async fn an_ignored_link_in_the_place_of_a_folder_uncovers_nothing() {
    let place = Place::new();
    let repo = place.repo().await;
    fs::create_dir(repo.join("src/gen")).unwrap();
    fs::write(repo.join("src/gen/x"), "x\n").unwrap();
    git(&repo, &["add", "-f", "src/gen/x"]).await;
    commit(&repo, "tracked though ignored").await;
    let (workspace, base, folder) = place.ready(&repo).await;
    fs::rename(folder.join("src/gen"), folder.join("elsewhere")).unwrap();
    fs::write(folder.join("elsewhere/x"), "changed\n").unwrap();
    symlink("../elsewhere", folder.join("src/gen")).unwrap();
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    assert_eq!(snapshot.changed, ["elsewhere/x", "src/gen/x"]);
    let listed = tree(
        &place.root.join("home/runs/one/git"),
        snapshot.tree.as_str(),
    )
    .await;
    assert!(
        !listed.iter().any(|entry| entry.contains("src/gen")),
        "{listed:?}"
    );
}

#[tokio::test]
async fn a_nested_repository_is_plain_files() {
    let place = Place::new();
    let repo = place.repo().await;
    let (workspace, base, folder) = place.ready(&repo).await;
    for nested in ["vendor/lib", "src/deep"] {
        fs::create_dir_all(folder.join(nested).join("target")).unwrap();
        git(&folder.join(nested), &["init", "-q"]).await;
        fs::write(folder.join(nested).join("n.txt"), "n").unwrap();
        fs::write(folder.join(nested).join("n.log"), "n").unwrap();
        commit(&folder.join(nested), "nested").await;
    }
    fs::create_dir_all(folder.join("vendor/lib/a")).unwrap();
    git(&folder.join("vendor/lib/a"), &["init", "-q"]).await;
    fs::write(folder.join("vendor/lib/a/deeper"), "n").unwrap();
    commit(&folder.join("vendor/lib/a"), "deeper").await;
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    assert_eq!(
        snapshot.changed,
        ["src/deep/n.txt", "vendor/lib/a/deeper", "vendor/lib/n.txt"]
    );
    let listed = tree(
        &place.root.join("home/runs/one/git"),
        snapshot.tree.as_str(),
    )
    .await;
    assert!(
        !listed.iter().any(|entry| entry.starts_with("160000")),
        "{listed:?}"
    );
    assert!(
        !listed.iter().any(|entry| entry.contains(".git/")),
        "{listed:?}"
    );
}

#[tokio::test]
async fn the_workers_own_git_works_and_changes_nothing_of_ours() {
    let place = Place::new();
    let repo = place.repo().await;
    let (workspace, base, folder) = place.ready(&repo).await;
    let before = everything(&repo, &[]);
    assert_eq!(git(&folder, &["status", "--porcelain"]).await, "");
    assert!(git(&folder, &["log", "--oneline"]).await.contains("first"));
    assert_eq!(git(&folder, &["branch", "--show-current"]).await, "main");
    fs::write(folder.join("src/a.txt"), "changed\n").unwrap();
    assert!(git(&folder, &["diff"]).await.contains("+changed"));
    // With no identity of a person anywhere.
    let (ok, out) = sh(
        &folder,
        "git checkout -q -b x && git commit -qam work && git log -1 --format=%an",
    )
    .await;
    assert!(ok && out.trim() == "ronde", "{out}");
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    assert_eq!(snapshot.changed, ["src/a.txt"]);
    // Even with its `.git` gone or broken.
    fs::remove_dir_all(folder.join(".git")).unwrap();
    fs::write(folder.join(".git"), "gitdir: /nowhere\n").unwrap();
    assert_eq!(
        workspace.snapshot(&main_worker(), &base).await.unwrap(),
        snapshot
    );
    assert_eq!(everything(&repo, &[]), before);
}

#[tokio::test]
async fn what_cannot_be_read_is_made_readable() {
    let place = Place::new();
    let repo = place.repo().await;
    let (workspace, base, folder) = place.ready(&repo).await;
    fs::write(folder.join("src/a.txt"), "shut\n").unwrap();
    fs::set_permissions(folder.join("src/a.txt"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(folder.join("src/deep"), fs::Permissions::from_mode(0o000)).unwrap();
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    assert_eq!(snapshot.changed, ["src/a.txt"]);
    // Folders made read-only, as Go's module cache is, do not stop a reset either.
    fs::set_permissions(folder.join("src"), fs::Permissions::from_mode(0o500)).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).unwrap();
    workspace
        .reset(&main_worker(), &base.tree, &base)
        .await
        .unwrap();
    assert_eq!(files(&folder), files(&repo));
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o000)).unwrap();
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    assert_eq!(snapshot.tree, base.tree);
}

#[tokio::test]
async fn special_files_and_odd_names_are_no_obstacle() {
    let place = Place::named("a b é'\"$x");
    let repo = place.repo().await;
    let (workspace, base, folder) = place.ready(&repo).await;
    let (ok, out) = sh(
        &folder,
        "mkfifo pipe && mkdir -p 'git~1' && touch 'git~1/x' -- '-x' '\t'",
    )
    .await;
    assert!(ok, "{out}");
    use std::os::unix::ffi::OsStrExt as _;
    let raw = std::ffi::OsStr::from_bytes(b"raw\xff");
    fs::write(folder.join(raw), "x").unwrap();
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    assert_eq!(snapshot.changed, ["\t", "-x", "raw\u{fffd}"]);
    let two = WorkerName::new("two");
    let other = workspace.reset(&two, &snapshot.tree, &base).await.unwrap();
    assert!(other.join(raw).exists());
}

#[tokio::test]
async fn removing_follows_no_link_and_keeps_what_was_written_down() {
    let place = Place::new();
    let repo = place.repo().await;
    let (workspace, base, folder) = place.ready(&repo).await;
    symlink(&repo, folder.join("to-the-user")).unwrap();
    symlink("..", folder.join("up")).unwrap();
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    let before = everything(&repo, &[]);
    workspace
        .checkout("c", &snapshot.tree, &base, &Rules::default())
        .await
        .unwrap();
    workspace.remove_checkout("c").await.unwrap();
    workspace.remove_checkout("c").await.unwrap();
    // A worker that could put a link in the place of its own folder gains nothing by it.
    fs::rename(&folder, folder.with_extension("away")).unwrap();
    symlink(&repo, &folder).unwrap();
    let error = workspace.snapshot(&main_worker(), &base).await.unwrap_err();
    assert!(error.to_string().contains("the worker's folder"), "{error}");
    workspace.remove().await.unwrap();
    assert!(!folder.exists());
    assert_eq!(everything(&repo, &[]), before);
    let patch = workspace.patch(&base.tree, &snapshot.tree).await.unwrap();
    assert!(patch.contains("+++ b/to-the-user"), "{patch}");
    workspace.prepare(&place.source(&repo)).await.unwrap();
    let folder = workspace
        .reset(&main_worker(), &snapshot.tree, &base)
        .await
        .unwrap();
    assert!(
        fs::symlink_metadata(folder.join("up"))
            .unwrap()
            .is_symlink()
    );
}

#[tokio::test]
async fn patches() {
    let place = Place::new();
    let repo = place.repo().await;
    let (workspace, base, folder) = place.ready(&repo).await;
    fs::write(folder.join("src/a.txt"), "ONE\n").unwrap();
    fs::write(folder.join("bytes"), [0, 1, 2, 255]).unwrap();
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    let patch = workspace.patch(&base.tree, &snapshot.tree).await.unwrap();
    assert!(patch.contains("-one\n+ONE\n"), "{patch}");
    let file = place.root.join("x.patch");
    fs::write(&file, &patch).unwrap();
    git(&repo, &["apply", file.to_str().unwrap()]).await;
    assert_eq!(fs::read(repo.join("bytes")).unwrap(), [0, 1, 2, 255]);
    assert_eq!(workspace.patch(&base.tree, &base.tree).await.unwrap(), "");
    // Five megabytes of lines are cut to four, with a word.
    fs::write(folder.join("big"), "0123456789abcdef\n".repeat(5 << 16)).unwrap();
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    let patch = workspace.patch(&base.tree, &snapshot.tree).await.unwrap();
    assert!(patch.len() < (4 << 20) + 100 && patch.ends_with("bytes left out …]\n"));
    assert_eq!(
        workspace.paths(&base.tree).await.unwrap().len(),
        tree(&repo, "HEAD").await.len()
    );
}

#[tokio::test]
async fn names_that_are_no_names() {
    let place = Place::new();
    let repo = place.repo().await;
    let (workspace, base, _) = place.ready(&repo).await;
    for name in ["", ".", "..", "a/b", "../x", "a\nb", "x.lock"] {
        let worker = WorkerName::new(name);
        assert!(
            workspace.reset(&worker, &base.tree, &base).await.is_err(),
            "{name:?}"
        );
        assert!(
            workspace.snapshot(&worker, &base).await.is_err(),
            "{name:?}"
        );
        let checkout = workspace
            .checkout(name, &base.tree, &base, &Rules::default())
            .await;
        assert!(checkout.is_err(), "{name:?}");
        assert!(workspace.remove_checkout(name).await.is_err(), "{name:?}");
    }
}

#[tokio::test]
async fn the_state_folder_is_no_part_of_the_result() {
    let place = Place::new();
    let repo = place.repo().await;
    let (workspace, base, folder) = place.ready(&repo).await;
    fs::create_dir(folder.join(STATE_FOLDER)).unwrap();
    fs::write(folder.join(STATE_FOLDER).join("NOTES.md"), "x").unwrap();
    fs::create_dir_all(folder.join("src").join(STATE_FOLDER)).unwrap();
    fs::write(folder.join("src").join(STATE_FOLDER).join("x"), "x").unwrap();
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    assert_eq!(snapshot.changed, [format!("src/{STATE_FOLDER}/x")]);
    let status = git(&folder, &["status", "--porcelain"]).await;
    assert_eq!(status, format!("?? src/{STATE_FOLDER}/"));
}
