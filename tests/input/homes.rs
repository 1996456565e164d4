//! Homes that cannot be used, that are full, or that hold what a dead process left.

use std::{fs, os::unix::net::UnixListener, path::Path};

use ronde_tests::{Bench, contents, end_of, git, program, write};

use super::Marked;
use crate::bench;

#[test]
fn a_home_that_cannot_be_is_told() {
    let marked = Marked::new();
    let file = marked.file("name = \"it\"", "");
    let blocked = marked.bench.path("blocked");
    fs::write(&blocked, "a file\n").expect("a file");
    for home in [blocked.clone(), blocked.join("below")] {
        for args in [
            vec!["run".as_ref(), file.as_os_str()],
            vec!["continue".as_ref(), "it-1".as_ref()],
        ] {
            let mut command = marked.bench.command(args);
            command.env("RONDE_HOME", &home);
            marked.refuses(
                &mut command,
                1,
                &["blocked", "Not a directory", "RONDE_HOME"],
            );
        }
        for verb in ["runs", "inbox", "status"] {
            let mut command = marked.bench.command([verb]);
            command.env("RONDE_HOME", &home);
            marked.refuses(&mut command, 1, &["blocked", "Not a directory"]);
        }
    }
    assert_eq!(fs::read_to_string(&blocked).expect("a file"), "a file\n");
}

/// Runs a script where mounts are its own; none where this machine lets nobody mount.
fn in_own_mounts(bench: &Bench, script: &str, args: &[&Path]) -> Option<String> {
    let namespace: &[&str] = if rustix::process::geteuid().is_root() {
        &["--mount"]
    } else {
        &["--mount", "--map-root-user"]
    };
    let mut able = program("unshare");
    able.args(namespace)
        .args(["sh", "-c", "mount -t tmpfs none /mnt"]);
    let able = end_of(&mut able);
    if able.code != Some(0) {
        eprintln!(
            "skipped: a file system cannot be mounted here: {}",
            able.stderr
        );
        return None;
    }
    let mut command = program("unshare");
    command.args(namespace).args(["sh", "-euc", script, "sh"]);
    command.arg(env!("CARGO_BIN_EXE_ronde")).args(args);
    command.current_dir(bench.path("."));
    command
        .env_clear()
        .env("NO_COLOR", "1")
        .env("RONDE_HOME", bench.home());
    for name in ["PATH", "HOME"] {
        command.env(name, std::env::var_os(name).unwrap_or_default());
    }
    let ended = end_of(&mut command);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    Some(ended.stdout)
}

#[test]
fn a_home_that_only_can_be_read_is_told() {
    let marked = Marked::new();
    let file = marked.file("name = \"it\"", "");
    fs::create_dir(marked.bench.home()).expect("a folder");
    let before = contents(&marked.root);
    let script = r#"
mount -t tmpfs -o ro none "$RONDE_HOME"
code=0; "$1" run "$2" 2>&1 || code=$?
echo "code $code"
code=0; "$1" doctor 2>&1 || code=$?
"#;
    let Some(said) = in_own_mounts(&marked.bench, script, &[&file]) else {
        return;
    };
    assert!(said.contains("code 1"), "{said}");
    assert!(
        said.contains("Read-only file system") && said.contains("RONDE_HOME"),
        "{said}"
    );
    assert!(
        said.lines().any(|line| line.starts_with("MISS home")),
        "{said}"
    );
    marked.assert_untouched(&before);
}

#[test]
fn a_disk_that_is_full_from_the_start_is_told_and_harms_nothing() {
    let marked = Marked::new();
    let file = marked.file("name = \"it\"", "");
    fs::create_dir(marked.bench.home()).expect("a folder");
    let script = r#"
mount -t tmpfs -o size=24m none "$RONDE_HOME"
"$1" run "$2" --json | tail -n 1
dd if=/dev/zero of="$RONDE_HOME/filler" bs=4k 2>/dev/null || true
rm "$3"
code=0; "$1" run "$2" --json 2>&1 || code=$?
echo "code $code"
test ! -e "$3"
rm "$RONDE_HOME/filler"
"$1" run "$2" --json | tail -n 1
"$1" runs --json
"#;
    let Some(said) = in_own_mounts(&marked.bench, script, &[&file, &marked.mark]) else {
        return;
    };
    let (before, after) = said.split_once("code 1\n").expect(&said);
    assert!(before.contains("No space left on device"), "{said}");
    let runs: Vec<_> = after
        .lines()
        .filter(|line| line.contains("\"rested_at\""))
        .collect();
    let done = after
        .lines()
        .filter(|line| line.contains("\"outcome\":\"done\""))
        .count();
    assert!(runs.len() >= 2, "{said}");
    assert!(done >= 3, "the last run and both rows: {said}");
    marked.bench.wait_until_nothing_is_left();
}

/// The worker fills the disk under ronde. What comes of it is told, and once there is room it goes on.
#[test]
fn a_disk_that_gets_full_is_told_and_harms_nothing() {
    let marked = Marked::new();
    let full = marked.bench.path("full");
    fs::write(&full, "").expect("a file");
    let text = format!(
        r#"
name = "it"
goal = "out is there"
[workspace]
repo = "{}"
[worker]
command = ["sh", "-c", "test ! -e '{}' || dd if=/dev/zero of=big bs=4k; echo x > out"]
[[check]]
run = "test -e out"
"#,
        marked.root.display(),
        full.display()
    );
    let file = marked.raw(&text);
    fs::create_dir(marked.bench.home()).expect("a folder");
    let script = r#"
mount -t tmpfs -o size=24m none "$RONDE_HOME"
code=0; "$1" run "$2" --json 2>&1 || code=$?
echo "code $code"
rm "$3"
find "$RONDE_HOME" -name big -delete
"$1" runs --json
echo "room"
run=$("$1" runs --json | sed 's/.*"run":"\([^"]*\)".*/\1/')
if "$1" runs --json | grep -q interrupted; then "$1" continue "$run" --json
else "$1" run "$2" --json; fi | tail -n 1
"#;
    let Some(said) = in_own_mounts(&marked.bench, script, &[&file, &full]) else {
        return;
    };
    eprintln!("{said}");
    let (before, after) = said.split_once("\nroom\n").expect(&said);
    assert!(
        before.contains("code 1") || before.contains("code 22"),
        "{said}"
    );
    // ronde says so itself, not the worker alone.
    let own = |line: &&str| line.starts_with("error:") || line.contains("\"run_ended\"");
    let mut own = before.lines().filter(own);
    assert!(own.any(|line| line.contains("No space left")), "{said}");
    assert!(after.contains("\"outcome\":\"done\""), "{said}");
    let branches = git(&marked.root, &["branch", "--list", "ronde/*"]);
    assert_eq!(branches.lines().count(), 1, "{branches}");
    marked.bench.wait_until_nothing_is_left();
}

/// A project whose loop works at once.
fn quick(bench: &Bench) -> std::path::PathBuf {
    let root = bench.project("project", &[("README", "x\n")]);
    let text = r#"
name = "it"
goal = "out is there"
[worker]
command = ["sh", "-c", "echo x > out"]
[[check]]
run = "test -e out"
"#;
    write(&root, &[(".ronde/loops/it.toml", text)]);
    root.join(".ronde/loops/it.toml")
}

/// A process that died left its socket, its token and a lock with a number that is somebody else's now.
#[test]
fn what_a_dead_process_left_is_no_obstacle() {
    let bench = bench();
    let file = quick(&bench);
    let home = bench.home();
    fs::create_dir_all(&home).expect("a folder");
    // A socket nobody listens at any more.
    drop(UnixListener::bind(home.join("sock")).expect("a socket"));
    fs::write(home.join("token"), "0123").expect("a file");
    fs::write(home.join("lock"), format!("{}\n", std::process::id())).expect("a file");
    for _ in 0..2 {
        let ended = bench.ronde(["run".as_ref(), file.as_os_str(), "--json".as_ref()]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(ended.stderr, "");
        // What is no socket is none either.
        let _gone = fs::remove_file(home.join("sock"));
        fs::write(home.join("sock"), "no socket\n").expect("a file");
    }
}

/// The index repeats the journal and nothing more: whatever is wrong with it, it is made again.
#[test]
fn an_index_of_rubbish_is_made_again() {
    let bench = bench();
    let file = quick(&bench);
    let run = || {
        let ended = bench.ronde(["run".as_ref(), file.as_os_str(), "--json".as_ref()]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    };
    run();
    let index = bench.home().join("index");
    assert!(index.is_dir());
    let rubbish: [(&str, &dyn Fn()); 3] = [
        ("files of rubbish", &|| {
            for (path, _) in contents(&index)
                .into_iter()
                .filter(|(path, _)| path.is_file())
            {
                fs::write(path, "rubbish\n").expect("a file");
            }
        }),
        ("a file instead of the folder", &|| {
            fs::remove_dir_all(&index).expect("it is there");
            fs::write(&index, "rubbish\n").expect("a file");
        }),
        ("nothing", &|| {
            let _gone = fs::remove_dir_all(&index);
        }),
    ];
    for (number, (name, spoil)) in rubbish.iter().enumerate() {
        eprintln!("{name}");
        spoil();
        run();
        assert!(index.is_dir());
        let runs = bench.lines(["runs", "--json"]);
        assert_eq!(runs.len(), number + 2);
        assert!(runs.iter().all(|run| run["outcome"] == "done"));
    }
}
