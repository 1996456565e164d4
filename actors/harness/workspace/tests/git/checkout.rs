//! Fresh checkouts for the verifier.

use std::{fs, os::unix::fs::symlink};

use ronde_workspace::Rules;

use crate::support::*;

fn rules(protect: &[&str], programs: &[&str]) -> Rules {
    let own = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    Rules {
        protect: own(protect),
        programs: own(programs),
    }
}

#[tokio::test]
async fn the_tree_and_a_clean_git_of_its_own() {
    let place = Place::new();
    let repo = place.repo().await;
    let (workspace, base, folder) = place.ready(&repo).await;
    fs::write(folder.join("src/a.txt"), "ONE\n").unwrap();
    fs::write(folder.join("new"), "new\n").unwrap();
    fs::create_dir(folder.join("target")).unwrap();
    fs::write(folder.join("target/x"), "ignored\n").unwrap();
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    let before = place.git.commands();
    let checkout = workspace
        .checkout("c", &snapshot.tree, &base, &Rules::default())
        .await
        .unwrap();
    assert_eq!(place.git.commands() - before, 4);
    assert!(checkout.protected.is_empty());
    let mut want = files(&folder);
    want.retain(|path, _| !path.starts_with("target"));
    assert_eq!(files(&checkout.folder), want);
    // As in CI: clean, on a commit of just this, with the base beneath it.
    let (ok, out) = sh(
        &checkout.folder,
        "git diff --exit-code && git status --porcelain",
    )
    .await;
    assert!(ok && out.is_empty(), "{out}");
    let parent = git(&checkout.folder, &["rev-parse", "HEAD~1", "origin/main"]).await;
    assert_eq!(parent, format!("{0}\n{0}", base.commit));
    assert!(
        git(&checkout.folder, &["diff", "origin/main"])
            .await
            .contains("+ONE")
    );
    let head = git(&checkout.folder, &["rev-parse", "HEAD"]).await;
    // It needs nothing of the run's folder, which a sandbox hides.
    let away = place.root.join("away");
    fs::rename(place.root.join("home/runs/one/git"), &away).unwrap();
    git(
        &checkout.folder,
        &["fsck", "--no-dangling", "--connectivity-only"],
    )
    .await;
    git(&checkout.folder, &["show", "HEAD"]).await;
    fs::rename(&away, place.root.join("home/runs/one/git")).unwrap();
    // A checkout that was tampered with is made anew, and is the same.
    fs::write(checkout.folder.join("junk"), "x").unwrap();
    let again = workspace
        .checkout("c", &snapshot.tree, &base, &Rules::default())
        .await
        .unwrap();
    assert_eq!(files(&again.folder), want);
    assert_eq!(git(&again.folder, &["rev-parse", "HEAD"]).await, head);
    // Without a difference it is the base itself.
    let checkout = workspace
        .checkout("b", &base.tree, &base, &rules(&["*"], &[]))
        .await
        .unwrap();
    assert_eq!(
        git(&checkout.folder, &["rev-parse", "HEAD"]).await,
        base.commit.as_str()
    );
    assert!(checkout.protected.is_empty());
}

#[tokio::test]
async fn what_is_protected_comes_back() {
    let place = Place::new();
    let repo = place.repo().await;
    fs::create_dir_all(repo.join("tests/sub")).unwrap();
    fs::write(repo.join("tests/a"), "a\n").unwrap();
    fs::write(repo.join("tests/gone"), "gone\n").unwrap();
    fs::write(repo.join("tests/sub/b"), "b\n").unwrap();
    write_program(&repo.join("ci"), "#!/bin/sh\n");
    commit(&repo, "tests").await;
    let (workspace, base, folder) = place.ready(&repo).await;
    fs::write(folder.join("tests/a"), "weaker\n").unwrap();
    fs::remove_file(folder.join("tests/gone")).unwrap();
    fs::write(folder.join("tests/added"), "x\n").unwrap();
    fs::remove_dir_all(folder.join("tests/sub")).unwrap();
    fs::write(folder.join("tests/sub"), "a file\n").unwrap();
    write_program(&folder.join("check.sh"), "#!/bin/sh\nexit 0 # sure\n");
    fs::remove_file(folder.join("ci")).unwrap();
    fs::create_dir(folder.join("ci")).unwrap();
    fs::write(folder.join("ci/x"), "x\n").unwrap();
    fs::write(folder.join("src/a.txt"), "fine\n").unwrap();
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    let before = place.git.commands();
    let rules = rules(&["tests/**", "/ci"], &["check.sh"]);
    let checkout = workspace
        .checkout("c", &snapshot.tree, &base, &rules)
        .await
        .unwrap();
    assert_eq!(place.git.commands() - before, 7);
    let want = [
        "check.sh",
        "ci",
        "ci/x",
        "tests/a",
        "tests/added",
        "tests/gone",
        "tests/sub",
        "tests/sub/b",
    ];
    assert_eq!(checkout.protected, want);
    let mut want = files(&repo);
    want.insert("src/a.txt".into(), "fine\n".into());
    assert_eq!(files(&checkout.folder), want);
    let (ok, out) = sh(
        &checkout.folder,
        "git diff --exit-code && git status --porcelain",
    )
    .await;
    assert!(ok && out.is_empty(), "{out}");
    let error = workspace
        .checkout("c", &snapshot.tree, &base, &self::rules(&["[z-a]"], &[]))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("[z-a]") && error.hint().is_some(),
        "{error}"
    );
}

#[tokio::test]
async fn a_program_behind_links_is_the_program() {
    let place = Place::new();
    let repo = place.repo().await;
    fs::create_dir_all(repo.join("tools/bin")).unwrap();
    write_program(&repo.join("tools/bin/real.sh"), "#!/bin/sh\nexit 1\n");
    symlink("bin/real.sh", repo.join("tools/run.sh")).unwrap();
    symlink("tools", repo.join("ci")).unwrap();
    commit(&repo, "links").await;
    let (workspace, base, folder) = place.ready(&repo).await;
    // `ci/run.sh` is no entry of the tree, as `ci` is a link.
    let runs = [
        "./ci/run.sh --fast",
        "cargo test",
        "bash ci/run.sh",
        "./gone.sh",
    ];
    let programs = workspace.programs(&base, runs).await.unwrap();
    assert_eq!(programs, ["ci/run.sh"]);
    let rules = Rules {
        protect: vec![],
        programs,
    };
    // The file at the end of the links is weakened.
    write_program(&folder.join("tools/bin/real.sh"), "#!/bin/sh\nexit 0\n");
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    let checkout = workspace
        .checkout("c", &snapshot.tree, &base, &rules)
        .await
        .unwrap();
    assert_eq!(checkout.protected, ["tools/bin/real.sh"]);
    assert_eq!(files(&checkout.folder), files(&repo));
    // A link is led elsewhere.
    workspace
        .reset(&main_worker(), &base.tree, &base)
        .await
        .unwrap();
    fs::create_dir(folder.join("mine")).unwrap();
    write_program(&folder.join("mine/run.sh"), "#!/bin/sh\nexit 0\n");
    fs::remove_file(folder.join("ci")).unwrap();
    symlink("mine", folder.join("ci")).unwrap();
    fs::remove_file(folder.join("tools/run.sh")).unwrap();
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    let checkout = workspace
        .checkout("c", &snapshot.tree, &base, &rules)
        .await
        .unwrap();
    assert_eq!(checkout.protected, ["ci", "tools/run.sh"]);
    let (ok, _) = sh(&checkout.folder, "./ci/run.sh").await;
    assert!(!ok, "the base's program runs");
}

#[tokio::test]
async fn a_folder_of_tests_cannot_be_replaced_by_a_link() {
    let place = Place::new();
    let repo = place.repo().await;
    fs::create_dir_all(repo.join("tests")).unwrap();
    fs::write(repo.join("tests/a"), "a\n").unwrap();
    commit(&repo, "tests").await;
    let (workspace, base, folder) = place.ready(&repo).await;
    fs::remove_dir_all(folder.join("tests")).unwrap();
    fs::create_dir(folder.join("mine")).unwrap();
    fs::write(folder.join("mine/a"), "weak\n").unwrap();
    symlink("mine", folder.join("tests")).unwrap();
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    let rules = rules(&["tests/**"], &[]);
    let checkout = workspace
        .checkout("c", &snapshot.tree, &base, &rules)
        .await
        .unwrap();
    assert_eq!(checkout.protected, ["tests/a"]);
    assert_eq!(
        fs::read_to_string(checkout.folder.join("tests/a")).unwrap(),
        "a\n"
    );
    assert!(
        !fs::symlink_metadata(checkout.folder.join("tests"))
            .unwrap()
            .is_symlink()
    );
}
