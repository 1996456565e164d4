//! Repositories that are not what a loop needs, and those that are strange but right.

use std::{fs, os::unix::fs::symlink, path::Path};

use ronde_tests::{contents, end_of, git, write};

use super::Marked;

#[test]
fn a_repository_that_cannot_be_worked_from_is_told() {
    let marked = Marked::new();
    let plain = marked.bench.path("plain");
    fs::create_dir(&plain).expect("a folder");
    let unborn = marked.bench.path("unborn");
    fs::create_dir(&unborn).expect("a folder");
    git(&unborn, &["init", "-q", "-b", "main"]);
    let at = |path: &Path| format!("[workspace]\nrepo = \"{}\"\n", path.display());
    let missing = marked.bench.path("nowhere");
    let cases = [
        (
            at(&missing),
            vec![
                "the repository",
                "nowhere does not exist",
                "[workspace] repo",
            ],
        ),
        (
            at(&plain),
            vec!["plain is not a git repository", "git init"],
        ),
        (
            at(&marked.root.join("README")),
            vec!["README", "git repository"],
        ),
        (
            at(&unborn),
            vec![
                "the branch `main` of",
                "unborn has no commit yet",
                "commit once",
            ],
        ),
        (
            format!("{}base = \"nowhere\"\n", at(&marked.root)),
            vec!["has no branch, tag or commit `nowhere`", "[workspace] base"],
        ),
    ];
    for (workspace, says) in cases {
        eprintln!("{workspace}");
        let file = marked.file("name = \"it\"", &workspace);
        let mut command = marked.bench.command(["run".as_ref(), file.as_os_str()]);
        marked.refuses(&mut command, 2, &says);
        assert!(
            marked.bench.lines(["runs", "--json"]).is_empty(),
            "a run began"
        );
    }
}

#[test]
fn a_program_that_is_not_there_is_told() {
    let marked = Marked::new();
    let file = marked.file("name = \"it\"", "");
    let text = fs::read_to_string(&file).expect("a file");
    fs::write(&file, text.replace("[\"sh\"", "[\"no-such-program\"")).expect("a file");
    let mut command = marked.bench.command(["run".as_ref(), file.as_os_str()]);
    marked.refuses(
        &mut command,
        1,
        &["`no-such-program` is not on the PATH", "install it"],
    );
}

/// What is there beside the commits: index, stash, changes, ignored files. The work starts from the
/// commit, and the result is a branch; all else stays byte for byte.
#[test]
fn a_dirty_checkout_is_allowed_and_untouched() {
    let marked = Marked::new();
    let root = &marked.root;
    write(root, &[("README", "stashed\n")]);
    git(root, &["stash", "-q"]);
    write(root, &[("README", "staged\n"), (".gitignore", "ignored\n")]);
    git(root, &["add", "README"]);
    write(
        root,
        &[
            ("README", "changed\n"),
            ("ignored", "x\n"),
            ("new/file", "x\n"),
        ],
    );
    let before = contents(root);
    let file = marked.file("name = \"it\"", "");
    let ended = marked
        .bench
        .ronde(["run".as_ref(), file.as_os_str(), "--json".as_ref()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let branch = ended.run_ended()["branch"]
        .as_str()
        .expect("a branch")
        .to_owned();

    assert_eq!(
        git(root, &["show", &format!("{branch}:README")]),
        "a project"
    );
    assert_eq!(git(root, &["diff", "--name-only", "main", &branch]), "out");
    let after = contents(root);
    let git_folder = root.join(".git");
    let grows = |path: &Path| {
        ["objects", "refs/heads/ronde", "logs/refs/heads/ronde"]
            .iter()
            .any(|folder| path.starts_with(git_folder.join(folder)))
    };
    let kept = |all: &std::collections::BTreeMap<std::path::PathBuf, Vec<u8>>| -> Vec<_> {
        let kept = all.iter().filter(|(path, _)| !grows(path));
        kept.map(|(path, bytes)| (path.clone(), bytes.clone()))
            .collect()
    };
    assert_eq!(kept(&after), kept(&before));
    for (path, bytes) in &before {
        assert_eq!(after.get(path), Some(bytes), "{}", path.display());
    }
    git(root, &["fsck", "--strict"]);
}

/// Whatever of the user's git configuration runs a program, no step of a run makes it run.
#[test]
fn programs_of_the_repository_do_not_run() {
    let marked = Marked::new();
    let root = &marked.root;
    let canary = marked.bench.path("canary");
    let trap = format!("#!/bin/sh\necho \"$0\" >> '{}'\ncat\n", canary.display());
    write(&marked.bench.path("traps"), &[("trap", &trap)]);
    let trap_file = marked.bench.path("traps/trap").display().to_string();
    write(
        root,
        &[(".gitattributes", "* filter=trap diff=trap merge=trap\n")],
    );
    git(root, &["add", "-A"]);
    git(root, &["commit", "-q", "-m", "attributes"]);
    for hook in [
        "post-checkout",
        "post-commit",
        "pre-commit",
        "post-index-change",
        "reference-transaction",
        "pre-receive",
        "update",
        "post-receive",
        "post-update",
        "pre-auto-gc",
        "post-merge",
        "prepare-commit-msg",
        "commit-msg",
        "post-rewrite",
        "fsmonitor-watchman",
    ] {
        write(&root.join(".git/hooks"), &[(hook, &trap)]);
    }
    for (key, value) in [
        ("core.fsmonitor", trap_file.as_str()),
        ("filter.trap.clean", trap_file.as_str()),
        ("filter.trap.smudge", trap_file.as_str()),
        ("filter.trap.process", trap_file.as_str()),
        ("filter.trap.required", "true"),
        ("diff.trap.command", trap_file.as_str()),
        ("diff.trap.textconv", trap_file.as_str()),
        ("diff.external", trap_file.as_str()),
        ("merge.trap.driver", trap_file.as_str()),
        ("core.pager", trap_file.as_str()),
        ("core.editor", trap_file.as_str()),
        ("core.sshCommand", trap_file.as_str()),
        ("core.askPass", trap_file.as_str()),
        ("credential.helper", trap_file.as_str()),
        ("uploadpack.packObjectsHook", trap_file.as_str()),
        ("gpg.program", trap_file.as_str()),
        ("commit.gpgSign", "true"),
        ("alias.commit-tree", "!false"),
    ] {
        let config = root.join(".git/config");
        git(
            root,
            &[
                "config",
                "--file",
                &config.display().to_string(),
                key,
                value,
            ],
        );
    }
    assert!(!canary.exists(), "the trap is not to be sprung by the test");
    let file = marked.file("name = \"it\"\nskip_if_green = true", "");
    let ended = marked
        .bench
        .ronde(["run".as_ref(), file.as_os_str(), "--json".as_ref()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let sprung = fs::read_to_string(&canary).unwrap_or_default();
    assert_eq!(sprung, "", "programs of the repository have run");
    // The traps are real: git itself falls into them.
    let mut git = ronde_tests::program("git");
    let _whatever = end_of(git.arg("-C").arg(root).args(["status"]));
    assert!(canary.exists(), "no trap was set");
}

/// A path is no word of a shell: blanks, quotes and letters of other scripts are only letters of it.
#[test]
fn strange_paths_are_paths() {
    let marked = Marked::new();
    let name = "Mein Projekt – «ö» 'x' $HOME";
    let root = marked
        .bench
        .project(name, &[("README", "x\n"), ("ein ü.txt", "x\n")]);
    let text = r#"
name = "it"
goal = "out is there"
[worker]
command = ["sh", "-c", "cp 'ein ü.txt' 'aus ü.txt'; cat \"$1\" > prompt", "sh", "{prompt_file}"]
[[check]]
run = "test -e 'aus ü.txt' && grep -q 'out is there' prompt"
"#;
    write(&root, &[(".ronde/loops/it.toml", text)]);
    let link = marked.bench.path("link");
    symlink(&root, &link).expect("a link");
    for start in [&root, &link] {
        let mut command = marked.bench.command(["run", "it", "--json"]);
        let ended = end_of(command.current_dir(start));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let branch = ended.run_ended()["branch"]
            .as_str()
            .expect("a branch")
            .to_owned();
        let changed = git(
            &root,
            &[
                "-c",
                "core.quotePath=false",
                "diff",
                "--name-only",
                "main",
                &branch,
            ],
        );
        assert_eq!(changed, "aus ü.txt\nprompt");
        let file = start.join(".ronde/loops/it.toml");
        let mut command =
            marked
                .bench
                .command(["run".as_ref(), file.as_os_str(), "--json".as_ref()]);
        assert_eq!(end_of(&mut command).code, Some(0));
    }
    // Through the link or not, it is one project.
    let mut roots: Vec<_> = marked
        .bench
        .lines(["runs", "--json"])
        .iter()
        .map(|run| run["root"].as_str().expect("a path").to_owned())
        .collect();
    roots.sort();
    roots.dedup();
    assert_eq!(roots, [root.display().to_string()]);
}
