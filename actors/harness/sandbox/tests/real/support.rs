//! What the process tests share: commands through `sh`, and waiting for processes to be gone by
//! event. Not a test itself.

use std::{fs, path::Path, time::Duration};

use ronde_sandbox::{Command, Finished, gate, test_spawner};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};

/// A shell script in a folder, with a usual PATH.
pub(crate) fn sh(cwd: &Path, script: &str) -> Command {
    let mut command = Command::new(["/bin/sh", "-c", script], cwd);
    command.env = vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())];
    command.grace = Duration::from_secs(60);
    command
}

/// Runs a command to its end.
pub(crate) async fn run(command: Command) -> Finished {
    test_spawner()
        .output(gate::engine(gate::Purpose::Check), command)
        .await
        .expect("a keeper")
}

/// Starts a command.
pub(crate) async fn start(command: Command) -> ronde_sandbox::Running {
    test_spawner()
        .start(gate::engine(gate::Purpose::Check), command)
        .await
        .expect("a keeper")
}

/// Opens a named pipe for reading and gives its first line; the writer's opening is the event.
pub(crate) async fn line_from(fifo: &Path) -> String {
    let fifo = fifo.to_owned();
    tokio::task::spawn_blocking(move || {
        use std::io::BufRead;
        let mut line = String::new();
        let file = fs::File::open(fifo).expect("the pipe");
        std::io::BufReader::new(file)
            .read_line(&mut line)
            .expect("a line");
        line.trim().to_owned()
    })
    .await
    .expect("read")
}

/// Makes a named pipe.
pub(crate) fn fifo(path: &Path) {
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path,
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .expect("a pipe");
}

/// Waits until a process is gone. The limit only turns a hang into a failure.
pub(crate) fn wait_gone(pid: &str) {
    let number: i32 = pid.parse().expect("a number");
    let Ok(handle) = pidfd_open(Pid::from_raw(number).expect("not 0"), PidfdFlags::empty()) else {
        return;
    };
    let mut polled = [PollFd::new(&handle, PollFlags::IN)];
    let limit = Timespec {
        tv_sec: 60,
        tv_nsec: 0,
    };
    assert_eq!(
        poll(&mut polled, Some(&limit)).expect("polled"),
        1,
        "{pid} lives on"
    );
}

/// Whether a process is there and no zombie.
pub(crate) fn lives(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .trim()
            .starts_with('Z')
    })
}
