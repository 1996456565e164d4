//! Real programs behind real keepers: how they end, and that nothing of them is left.

use std::{os::unix::ffi::OsStringExt, path::Path, time::Duration};

use crate::support::{fifo, line_from, lives, run, sh, start, wait_gone};
use ronde_protocol::outcome::Exit;
use ronde_sandbox::{Command, Spawner, Stdin, gate, test_spawner};

fn code(code: i32) -> Exit {
    Exit::Code { code }
}

/// A tree with a plain child, one in its own session, and one that has left its parents behind.
const TREE: &str = "
    sleep 1000 &
    plain=$!
    setsid sleep 1000 &
    session=$!
    (setsid sh -c 'trap \"\" TERM; echo $$ > daemon; exec sleep 1000' &) &
    wait $!
    until [ -s daemon ]; do sleep 0.01; done
    echo $$ $plain $session $(cat daemon) > pids
";

#[tokio::test]
async fn output_exit_codes_and_signals_come_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let ended = run(sh(dir.path(), "echo out; echo err >&2; exit 3")).await;
    assert_eq!(ended.exit, code(3));
    assert_eq!(
        (ended.stdout.text(), ended.stderr.text()),
        ("out\n".into(), "err\n".into())
    );

    let mut merged = sh(dir.path(), "echo out; echo err >&2");
    merged.capture.merge = true;
    let ended = run(merged).await;
    assert_eq!(
        (ended.stdout.text(), ended.stderr.total),
        ("out\nerr\n".into(), 0)
    );

    let ended = run(sh(dir.path(), "kill -9 $$")).await;
    assert_eq!(ended.exit, Exit::Signal { signal: 9 });
    // What ronde has blocked or ignored does not reach the program.
    let ended = run(sh(dir.path(), "kill -PIPE $$")).await;
    assert_eq!(ended.exit, Exit::Signal { signal: 13 });
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("plain"), "x").expect("written");
    let mut no_folder = Command::new(["/bin/true"], "/no/such/folder");
    no_folder.stdin = Stdin::Null;
    let mut no_input = Command::new(["/bin/true"], dir.path());
    no_input.stdin = Stdin::File("/no/such/input".into());
    let table = [
        (
            Command::new(["no-such-program"], dir.path()),
            "no-such-program: no such program in PATH",
        ),
        (
            Command::new(["/no/such/program"], dir.path()),
            "/no/such/program: no such program",
        ),
        (
            Command::new(["./plain"], dir.path()),
            "cannot run ./plain: Permission denied",
        ),
        (Command::new(["a\0b"], dir.path()), "has a NUL in it"),
        (Command::new([""], dir.path()), "no program is named"),
        (
            Command::new(Vec::<String>::new(), dir.path()),
            "no program is named",
        ),
        (no_folder, "cannot enter /no/such/folder: No such file"),
        (no_input, "cannot read /no/such/input: No such file"),
    ];
    for (command, want) in table {
        match run(command).await.exit {
            Exit::NotStarted { error } => assert!(error.contains(want), "{error}"),
            other => panic!("{want}: {other:?}"),
        }
    }
    let missing = Spawner::new("/no/such/keeper".into());
    let permit = gate::engine(gate::Purpose::Probe);
    let error = missing
        .start(permit, sh(dir.path(), "true"))
        .await
        .expect_err("no keeper");
    assert!(
        error
            .to_string()
            .starts_with("cannot start the keeper /no/such/keeper: "),
        "{error}"
    );
}

#[tokio::test]
async fn a_keeper_that_is_none_gives_an_unknown_end() {
    let dir = tempfile::tempdir().expect("a folder");
    let silent = Spawner::new("/bin/true".into());
    let permit = gate::engine(gate::Purpose::Probe);
    match silent.output(permit, sh(dir.path(), "true")).await {
        Ok(ended) => {
            assert!(
                matches!(ended.exit, Exit::Unknown { .. }),
                "{:?}",
                ended.exit
            );
        }
        // It was gone before it was told.
        Err(error) => assert!(error.to_string().contains("hand the command"), "{error}"),
    }
}

#[tokio::test]
async fn scripts_are_found_and_run_as_a_shell_would() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a folder");
    let bin = dir.path().join("bin");
    std::fs::create_dir(&bin).expect("made");
    for (name, text) in [
        ("bare", "echo bare $1"),
        ("shebang", "#!/bin/sh\necho shebang $1\n"),
    ] {
        std::fs::write(bin.join(name), text).expect("written");
        std::fs::set_permissions(bin.join(name), PermissionsExt::from_mode(0o755)).expect("set");
    }
    let path = format!("/nonexistent::{}", bin.display());
    for (program, path, want) in [
        ("bare", path.as_str(), "bare 1\n"),
        ("shebang", &path, "shebang 1\n"),
        ("bin/bare", "", "bare 1\n"),
        ("bare", "bin", "bare 1\n"),
    ] {
        let mut command = Command::new([program, "1"], dir.path());
        command.env = vec![("PATH".into(), path.into())];
        assert_eq!(
            run(command).await.stdout.text(),
            want,
            "{program} in {path}"
        );
    }
}

#[tokio::test]
async fn the_environment_is_only_what_was_given() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(["/usr/bin/env"], dir.path());
    let odd = std::ffi::OsString::from_vec(b"\xff\n=".to_vec());
    command.env = vec![("A".into(), "1".into()), ("B".into(), odd)];
    assert_eq!(run(command).await.stdout.head, b"A=1\nB=\xff\n=\n");
}

#[tokio::test]
async fn nothing_but_the_streams_is_inherited() {
    let dir = tempfile::tempdir().expect("a folder");
    // One that would be inherited if nobody closed it.
    let leak = std::fs::File::open("/dev/null").expect("opened");
    rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).expect("set");
    let ended = run(Command::new(["/bin/ls", "/proc/self/fd"], dir.path())).await;
    // The last is the folder that `ls` itself has open.
    assert_eq!(ended.stdout.text(), "0\n1\n2\n3\n");
}

#[tokio::test]
async fn input_is_read_whole_in_part_or_not_at_all() {
    let dir = tempfile::tempdir().expect("a folder");
    let large: Vec<u8> = (0..8_000_000_u32).map(|i| i.to_le_bytes()[0]).collect();
    let with = |argv: &[&str], stdin: Stdin| {
        let mut command = Command::new(argv.to_vec(), dir.path());
        command.env = vec![("PATH".into(), "/usr/bin:/bin".into())];
        command.stdin = stdin;
        command
    };
    let ended = run(with(&["wc", "-c"], Stdin::Bytes(large.clone()))).await;
    assert_eq!(ended.stdout.text().trim(), "8000000");
    let ended = run(with(&["head", "-c", "3"], Stdin::Bytes(large.clone()))).await;
    assert_eq!((ended.exit, ended.stdout.head), (code(0), vec![0, 1, 2]));
    let ended = run(with(&["true"], Stdin::Bytes(large))).await;
    assert_eq!(ended.exit, code(0));
    let ended = run(with(&["cat"], Stdin::Null)).await;
    assert_eq!((ended.exit, ended.stdout.total), (code(0), 0));
    let file = dir.path().join("input");
    std::fs::write(&file, "from a file").expect("written");
    let ended = run(with(&["cat"], Stdin::File(file))).await;
    assert_eq!(ended.stdout.text(), "from a file");
}

#[tokio::test]
async fn much_output_is_read_in_bounded_memory() {
    let dir = tempfile::tempdir().expect("a folder");
    let whole = dir.path().join("whole");
    let mut command = sh(
        dir.path(),
        "printf 'first\\n'; head -c 200000000 /dev/zero; printf '\\377last\\n'; echo err >&2",
    );
    command.capture.whole = Some(whole.clone());
    command.capture.whole_limit = 1_000_000;
    command.capture.head = 6;
    command.capture.tail = 100;
    let mut running = start(command).await;
    // A reader that never reads must not hold anything up.
    let live = running.take_output().expect("taken once");
    assert!(running.take_output().is_none());
    let ended = running.wait().await;
    assert_eq!(ended.exit, code(0));
    assert_eq!(ended.stdout.total, 200_000_012);
    assert_eq!(ended.stdout.head, b"first\n");
    assert_eq!(ended.stdout.tail.len(), 100);
    assert!(ended.stdout.tail.ends_with(b"\0\xfflast\n"));
    assert!(ended.stdout.text().ends_with("\0\u{fffd}last\n"));
    assert_eq!(std::fs::metadata(&whole).expect("written").len(), 1_000_000);
    let kept = ended.whole.expect("asked for");
    assert_eq!((kept.written, kept.error), (1_000_000, None));
    assert_eq!(ended.stderr.text(), "err\n");
    drop(live);
}

#[tokio::test]
async fn live_output_comes_while_the_program_runs() {
    let dir = tempfile::tempdir().expect("a folder");
    let gate_file = dir.path().join("go");
    fifo(&gate_file);
    let mut running = start(sh(dir.path(), "echo one; cat go; echo two")).await;
    let mut live = running.take_output().expect("live");
    assert_eq!(live.recv().await.expect("a chunk"), b"one\n");
    // Only now can the program go on.
    tokio::fs::write(&gate_file, "").await.expect("opened");
    assert_eq!(live.recv().await.expect("a chunk"), b"two\n");
    assert_eq!(live.recv().await, None);
    assert_eq!(running.wait().await.exit, code(0));
}

#[tokio::test]
async fn a_stream_ends_when_the_program_closes_it() {
    let dir = tempfile::tempdir().expect("a folder");
    fifo(&dir.path().join("go"));
    let mut running = start(sh(dir.path(), "echo one; exec >&- 2>&-; read x < go")).await;
    let mut live = running.take_output().expect("live");
    assert_eq!(live.recv().await.expect("a chunk"), b"one\n");
    assert_eq!(live.recv().await, None);
    // It is still there, and goes on only now.
    tokio::fs::write(dir.path().join("go"), "")
        .await
        .expect("opened");
    running.wait().await;
}

#[tokio::test]
async fn a_stranger_who_holds_the_output_does_not_hold_up_the_end() {
    let dir = tempfile::tempdir().expect("a folder");
    fifo(&dir.path().join("kept"));
    fifo(&dir.path().join("go"));
    let script = "echo said; exec 3>&1; echo /proc/$$/fd/3 > kept; read x < go; exit 2";
    let running = start(sh(dir.path(), script)).await;
    let path = line_from(&dir.path().join("kept")).await;
    let held = std::fs::OpenOptions::new()
        .write(true)
        .open(path)
        .expect("the pipe");
    tokio::fs::write(dir.path().join("go"), "")
        .await
        .expect("opened");
    let ended = running.wait().await;
    assert_eq!(
        (ended.exit, ended.stdout.text()),
        (code(2), "said\n".into())
    );
    drop(held);
}

#[tokio::test]
async fn a_full_disk_is_told_and_stops_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut command = sh(dir.path(), "echo hello");
    command.capture.whole = Some("/dev/full".into());
    let ended = run(command).await;
    assert_eq!(
        (ended.exit, ended.stdout.text()),
        (code(0), "hello\n".into())
    );
    assert!(
        ended
            .whole
            .expect("asked for")
            .error
            .expect("full")
            .contains("No space left")
    );
    let mut command = sh(dir.path(), "echo hello");
    command.capture.whole = Some("/no/such/folder/file".into());
    let permit = gate::engine(gate::Purpose::Check);
    let error = test_spawner()
        .start(permit, command)
        .await
        .expect_err("no folder");
    assert!(
        error.to_string().contains("/no/such/folder/file"),
        "{error}"
    );
}

async fn tree(dir: &Path, last: &str) -> (ronde_sandbox::Running, Vec<String>) {
    fifo(&dir.join("pids"));
    let running = start(sh(dir, &format!("{TREE}\n{last}"))).await;
    let pids: Vec<String> = line_from(&dir.join("pids"))
        .await
        .split(' ')
        .map(str::to_owned)
        .collect();
    assert_eq!(pids.len(), 4);
    (running, pids)
}

#[tokio::test]
async fn a_stop_ends_the_whole_tree() {
    let dir = tempfile::tempdir().expect("a folder");
    let (running, pids) = tree(dir.path(), "wait; sleep 1000").await;
    assert!(pids.iter().all(|pid| lives(pid)));
    let stopper = running.stopper();
    stopper.stop();
    stopper.clone().stop();
    assert_eq!(running.wait().await.exit, Exit::Stopped);
    // Not only soon: when the end is told, they are gone.
    assert_eq!(pids.iter().filter(|pid| lives(pid)).count(), 0);
    stopper.stop();
}

#[tokio::test]
async fn a_program_that_ends_leaves_no_daemon() {
    let dir = tempfile::tempdir().expect("a folder");
    let (running, pids) = tree(dir.path(), "exit 7").await;
    assert_eq!(running.wait().await.exit, code(7));
    assert_eq!(pids.iter().filter(|pid| lives(pid)).count(), 0);
}

#[tokio::test]
async fn dropping_it_ends_the_tree() {
    let dir = tempfile::tempdir().expect("a folder");
    let (running, pids) = tree(dir.path(), "wait; sleep 1000").await;
    drop(running);
    tokio::task::spawn_blocking(move || pids.iter().for_each(|pid| wait_gone(pid)))
        .await
        .expect("gone");
}

#[tokio::test]
async fn sigterm_ignored_ends_in_sigkill() {
    let dir = tempfile::tempdir().expect("a folder");
    fifo(&dir.path().join("ready"));
    let script = "trap 'echo asked' TERM; echo $$ > ready; while :; do sleep 1000 & wait; done";
    let mut command = sh(dir.path(), script);
    command.grace = Duration::from_millis(300);
    let running = start(command).await;
    let pid = line_from(&dir.path().join("ready")).await;
    running.stopper().stop();
    let ended = running.wait().await;
    assert_eq!(
        (ended.exit, ended.stdout.text()),
        (Exit::Stopped, "asked\n".into())
    );
    assert!(!lives(&pid));
}

#[tokio::test]
async fn a_second_word_ends_it_at_once() {
    let dir = tempfile::tempdir().expect("a folder");
    fifo(&dir.path().join("ready"));
    let script = "trap 'echo asked' TERM; echo $$ > ready; while :; do sleep 1000 & wait; done";
    let mut command = sh(dir.path(), script);
    command.grace = Duration::from_secs(100_000);
    let mut running = start(command).await;
    line_from(&dir.path().join("ready")).await;
    let mut live = running.take_output().expect("live");
    running.stopper().stop();
    assert_eq!(live.recv().await.expect("a chunk"), b"asked\n");
    running.stopper().kill();
    assert_eq!(running.wait().await.exit, Exit::Stopped);
}

#[tokio::test]
async fn a_halted_program_is_asked_too() {
    let dir = tempfile::tempdir().expect("a folder");
    fifo(&dir.path().join("ready"));
    let script = "trap 'echo asked; exit' TERM; echo $$ > ready; kill -STOP $$; sleep 1000";
    let running = start(sh(dir.path(), script)).await;
    line_from(&dir.path().join("ready")).await;
    running.stopper().stop();
    let ended = running.wait().await;
    assert_eq!(
        (ended.exit, ended.stdout.text()),
        (Exit::Stopped, "asked\n".into())
    );
}

#[tokio::test]
async fn the_time_limit_is_held() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut command = sh(dir.path(), "echo begun; sleep 1000");
    command.time = Some(Duration::from_millis(300));
    let ended = run(command).await;
    assert_eq!(
        (ended.exit, ended.stdout.text()),
        (Exit::TimedOut, "begun\n".into())
    );
    let mut command = sh(dir.path(), "exit 4");
    command.time = Some(Duration::MAX);
    assert_eq!(run(command).await.exit, code(4));
}

#[tokio::test]
async fn what_forks_without_end_is_caught() {
    let dir = tempfile::tempdir().expect("a folder");
    fifo(&dir.path().join("ready"));
    // Each process is gone as soon as it has a successor in a session of its own.
    std::fs::write(dir.path().join("hop"), "setsid sh ./hop & exit").expect("written");
    let running = start(sh(
        dir.path(),
        "sh ./hop; sh ./hop; echo $$ > ready; sleep 1000",
    ))
    .await;
    line_from(&dir.path().join("ready")).await;
    running.stopper().kill();
    assert_eq!(running.wait().await.exit, Exit::Stopped);
}

/// The other half of the test below: not a test by itself.
#[tokio::test]
async fn helper_that_is_killed() {
    let Some(dir) = std::env::var_os("RONDE_TEST_TREE_IN") else {
        return;
    };
    let (running, pids) = tree(Path::new(&dir), "wait; sleep 1000").await;
    tokio::fs::write(Path::new(&dir).join("told"), pids.join(" "))
        .await
        .expect("told");
    running.wait().await;
}

#[tokio::test]
async fn when_ronde_is_killed_the_tree_is_gone() {
    let dir = tempfile::tempdir().expect("a folder");
    fifo(&dir.path().join("told"));
    #[expect(
        clippy::disallowed_methods,
        reason = "it stands for ronde, which nobody keeps"
    )]
    let mut ronde = tokio::process::Command::new(std::env::current_exe().expect("this test"));
    let mut ronde = ronde
        .args(["--exact", "process::helper_that_is_killed", "--nocapture"])
        .env("RONDE_TEST_TREE_IN", dir.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("started");
    let pids = line_from(&dir.path().join("told")).await;
    assert!(pids.split(' ').all(lives), "{pids}");
    ronde.kill().await.expect("killed");
    tokio::task::spawn_blocking(move || pids.split(' ').for_each(wait_gone))
        .await
        .expect("gone");
}

#[tokio::test]
async fn when_the_keeper_is_killed_the_end_is_unknown_and_the_program_dies() {
    let dir = tempfile::tempdir().expect("a folder");
    fifo(&dir.path().join("ready"));
    let running = start(sh(dir.path(), "echo $$ $PPID > ready; exec sleep 1000")).await;
    let line = line_from(&dir.path().join("ready")).await;
    let (pid, keeper) = line.split_once(' ').expect("two numbers");
    let keeper = rustix::process::Pid::from_raw(keeper.parse().expect("a number")).expect("not 0");
    rustix::process::kill_process(keeper, rustix::process::Signal::KILL).expect("killed");
    let exit = running.wait().await.exit;
    assert!(
        matches!(&exit, Exit::Unknown { error } if error.contains("keeper vanished")),
        "{exit:?}"
    );
    let pid = pid.to_owned();
    tokio::task::spawn_blocking(move || wait_gone(&pid))
        .await
        .expect("gone");
}

#[tokio::test]
async fn limits_are_set() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut command = sh(dir.path(), "ulimit -c; ulimit -n; ulimit -f; ulimit -d");
    command.policy.limits.open_files = Some(64);
    command.policy.limits.file_size = Some(512 * 1024);
    command.policy.limits.memory = Some(64 * 1024 * 1024);
    assert_eq!(run(command).await.stdout.text(), "0\n64\n1024\n65536\n");
}
