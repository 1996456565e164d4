//! Repositories whose configuration, hooks and attributes name programs: none of them ever runs.

use std::{fs, path::Path};

use ronde_workspace::{Rules, inspect};

use crate::support::*;

/// Writes a configuration in which everything that can be a program is one that leaves a canary.
fn arm(git_dir: &Path, canary: &Path) {
    let program = git_dir.join("canary.sh");
    write_program(
        &program,
        &format!(
            "#!/bin/sh\necho \"$0 $*\" >> '{}'\nexit 1\n",
            canary.display()
        ),
    );
    let run = program.display();
    let included = git_dir.join("included");
    fs::write(&included, format!("[core]\n\tfsmonitor = {run}\n[filter \"inc\"]\n\tclean = {run}\n\tsmudge = {run}\n\trequired = true\n"))
        .unwrap();
    let text = format!(
        "[core]\n\tfsmonitor = {run}\n\thooksPath = {hooks}\n\tsshCommand = {run}\n\
         \tgitProxy = {run}\n\tpager = {run}\n\teditor = {run}\n\taskPass = {run}\n\
         \talternateRefsCommand = {run}\n\tattributesFile = {attributes}\n\
         \tuntrackedCache = true\n\tsplitIndex = true\n\
         [filter \"bad\"]\n\tclean = {run}\n\tsmudge = {run}\n\tprocess = {run}\n\trequired = true\n\
         [filter \"lfs\"]\n\tclean = {run}\n\tsmudge = {run}\n\tprocess = {run}\n\trequired = true\n\
         [diff]\n\texternal = {run}\n[diff \"bad\"]\n\ttextconv = {run}\n\tcommand = {run}\n\
         [merge \"bad\"]\n\tdriver = {run}\n[interactive]\n\tdiffFilter = {run}\n\
         [alias]\n\tcat-file = !{run}\n\tread-tree = !{run}\n\tupdate-ref = !{run}\n\
         [credential]\n\thelper = {run}\n[gpg]\n\tprogram = {run}\n[commit]\n\tgpgSign = true\n\
         [uploadpack]\n\tpackObjectsHook = {run}\n[include]\n\tpath = {included}\n\
         [trace2]\n\teventTarget = {canary}\n[maintenance]\n\tauto = true\n[gc]\n\tauto = 1\n\
         [remote \"origin\"]\n\turl = ext::{run}\n\tuploadpack = {run}\n\tpromisor = true\n\
         \tpartialclonefilter = blob:none\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
         [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n\
         [url \"ext::{run} \"]\n\tinsteadOf = /\n[submodule]\n\trecurse = true\n",
        hooks = git_dir.join("hooks").display(),
        attributes = git_dir.join("attributes").display(),
        included = included.display(),
        canary = canary.display(),
    );
    let config = git_dir.join("config");
    let old = fs::read_to_string(&config).unwrap();
    fs::write(&config, old + &text).unwrap();
    fs::write(
        git_dir.join("attributes"),
        "* filter=bad diff=bad merge=bad\n",
    )
    .unwrap();
    fs::create_dir_all(git_dir.join("info")).unwrap();
    fs::write(git_dir.join("info/attributes"), "* filter=bad diff=bad\n").unwrap();
    for hook in [
        "applypatch-msg",
        "pre-commit",
        "post-commit",
        "post-checkout",
        "post-index-change",
        "reference-transaction",
        "update",
        "pre-receive",
        "post-receive",
        "pre-auto-gc",
        "fsmonitor-watchman",
        "proc-receive",
        "post-update",
        "post-rewrite",
        "pre-push",
    ] {
        fs::create_dir_all(git_dir.join("hooks")).unwrap();
        write_program(
            &git_dir.join("hooks").join(hook),
            &format!("#!/bin/sh\necho hook {hook} >> '{}'\n", canary.display()),
        );
    }
}

#[tokio::test]
async fn no_program_of_a_repository_ever_runs() {
    let place = Place::new();
    let repo = place.repo().await;
    fs::write(
        repo.join(".gitattributes"),
        "* filter=bad diff=bad\n*.bin filter=lfs diff=lfs merge=lfs -text\n*.inc filter=inc\n",
    )
    .unwrap();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    fs::write(repo.join("big.bin"), pointer).unwrap();
    fs::write(repo.join("x.inc"), "x\n").unwrap();
    commit(&repo, "attributes").await;
    let canary = place.root.join("canary");
    arm(&repo.join(".git"), &canary);
    let before = everything(&repo, &[]);

    let source = place.source(&repo);
    inspect(&place.git, &source).await.unwrap();
    let (workspace, base, folder) = place.ready(&repo).await;
    assert_eq!(fs::read_to_string(folder.join("big.bin")).unwrap(), pointer);
    fs::write(folder.join("src/a.txt"), "ONE\n").unwrap();
    fs::write(folder.join("big.bin"), format!("{pointer}\n")).unwrap();
    fs::write(folder.join("y.inc"), "y\n").unwrap();
    // The worker arms its own `.git`, a nested one and a submodule's.
    arm(&folder.join(".git"), &canary);
    fs::create_dir(folder.join("nested")).unwrap();
    git(&folder.join("nested"), &["init", "-q"]).await;
    fs::write(folder.join("nested/f"), "f\n").unwrap();
    arm(&folder.join("nested/.git"), &canary);
    fs::write(
        folder.join(".gitattributes"),
        "* filter=bad diff=bad working-tree-encoding=bad\n",
    )
    .unwrap();
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    let want = [
        ".gitattributes",
        "big.bin",
        "nested/f",
        "src/a.txt",
        "y.inc",
    ];
    assert_eq!(snapshot.changed, want);
    let rules = Rules {
        protect: vec!["y.inc".into()],
        programs: vec!["check.sh".into()],
    };
    let checkout = workspace
        .checkout("c", &snapshot.tree, &base, &rules)
        .await
        .unwrap();
    assert_eq!(checkout.protected, ["y.inc"]);
    workspace.patch(&base.tree, &snapshot.tree).await.unwrap();
    workspace
        .deliver(&base, &snapshot.tree, "ronde/x", "m", noon())
        .await
        .unwrap();
    workspace
        .reset(&main_worker(), &snapshot.tree, &base)
        .await
        .unwrap();
    assert!(!canary.exists(), "{}", fs::read_to_string(&canary).unwrap());
    let skip = [".git/objects/pack/pack-", ".git/refs/heads/ronde"];
    assert_eq!(everything(&repo, &skip), before);

    // A fetch from a remote that is a program.
    let mut source = source;
    source.fetch = true;
    let error = place.workspace("two").prepare(&source).await.unwrap_err();
    assert!(error.to_string().contains("`origin`"), "{error}");
    assert!(!canary.exists(), "{}", fs::read_to_string(&canary).unwrap());

    // The canary sings when git is run as a person would.
    let _ = try_git(&repo, &["status"]).await;
    assert!(canary.exists());
}

#[tokio::test]
async fn what_a_partial_clone_lacks_is_not_fetched_behind_our_back() {
    let place = Place::new();
    let repo = place.repo().await;
    let canary = place.root.join("canary");
    let object = |id: &str| repo.join(".git/objects").join(&id[..2]).join(&id[2..]);
    let blob = git(&repo, &["rev-parse", "HEAD:README"]).await;
    let head = git(&repo, &["rev-parse", "HEAD"]).await;
    fs::remove_file(object(&blob)).unwrap();
    arm(&repo.join(".git"), &canary);
    let workspace = place.workspace("one");
    let base = workspace.prepare(&place.source(&repo)).await.unwrap();
    let error = workspace
        .reset(&main_worker(), &base.tree, &base)
        .await
        .unwrap_err();
    assert!(error.to_string().contains(&blob), "{error}");
    assert!(error.hint().unwrap().contains("partial clone"));
    // The commit itself is to come from a remote that is a folder, by a program of the configuration.
    fs::remove_file(object(&head)).unwrap();
    let text = fs::read_to_string(repo.join(".git/config")).unwrap();
    let text = text
        .replace("url = ext::", "url = ./")
        .replace("insteadOf = /", "insteadOf = no");
    fs::write(repo.join(".git/config"), text).unwrap();
    assert!(inspect(&place.git, &place.source(&repo)).await.is_err());
    assert!(!canary.exists(), "{}", fs::read_to_string(&canary).unwrap());
    let _ = try_git(&repo, &["cat-file", "-t", &head]).await;
    assert!(canary.exists(), "git alone would have run it");
}

#[tokio::test]
async fn a_submodule_armed_by_a_worker_runs_nothing() {
    let place = Place::new();
    let canary = place.root.join("canary");
    let module = place.root.join("module");
    place.repo_at(&module, &[]).await;
    let repo = place.repo().await;
    git(&repo, &["submodule", "--quiet", "add", "../module", "mod"]).await;
    commit(&repo, "module").await;
    arm(&repo.join(".git/modules/mod"), &canary);
    let (workspace, base, folder) = place.ready(&repo).await;
    git(&folder, &["clone", "-q", module.to_str().unwrap(), "mod"]).await;
    commit(&folder.join("mod"), "moved").await;
    arm(&folder.join("mod/.git"), &canary);
    let snapshot = workspace.snapshot(&main_worker(), &base).await.unwrap();
    assert_eq!(snapshot.tree, base.tree);
    workspace
        .reset(&main_worker(), &base.tree, &base)
        .await
        .unwrap();
    workspace
        .deliver(&base, &snapshot.tree, "ronde/x", "m", noon())
        .await
        .unwrap();
    assert!(!canary.exists(), "{}", fs::read_to_string(&canary).unwrap());
}
