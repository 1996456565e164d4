//! Folders that become repositories of their own.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use ronde_workspace::{Rules, Seed, Source, inspect};

use crate::support::*;

fn example(place: &Place) -> PathBuf {
    let folder = place.root.join("example/project");
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(folder.join("src/lib.rs"), "fn broken\n").unwrap();
    fs::write(folder.join(".gitignore"), "/target\n").unwrap();
    fs::create_dir(folder.join("target")).unwrap();
    fs::write(folder.join("target/built"), "x").unwrap();
    write_program(&folder.join("check.sh"), "#!/bin/sh\n");
    folder
}

fn seeded(place: &Place, folder: &Path) -> Source {
    let seed = Seed {
        folder: folder.to_owned(),
        repo: place.root.join("home/seeds/example.git"),
    };
    Source {
        seed: Some(seed),
        ..place.source(Path::new("/not/looked/at"))
    }
}

#[tokio::test]
async fn a_folder_is_seeded_once_and_again_when_it_changed() {
    let place = Place::new();
    let folder = example(&place);
    let source = seeded(&place, &folder);
    let before = everything(&place.root.join("example"), &[]);
    inspect(&place.git, &source).await.unwrap();
    assert!(!place.root.join("home").exists(), "a look makes nothing");

    let one = place.workspace("one");
    let base = one.prepare(&source).await.unwrap();
    assert_eq!(base.branch.as_deref(), Some("main"));
    assert_eq!(base.repo, place.root.join("home/seeds/example.git"));
    let work = one.reset(&main_worker(), &base.tree, &base).await.unwrap();
    let mut want = files(&folder);
    want.retain(|path, _| !path.starts_with("target"));
    assert_eq!(files(&work), want);
    fs::write(work.join("src/lib.rs"), "fn whole() {}\n").unwrap();
    let snapshot = one.snapshot(&main_worker(), &base).await.unwrap();
    let commit = one
        .deliver(&base, &snapshot.tree, "ronde/one", "m", noon())
        .await
        .unwrap();
    assert_eq!(
        git(&base.repo, &["rev-parse", "ronde/one"]).await,
        commit.as_str()
    );

    // The seeded repository lies in the home, which a sandbox hides: git works all the same.
    let checkout = one
        .checkout("c", &snapshot.tree, &base, &Rules::default())
        .await
        .unwrap();
    let (work_away, check_away) = (place.root.join("w"), place.root.join("c"));
    fs::rename(&work, &work_away).unwrap();
    fs::rename(&checkout.folder, &check_away).unwrap();
    let away = place.root.join("home-away");
    fs::rename(place.root.join("home"), &away).unwrap();
    for folder in [&work_away, &check_away] {
        git(folder, &["fsck", "--no-dangling"]).await;
        git(folder, &["log", "-p"]).await;
    }
    fs::rename(&away, place.root.join("home")).unwrap();

    // The same content is the same commit, and what was delivered stays.
    let again = place.workspace("two").prepare(&source).await.unwrap();
    assert_eq!(again, base);
    assert_eq!(
        git(&base.repo, &["rev-parse", "ronde/one"]).await,
        commit.as_str()
    );
    assert_eq!(everything(&place.root.join("example"), &[]), before);

    // Another content is a commit on top; going back to the first is a third.
    fs::write(folder.join("src/lib.rs"), "fn other\n").unwrap();
    let third = place.workspace("three").prepare(&source).await.unwrap();
    assert_eq!(
        git(&base.repo, &["rev-parse", "main~1"]).await,
        base.commit.as_str()
    );
    assert_eq!(
        git(&base.repo, &["rev-parse", "main"]).await,
        third.commit.as_str()
    );
    // A run that was prepared before goes on from where it was.
    assert_eq!(one.prepare(&source).await.unwrap(), base);
    // On another machine the ids are the same.
    let elsewhere = Place::new();
    let folder = example(&elsewhere);
    let there = elsewhere
        .workspace("x")
        .prepare(&seeded(&elsewhere, &folder))
        .await
        .unwrap();
    assert_eq!(there.commit, base.commit);
}

#[tokio::test]
async fn git_folders_are_skipped_and_links_kept() {
    let place = Place::new();
    let folder = example(&place);
    git(&folder, &["init", "-q"]).await;
    fs::create_dir(folder.join("nested")).unwrap();
    git(&folder.join("nested"), &["init", "-q"]).await;
    fs::write(folder.join("nested/n"), "n").unwrap();
    symlink("/etc", folder.join("out")).unwrap();
    let base = place
        .workspace("one")
        .prepare(&seeded(&place, &folder))
        .await
        .unwrap();
    let listed = tree(&base.repo, "main").await;
    let want = [
        "100644 .gitignore",
        "100755 check.sh",
        "100644 nested/n",
        "120000 out",
        "100644 src/lib.rs",
    ];
    assert_eq!(listed, want);
}

#[tokio::test]
async fn runs_that_seed_at_once_share_one_repository() {
    let place = Place::new();
    let source = seeded(&place, &example(&place));
    let runs: Vec<_> = (0..4)
        .map(|n| {
            let (workspace, source) = (place.workspace(&format!("r{n}")), source.clone());
            tokio::spawn(async move { workspace.prepare(&source).await })
        })
        .collect();
    let mut commits = Vec::new();
    for run in runs {
        commits.push(run.await.unwrap().unwrap().commit);
    }
    commits.dedup();
    assert_eq!(commits.len(), 1);
    let repo = place.root.join("home/seeds/example.git");
    assert_eq!(git(&repo, &["rev-list", "--count", "main"]).await, "1");
    let left: Vec<_> = fs::read_dir(place.root.join("home/seeds"))
        .unwrap()
        .collect();
    assert_eq!(left.len(), 1);
}

#[tokio::test]
async fn seeds_that_are_none() {
    let place = Place::new();
    let missing = place.root.join("missing");
    let empty = place.root.join("empty");
    fs::create_dir_all(empty.join(".git")).unwrap();
    for (folder, words) in [(missing, "does not exist"), (empty, "has no file")] {
        let source = seeded(&place, &folder);
        let error = inspect(&place.git, &source).await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains(words) && text.contains(folder.to_str().unwrap()),
            "{text}"
        );
        assert!(error.hint().is_some());
        let error = place.workspace("one").prepare(&source).await.unwrap_err();
        assert_eq!(error.to_string(), text);
    }
    // Only ignored files, which a look does not find out.
    let ignored = place.root.join("ignored");
    fs::create_dir(&ignored).unwrap();
    fs::write(ignored.join(".gitignore"), "*\n").unwrap();
    let error = place
        .workspace("one")
        .prepare(&seeded(&place, &ignored))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("no file that git would keep"),
        "{error}"
    );
    assert!(
        !place.root.join("home/seeds/example.git").exists(),
        "nothing half made is left"
    );
}
