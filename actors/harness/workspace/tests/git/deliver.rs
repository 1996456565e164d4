//! One ref into the user's repository, and nothing else.

use std::{fs, path::Path};

use ronde_protocol::TreeId;
use ronde_workspace::{Base, Workspace};

use crate::support::*;

const BRANCH: &str = "ronde/nightly-0a1b2c3d";

/// A workspace with one change written down.
async fn changed(place: &Place, repo: &Path) -> (Workspace, Base, TreeId) {
    let (workspace, base, folder) = place.ready(repo).await;
    fs::write(folder.join("src/a.txt"), "ONE\n").unwrap();
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    (workspace, base, snapshot.tree)
}

#[tokio::test]
async fn one_branch_appears_and_nothing_else_changes() {
    let place = Place::new();
    let repo = place.repo().await;
    // A dirty checkout, a stash, and something staged.
    fs::write(repo.join("src/a.txt"), "stashed\n").unwrap();
    git(&repo, &["stash", "-q"]).await;
    fs::write(repo.join("staged"), "x").unwrap();
    git(&repo, &["add", "staged"]).await;
    fs::write(repo.join("README"), "dirty\n").unwrap();
    let (workspace, base, tree) = changed(&place, &repo).await;
    let before = everything(&repo, &[]);
    let count = place.git.commands();
    let commit = workspace
        .deliver(&base, &tree, BRANCH, "Green again", noon())
        .await
        .unwrap();
    assert_eq!(place.git.commands() - count, 4);
    let skip = [".git/objects/pack/pack-", ".git/refs/heads/ronde/"];
    assert_eq!(
        everything(&repo, &skip),
        before,
        "nothing else of the repository changed"
    );
    assert_eq!(git(&repo, &["rev-parse", BRANCH]).await, commit.as_str());
    let shown = git(
        &repo,
        &["show", "--format=%an %ae %cn %aI %B", "--stat", BRANCH],
    )
    .await;
    assert!(
        shown.starts_with("ronde ronde@localhost ronde 2026-03-29T12:00:00"),
        "{shown}"
    );
    assert!(
        shown.contains("Green again\n") && shown.contains("1 file changed"),
        "{shown}"
    );
    assert_eq!(
        git(&repo, &["rev-parse", &format!("{BRANCH}~1")]).await,
        base.commit.as_str()
    );
    git(&repo, &["fsck", "--no-dangling"]).await;
    // Again: the same commit, and not a byte more.
    let before = everything(&repo, &[]);
    let again = workspace
        .deliver(&base, &tree, BRANCH, "Green again", noon())
        .await
        .unwrap();
    assert_eq!(again, commit);
    assert_eq!(everything(&repo, &[]), before);
    // The run's folder can go: the repository needs nothing of it.
    fs::remove_dir_all(place.root.join("home")).unwrap();
    assert_eq!(
        git(&repo, &["show", &format!("{BRANCH}:src/a.txt")]).await,
        "ONE"
    );
    git(&repo, &["fsck", "--no-dangling"]).await;
}

#[tokio::test]
async fn another_commit_is_never_overwritten() {
    let place = Place::new();
    let repo = place.repo().await;
    let (workspace, base, tree) = changed(&place, &repo).await;
    git(&repo, &["branch", BRANCH]).await;
    let before = everything(&repo, &[]);
    let error = workspace
        .deliver(&base, &tree, BRANCH, "m", noon())
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(BRANCH) && text.contains(base.commit.as_str()),
        "{text}"
    );
    assert!(text.contains(repo.to_str().unwrap()) && error.hint().unwrap().contains(BRANCH));
    assert_eq!(everything(&repo, &[]), before, "not even an object came");
    // Nor when it is in packed-refs.
    git(&repo, &["pack-refs", "--all"]).await;
    let error = workspace
        .deliver(&base, &tree, BRANCH, "m", noon())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("already there"), "{error}");
    // A branch that is in the way of the name.
    git(&repo, &["branch", "taken"]).await;
    let error = workspace
        .deliver(&base, &tree, "taken/x", "m", noon())
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("taken/x") && error.hint().is_some(),
        "{error}"
    );
    for bad in ["", "a..b", "a b", "a\nb", "x.lock", "@{", "/x"] {
        assert!(
            workspace
                .deliver(&base, &tree, bad, "m", noon())
                .await
                .is_err(),
            "{bad:?}"
        );
    }
}

#[tokio::test]
async fn the_tree_of_the_base_can_be_delivered() {
    let place = Place::new();
    let repo = place.repo().await;
    let (workspace, base, _) = place.ready(&repo).await;
    let commit = workspace
        .deliver(&base, &base.tree, "same", "", noon())
        .await
        .unwrap();
    assert_eq!(git(&repo, &["rev-parse", "same"]).await, commit.as_str());
    assert_ne!(commit, base.commit);
}

#[tokio::test]
async fn a_lock_left_by_a_killed_delivery_does_not_block() {
    let place = Place::new();
    let repo = place.repo().await;
    let (workspace, base, tree) = changed(&place, &repo).await;
    let lock = repo.join(".git/refs/heads").join(format!("{BRANCH}.lock"));
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    // Another's lock is left alone.
    fs::write(&lock, format!("{}\n", base.commit)).unwrap();
    let error = workspace
        .deliver(&base, &tree, BRANCH, "m", noon())
        .await
        .unwrap_err();
    assert!(error.to_string().contains(".lock"), "{error}");
    assert!(lock.exists());
    // One made by this very delivery, before or after its id was written.
    fs::write(&lock, "").unwrap();
    let commit = workspace
        .deliver(&base, &tree, BRANCH, "m", noon())
        .await
        .unwrap();
    git(
        &repo,
        &["update-ref", "-d", &format!("refs/heads/{BRANCH}")],
    )
    .await;
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    fs::write(&lock, format!("{commit}\n")).unwrap();
    assert_eq!(
        workspace
            .deliver(&base, &tree, BRANCH, "m", noon())
            .await
            .unwrap(),
        commit
    );
    assert!(!lock.exists());
}
