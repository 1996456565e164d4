//! Bringing a base up to date from its remote.

use std::{fs, path::PathBuf};

use ronde_workspace::{Rules, Source};

use crate::support::*;

/// A remote and a clone of it.
async fn pair(place: &Place) -> (PathBuf, PathBuf) {
    let remote = place.root.join("remote");
    place.repo_at(&remote, &[]).await;
    let repo = place.root.join("clone");
    git(
        &place.root,
        &[
            "clone",
            "-q",
            remote.to_str().unwrap(),
            repo.to_str().unwrap(),
        ],
    )
    .await;
    (remote, repo)
}

fn fetching(place: &Place, repo: &std::path::Path) -> Source {
    Source {
        fetch: true,
        ..place.source(repo)
    }
}

#[tokio::test]
async fn the_newer_of_branch_and_remote_is_the_base() {
    let place = Place::new();
    let (remote, repo) = pair(&place).await;
    // Nothing new.
    let base = place
        .workspace("same")
        .prepare(&fetching(&place, &repo))
        .await
        .unwrap();
    assert_eq!(
        base.commit.as_str(),
        git(&repo, &["rev-parse", "HEAD"]).await
    );
    // The remote is ahead.
    fs::write(remote.join("README"), "newer\n").unwrap();
    commit(&remote, "second").await;
    let before = everything(&repo, &[]);
    let workspace = place.workspace("ahead");
    let base = workspace.prepare(&fetching(&place, &repo)).await.unwrap();
    assert_eq!(
        base.commit.as_str(),
        git(&remote, &["rev-parse", "main"]).await
    );
    assert_eq!(base.branch.as_deref(), Some("main"));
    assert_eq!(
        everything(&repo, &[]),
        before,
        "the user's refs did not move"
    );
    let folder = workspace
        .reset(&main_worker(), &base.tree, &base)
        .await
        .unwrap();
    assert_eq!(
        fs::read_to_string(folder.join("README")).unwrap(),
        "newer\n"
    );
    assert_eq!(git(&folder, &["log", "--format=%s"]).await, "second\nfirst");
    fs::write(folder.join("src/a.txt"), "ONE\n").unwrap();
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    let checkout = workspace
        .checkout("c", &snapshot.tree, &base, &Rules::default())
        .await
        .unwrap();
    // What was fetched comes along into the delivered branch and the folders.
    workspace
        .deliver(&base, &snapshot.tree, "ronde/x", "third", noon())
        .await
        .unwrap();
    fs::remove_dir_all(place.root.join("home/runs/ahead/git")).unwrap();
    assert_eq!(
        git(&repo, &["log", "--format=%s", "ronde/x"]).await,
        "third\nsecond\nfirst"
    );
    git(&checkout.folder, &["fsck", "--no-dangling"]).await;
    git(&folder, &["fsck", "--no-dangling"]).await;
    git(&repo, &["fsck", "--no-dangling"]).await;
    // The branch is ahead of another remote branch it follows: it stays.
    git(&remote, &["branch", "old", "main~1"]).await;
    git(&repo, &["config", "branch.main.merge", "refs/heads/old"]).await;
    git(&repo, &["commit", "-q", "--allow-empty", "-m", "local"]).await;
    let base = place
        .workspace("behind")
        .prepare(&fetching(&place, &repo))
        .await
        .unwrap();
    assert_eq!(
        base.commit.as_str(),
        git(&repo, &["rev-parse", "HEAD"]).await
    );
    // Both went on.
    git(&repo, &["config", "branch.main.merge", "refs/heads/main"]).await;
    let error = place
        .workspace("both")
        .prepare(&fetching(&place, &repo))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("`origin/main` have diverged"),
        "{error}"
    );
    assert!(error.hint().unwrap().contains("origin/main"));
    // The remote's branch by name is just that.
    let source = Source {
        base: Some("origin/main".into()),
        ..fetching(&place, &repo)
    };
    let base = place.workspace("named").prepare(&source).await.unwrap();
    assert_eq!(
        base.commit.as_str(),
        git(&remote, &["rev-parse", "main"]).await
    );
    assert_eq!(base.branch, None);
}

#[tokio::test]
async fn without_a_remote_there_is_nothing_to_fetch() {
    let place = Place::new();
    let (_, repo) = pair(&place).await;
    git(&repo, &["checkout", "-q", "-b", "local"]).await;
    git(&repo, &["tag", "v1"]).await;
    for (run, base) in [("one", None), ("two", Some("v1")), ("three", Some("HEAD"))] {
        let source = Source {
            base: base.map(str::to_owned),
            ..fetching(&place, &repo)
        };
        place.workspace(run).prepare(&source).await.unwrap();
    }
}

#[tokio::test]
async fn a_remote_out_of_reach_is_named() {
    let place = Place::new();
    let (remote, repo) = pair(&place).await;
    fs::rename(&remote, place.root.join("away")).unwrap();
    let error = place
        .workspace("one")
        .prepare(&fetching(&place, &repo))
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("`origin`") && text.contains(remote.to_str().unwrap()),
        "{text}"
    );
    assert!(error.hint().unwrap().contains("fetch = false"));
    // The branch is gone there.
    fs::rename(place.root.join("away"), &remote).unwrap();
    git(&remote, &["branch", "-m", "main", "renamed"]).await;
    let error = place
        .workspace("two")
        .prepare(&fetching(&place, &repo))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("`main`"), "{error}");
    // A secret in the address is in no message.
    git(
        &repo,
        &[
            "config",
            "remote.origin.url",
            "http://me:s3cret@127.0.0.1:9/x",
        ],
    )
    .await;
    let error = place
        .workspace("three")
        .prepare(&fetching(&place, &repo))
        .await
        .unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(
        !text.contains("s3cret") && text.contains("127.0.0.1:9"),
        "{text}"
    );
    // It can be tried again.
    git(
        &repo,
        &["config", "remote.origin.url", remote.to_str().unwrap()],
    )
    .await;
    git(&remote, &["branch", "-m", "renamed", "main"]).await;
    place
        .workspace("three")
        .prepare(&fetching(&place, &repo))
        .await
        .unwrap();
}
