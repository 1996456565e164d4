//! What a confined program can and cannot do, by real programs that try.

use std::{net::TcpListener, path::Path};

use crate::support::{run, sh};
use ronde_protocol::{access::Level, outcome::Exit};
use ronde_sandbox::{Command, Policy, doctor};

/// A home that is hidden with a workspace in it, something beside it, and a folder elsewhere.
struct Place {
    root: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a folder");
        for folder in ["home/work", "beside", "tmp"] {
            std::fs::create_dir_all(root.path().join(folder)).expect("made");
        }
        for file in ["home/secret", "home/work/open", "beside/open"] {
            std::fs::write(root.path().join(file), "content\n").expect("written");
        }
        std::os::unix::fs::symlink("../../home/secret", root.path().join("home/work/link"))
            .expect("linked");
        std::os::unix::fs::symlink("../home", root.path().join("beside/way")).expect("linked");
        Self { root }
    }

    fn path(&self) -> &Path {
        self.root.path()
    }

    fn policy(&self, level: Level) -> Policy {
        let tmp = self.path().join("tmp");
        let writable = match level {
            Level::ReadOnly => vec![tmp],
            _ => vec![tmp, self.path().join("home/work")],
        };
        Policy {
            level,
            writable,
            hidden: vec![self.path().join("home"), self.path().join("not/there")],
            ..Policy::unconfined()
        }
    }

    /// Whether a script succeeds, run in the workspace.
    async fn can(&self, policy: &Policy, script: &str) -> bool {
        let mut command = sh(&self.path().join("home/work"), script);
        command.policy = policy.clone();
        let ended = run(command).await;
        assert!(
            matches!(ended.exit, Exit::Code { .. }),
            "{script}: {:?}",
            ended.exit
        );
        ended.exit.success()
    }
}

#[tokio::test]
async fn files_are_held() {
    let place = Place::new();
    let (write, read) = (
        place.policy(Level::WorkspaceWrite),
        place.policy(Level::ReadOnly),
    );
    // script, in workspace-write, in read-only
    let table = [
        ("cat open", true, true),
        ("ls .", true, true),
        ("cat ../../beside/open", true, true),
        ("ls ../../beside", true, true),
        ("ls /usr/bin /etc", true, true),
        ("cat /proc/self/status", true, true),
        (
            "echo x > /dev/null && head -c 1 /dev/urandom && head -c 1 /dev/zero",
            true,
            true,
        ),
        ("echo x > ../../tmp/new", true, true),
        (
            "echo x > new && mkdir a && mv new a/new && ln a/new hard && rm -r a hard",
            true,
            false,
        ),
        ("echo x >> open", true, false),
        ("truncate -s 0 open", true, false),
        ("rm -f open && echo content > open", true, false),
        ("cat ../secret", false, false),
        ("cat link", false, false),
        ("cat ../../beside/way/secret", false, false),
        ("ls ..", false, false),
        ("echo x > ../secret", false, false),
        ("echo x > ../new", false, false),
        ("rm ../secret", false, false),
        ("truncate -s 0 ../secret", false, false),
        ("truncate -s 0 ../../beside/open", false, false),
        ("echo x > ../../beside/new", false, false),
        ("mv open ../../beside/open", false, false),
        ("ln ../secret stolen", false, false),
        ("mv ../secret stolen", false, false),
        ("cp /bin/true ../../beside/x", false, false),
        ("chroot / /bin/true && mount -t tmpfs x /mnt", false, false),
        ("mknod disk b 8 0", false, false),
        ("unshare -U true", false, false),
        (
            "echo x > /dev/shm/ronde-test && rm /dev/shm/ronde-test",
            false,
            false,
        ),
    ];
    for (script, writes, reads) in table {
        assert_eq!(
            place.can(&write, script).await,
            writes,
            "workspace-write: {script}"
        );
        assert_eq!(place.can(&read, script).await, reads, "read-only: {script}");
    }
    // Without isolation all of it works, so the refusals above are the sandbox's.
    let full = Policy::unconfined();
    for (script, ..) in table.iter().filter(|(script, ..)| {
        !["mount", "mknod", "unshare", "rm ../secret", "mv ../secret"]
            .iter()
            .any(|t| script.contains(t))
    }) {
        assert!(place.can(&full, script).await, "full: {script}");
    }
}

#[tokio::test]
async fn a_confined_program_reaches_no_other_process() {
    let place = Place::new();
    let own = std::process::id();
    let scripts = [
        // Its keeper, ronde (here: this test), and what they hold in memory.
        "kill -9 $PPID".to_owned(),
        "kill -0 $PPID".to_owned(),
        format!("kill -0 {own}"),
        format!("cat /proc/{own}/environ"),
        "cat /proc/$PPID/environ".to_owned(),
        format!("head -c 1 /proc/{own}/mem"),
        format!("ls /proc/{own}/root/"),
        format!("ls /proc/{own}/cwd/"),
        // Without files its keeper would see no child any more.
        "prlimit --pid $PPID --nofile=512:512".to_owned(),
        format!("prlimit --pid {own} --core=0:0"),
        // The terminals of people.
        "ls /dev/pts/".to_owned(),
        "head -c 1 < /dev/ptmx > /dev/pts/0".to_owned(),
    ];
    for script in &scripts {
        for level in [Level::WorkspaceWrite, Level::ReadOnly] {
            assert!(
                !place.can(&place.policy(level), script).await,
                "{level:?}: {script}"
            );
        }
    }
    let own_child = "sleep 1000 & kill $! && ! wait $!";
    assert!(
        place
            .can(&place.policy(Level::WorkspaceWrite), own_child)
            .await
    );
    // Its own limits are its own.
    let own_limit = "ulimit -n 100 && test \"$(ulimit -n)\" = 100 && prlimit --pid $PPID --nofile";
    assert!(
        place
            .can(&place.policy(Level::WorkspaceWrite), own_limit)
            .await
    );
    assert!(place.can(&Policy::unconfined(), &scripts[2]).await);
    assert!(place.can(&Policy::unconfined(), &scripts[8]).await);
    assert!(place.can(&Policy::unconfined(), &scripts[10]).await);
}

/// Landlock does not hold extended attributes: they would be a letter box anywhere.
#[tokio::test]
async fn a_confined_program_writes_no_attributes() {
    let place = Place::new();
    let set = "python3 -c 'import os; open(\"n\", \"w\"); os.setxattr(\"n\", \"user.x\", b\"1\")'";
    assert!(!place.can(&place.policy(Level::WorkspaceWrite), set).await);
}

#[tokio::test]
async fn a_network_that_is_off_is_off() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = listener.local_addr().expect("an address").port();
    let connect = format!("import socket; socket.create_connection(('127.0.0.1', {port}))");
    let listen = "import socket; socket.socket().bind(('127.0.0.1', 0))";
    let datagram = "import socket; socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)";
    let netlink = "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)";
    let unix = "import socket; a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'";
    // x86-64 can also be spoken to in the numbers of x32; it must be deadly, not a way around.
    let table = [
        (connect.as_str(), false),
        (listen, false),
        (datagram, false),
        (netlink, false),
        (unix, true),
    ];
    for level in [Level::Full, Level::WorkspaceWrite, Level::ReadOnly] {
        for (script, allowed) in table {
            for network in [true, false] {
                let mut policy = place.policy(level);
                policy.network = network;
                let mut command = Command::new(
                    ["/usr/bin/env", "python3", "-c", script],
                    place.path().join("beside"),
                );
                command.env = vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())];
                command.policy = policy;
                let ended = run(command).await;
                assert_eq!(
                    ended.exit.success(),
                    allowed || network,
                    "{level:?} network={network} {script}: {:?} {}",
                    ended.exit,
                    ended.stderr.text()
                );
            }
        }
    }
}

/// What shares memory, semaphores or messages beside the file system: the first program leaves
/// something, the second takes it and cleans up.
const SHARED: [(&str, &str, &str); 5] = [
    (
        "a file in /dev/shm",
        "open(f'/dev/shm/ronde-{key}', 'w').write('x')",
        "import os; open(f'/dev/shm/ronde-{key}').close(); os.remove(f'/dev/shm/ronde-{key}')",
    ),
    (
        "System V memory",
        "got(libc.shmget(key, 4096, 0o1600))",
        "got(libc.shmctl(got(libc.shmget(key, 4096, 0)), 0, None))",
    ),
    (
        "System V semaphores",
        "got(libc.semctl(got(libc.semget(key, 1, 0o1600)), 0, 16, 7))",
        "id = got(libc.semget(key, 1, 0)); assert libc.semctl(id, 0, 12) == 7; libc.semctl(id, 0, 0)",
    ),
    (
        "a System V queue",
        "got(libc.msgsnd(got(libc.msgget(key, 0o1600)), b'1234567x', 0, 0))",
        "id = got(libc.msgget(key, 0)); got(libc.msgrcv(id, b' ' * 16, 8, 0, 0)); \
         libc.msgctl(id, 0, None)",
    ),
    (
        "a POSIX queue",
        "got(libc.mq_open(b'/ronde-%d' % key, 0o102, 0o600, None))",
        "got(libc.mq_unlink(b'/ronde-%d' % key))",
    ),
];

#[tokio::test]
async fn one_confined_program_leaves_nothing_in_memory_for_the_next() {
    let place = Place::new();
    let key = std::process::id();
    let does = async |policy: &Policy, script: &str| {
        let script = format!(
            "import ctypes; libc = ctypes.CDLL('librt.so.1'); key = {key}\n\
             def got(answer):\n    assert answer >= 0, answer\n    return answer\n{script}"
        );
        let mut command = Command::new(["/usr/bin/env", "python3", "-c", &script], place.path());
        command.env = vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())];
        command.policy = policy.clone();
        let ended = run(command).await;
        (ended.exit.success(), ended.stderr.text().clone())
    };
    let confined = place.policy(Level::WorkspaceWrite);
    for (what, leave, take) in SHARED {
        // Without isolation it works, so the refusals below are the sandbox's.
        for script in [leave, take] {
            let (done, said) = does(&Policy::unconfined(), script).await;
            assert!(done, "full: {what}: {said}");
        }
        for script in [leave, take] {
            let (done, _) = does(&confined, script).await;
            assert!(!done, "confined: {what}: {script}");
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn a_call_by_its_other_number_is_deadly() {
    let place = Place::new();
    let script = "import ctypes; ctypes.CDLL(None).syscall(0x40000000 + 41, 2, 1, 0)";
    let mut command = Command::new(["/usr/bin/env", "python3", "-c", script], place.path());
    command.env = vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())];
    command.policy.network = false;
    assert_eq!(run(command).await.exit, Exit::Signal { signal: 31 });
}

#[tokio::test]
async fn what_contradicts_itself_or_is_missing_does_not_start() {
    let place = Place::new();
    let mut both = place.policy(Level::WorkspaceWrite);
    both.writable.push(place.path().join("home"));
    let mut missing = place.policy(Level::WorkspaceWrite);
    missing.writable.push(place.path().join("nowhere"));
    for (policy, want) in [
        (both, "both writable and hidden"),
        (missing, "nowhere writable: No such"),
    ] {
        let mut command = sh(place.path(), "true");
        command.policy = policy;
        match run(command).await.exit {
            Exit::NotStarted { error } => assert!(error.contains(want), "{error}"),
            other => panic!("{want}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_hidden_folder_inside_a_writable_one_stays_hidden() {
    let place = Place::new();
    let work = place.path().join("home/work");
    std::fs::create_dir_all(work.join("private/deep")).expect("made");
    std::fs::create_dir_all(work.join("src")).expect("made");
    std::fs::write(work.join("private/deep/key"), "k").expect("written");
    let mut policy = place.policy(Level::WorkspaceWrite);
    policy.hidden.push(work.join("private"));
    assert!(
        place
            .can(&policy, "echo x > src/new && echo x >> open")
            .await
    );
    assert!(!place.can(&policy, "cat private/deep/key").await);
    assert!(!place.can(&policy, "echo x > private/deep/key").await);
    assert!(!place.can(&policy, "mv private elsewhere").await);
}

#[tokio::test]
async fn a_tree_that_is_confined_is_killed_like_any_other() {
    let place = Place::new();
    let mut command = sh(
        place.path(),
        "(setsid sleep 1000 &) ; trap '' TERM; sleep 1000",
    );
    command.policy = place.policy(Level::ReadOnly);
    command.time = Some(std::time::Duration::from_millis(200));
    command.grace = std::time::Duration::from_millis(100);
    assert_eq!(run(command).await.exit, Exit::TimedOut);
}

#[test]
fn this_machine_holds_what_these_tests_ask_for() {
    let place = Place::new();
    assert_eq!(doctor::can_hold(&place.policy(Level::ReadOnly)), Ok(()));
}
