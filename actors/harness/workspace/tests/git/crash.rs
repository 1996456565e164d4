//! Whatever a killed ronde left half done, the step can be done again.

use std::{fs, path::Path};

use ronde_workspace::{Rules, Workspace};

use crate::support::*;

fn lock(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "").unwrap();
}

#[tokio::test]
async fn prepare_is_taken_up_wherever_it_broke_off() {
    let place = Place::new();
    let repo = place.repo().await;
    let source = place.source(&repo);
    let (workspace, base, _) = place.ready(&repo).await;
    let dir = place.root.join("home/runs/one");
    // The base is pinned: the repository may move on.
    fs::write(repo.join("README"), "later\n").unwrap();
    commit(&repo, "second").await;
    assert_eq!(workspace.prepare(&source).await.unwrap(), base);
    assert_eq!(
        place.git.commands(),
        3,
        "what is pinned is not asked for again"
    );
    // Killed before the base was written down, with everything else there or half there.
    fs::remove_file(dir.join("base.json")).unwrap();
    fs::write(dir.join("base.new"), "{").unwrap();
    lock(&dir.join("git/HEAD.lock"));
    lock(&dir.join("git/config.lock"));
    lock(&dir.join("git/packed-refs.lock"));
    lock(&dir.join("tmp/1-2/index.lock"));
    fs::remove_file(dir.join("git/HEAD")).unwrap();
    let base = workspace.prepare(&source).await.unwrap();
    assert_eq!(
        base.commit.as_str(),
        git(&repo, &["rev-parse", "HEAD"]).await
    );
    workspace
        .reset(&main_worker(), &base.tree, &base)
        .await
        .unwrap();
    // Killed before anything.
    fs::remove_dir_all(&dir).unwrap();
    assert_eq!(workspace.prepare(&source).await.unwrap(), base);
    // A file that is damaged is an error that names it, not another base.
    fs::write(dir.join("base.json"), "{").unwrap();
    let error = workspace.prepare(&source).await.unwrap_err();
    assert!(
        error.to_string().contains("base.json is damaged"),
        "{error}"
    );
}

#[tokio::test]
async fn reset_and_snapshot_are_taken_up_wherever_they_broke_off() {
    let place = Place::new();
    let repo = place.repo().await;
    let (workspace, base, folder) = place.ready(&repo).await;
    let dir = place.root.join("home/runs/one");
    let index = dir.join("index/main");
    fs::write(folder.join("src/a.txt"), "ONE\n").unwrap();
    fs::write(folder.join("new"), "x\n").unwrap();
    let want = workspace.snapshot(&main_worker(), &base).await.unwrap();
    let whole = fs::read(&index).unwrap();
    // Locks of the dead, of ours and of the worker's own git.
    lock(&dir.join("index/main.lock"));
    lock(&dir.join("git/index.lock"));
    lock(&dir.join("git/HEAD.lock"));
    lock(&folder.join(".git/index.lock"));
    lock(&dir.join(format!("git/refs/ronde/trees/{}.lock", want.tree)));
    assert_eq!(
        workspace.snapshot(&main_worker(), &base).await.unwrap(),
        want
    );
    // An index that is missing, torn, empty, or of another state of the folder.
    fs::remove_file(&index).unwrap();
    assert_eq!(
        workspace.snapshot(&main_worker(), &base).await.unwrap(),
        want
    );
    for torn in [&whole[..whole.len() / 2], b"", b"nonsense"] {
        fs::write(&index, torn).unwrap();
        assert_eq!(
            workspace.snapshot(&main_worker(), &base).await.unwrap(),
            want
        );
    }
    // Killed between the removal of the old folder and the new one taking its place.
    fs::rename(&folder, dir.join("tmp/old")).unwrap();
    fs::remove_file(&index).unwrap();
    assert!(workspace.snapshot(&main_worker(), &base).await.is_err());
    workspace
        .reset(&main_worker(), &want.tree, &base)
        .await
        .unwrap();
    assert_eq!(
        workspace.snapshot(&main_worker(), &base).await.unwrap(),
        want
    );
    // Killed when the folder was there and its index was not.
    fs::remove_file(&index).unwrap();
    assert_eq!(
        workspace.snapshot(&main_worker(), &base).await.unwrap(),
        want
    );
    // A checkout half made is not there at all, and `tmp` is cleared by the next `prepare`.
    fs::create_dir_all(dir.join("tmp/9-9/files")).unwrap();
    let checkout = workspace
        .checkout("c", &want.tree, &base, &Rules::default())
        .await
        .unwrap();
    assert_eq!(files(&checkout.folder), files(&folder));
    workspace.prepare(&place.source(&repo)).await.unwrap();
    assert_eq!(fs::read_dir(dir.join("tmp")).unwrap().count(), 0);
}

#[tokio::test]
async fn deliver_is_taken_up_wherever_it_broke_off() {
    let place = Place::new();
    let repo = place.repo().await;
    let (workspace, base, folder) = place.ready(&repo).await;
    fs::write(folder.join("src/a.txt"), "ONE\n").unwrap();
    let tree = workspace
        .snapshot(&main_worker(), &base)
        .await
        .unwrap()
        .tree;
    let commit = workspace
        .deliver(&base, &tree, "b", "m", noon())
        .await
        .unwrap();
    let pack = repo.join(".git/objects/pack");
    // Killed before the ref, before the index of the pack, and in the middle of the pack.
    for step in 0..3 {
        git(&repo, &["update-ref", "-d", "refs/heads/b"]).await;
        for entry in fs::read_dir(&pack).unwrap() {
            let path = entry.unwrap().path();
            let kind = path.extension().unwrap().to_owned();
            if step >= 1 && kind == "idx" || step == 2 {
                fs::rename(&path, path.with_extension("ronde-tmp")).unwrap();
            }
        }
        let again = Workspace::at(place.git.clone(), place.root.join("home/runs/one"));
        assert_eq!(
            again.deliver(&base, &tree, "b", "m", noon()).await.unwrap(),
            commit
        );
        assert_eq!(git(&repo, &["show", "b:src/a.txt"]).await, "ONE");
        git(&repo, &["fsck", "--no-dangling"]).await;
    }
}
