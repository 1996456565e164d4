//! The keeper: the one process between ronde and each program. It confines the program, holds its
//! time limit, and leaves nothing behind: as a child subreaper it inherits whatever the program's
//! tree abandons, so the tree is gone exactly when the keeper has no child left.
//!
//! It is the same executable as ronde, run with [`ARG`]; plain system calls, one thread, no runtime.
//! It reads nothing but the socket ronde gave it, and decides nothing but when to kill.

mod child;
mod tree;

use std::{
    fs::File,
    io::{self, Read, Seek, Write},
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use ronde_protocol::outcome::Exit;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{MemfdFlags, OFlags},
    io::Errno,
    process::{Pid, Signal, WaitOptions, WaitStatus},
};

use crate::spec::{KILL, ORPHAN_GRACE, Report, STOP, Spec};
use child::Forked;

/// The first argument that makes an executable a keeper.
pub const ARG: &str = "__keeper";

/// How long a tree may resist SIGKILL (a process stuck in the kernel does) before its end is reported
/// all the same. The keeper goes on killing after that.
const GIVE_UP: Duration = Duration::from_secs(10);
/// The largest spec the keeper reads.
const SPEC_LIMIT: u64 = 256 * 1024 * 1024;

/// Runs a keeper to its end. Call it first thing in `main`, before any thread exists, when the first
/// argument is [`ARG`].
pub fn main() -> ! {
    let code = match run() {
        Ok(()) => 0,
        // ronde sees the socket close without a report, and says so.
        Err(_) => 1,
    };
    std::process::exit(code)
}

fn run() -> io::Result<()> {
    // Not on stdin: the socket must be neither inherited nor shadowed by the program's input.
    let control = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let signals = child::prepare(&control)?;
    let mut control = File::from(control);

    let mut length = [0; 8];
    control.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > SPEC_LIMIT {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut json = Vec::new();
    (&mut control).take(length).read_to_end(&mut json)?;
    let spec: Spec = serde_json::from_slice(&json)?;
    drop(json);

    let stdin = match open_stdin(&spec, &mut control)? {
        Ok(stdin) => stdin,
        Err(error) => return report(&mut control, Exit::NotStarted { error }),
    };
    let forked = match child::fork(&spec, stdin) {
        Ok(forked) => forked,
        Err(error) => {
            let error = format!("cannot make a process: {error}");
            return report(&mut control, Exit::NotStarted { error });
        }
    };
    silence()?;
    Keeper::new(spec, control, signals, forked).keep()
}

/// What the program will read. The inner error is one to tell.
fn open_stdin(spec: &Spec, control: &mut File) -> io::Result<Result<OwnedFd, String>> {
    if let Some(path) = &spec.stdin_file {
        return Ok(
            rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, 0.into())
                .map_err(|error| format!("cannot read {}: {error}", path.display())),
        );
    }
    let Some(length) = spec.stdin_len else {
        return null().map(Ok);
    };
    // A file in memory: the program may read it whole, in part, or not at all, and nobody waits.
    let memory = rustix::fs::memfd_create("stdin", MemfdFlags::CLOEXEC)?;
    let mut file = File::from(memory);
    let copied = io::copy(&mut control.take(length), &mut file)?;
    if copied < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    file.rewind()?;
    Ok(Ok(file.into()))
}

fn null() -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(
        "/dev/null",
        OFlags::RDWR | OFlags::CLOEXEC,
        0.into(),
    )?)
}

/// Lets go of the program's streams, so that only its tree holds them.
fn silence() -> io::Result<()> {
    let null = null()?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

fn report(control: &mut File, exit: Exit) -> io::Result<()> {
    let mut line = serde_json::to_vec(&Report { exit })?;
    line.push(b'\n');
    control.write_all(&line)
}

/// Why the tree is being ended before the program ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Stop,
    Time,
}

struct Keeper {
    spec: Spec,
    control: File,
    ronde_gone: bool,
    signals: OwnedFd,
    program: Pid,
    failure: File,
    ended: Option<WaitStatus>,
    cause: Option<Cause>,
    deadline: Option<Instant>,
    kill_at: Option<Instant>,
    killing_since: Option<Instant>,
    reported: bool,
}

impl Keeper {
    fn new(spec: Spec, control: File, signals: OwnedFd, forked: Forked) -> Self {
        let deadline = spec.time.and_then(|time| Instant::now().checked_add(time));
        Self {
            spec,
            control,
            ronde_gone: false,
            signals,
            program: forked.program,
            failure: forked.failure,
            ended: None,
            cause: None,
            deadline,
            kill_at: None,
            killing_since: None,
            reported: false,
        }
    }

    fn keep(mut self) -> io::Result<()> {
        let mut pause = Duration::ZERO;
        while self.reap()? {
            let now = Instant::now();
            if self.deadline.is_some_and(|deadline| now >= deadline) {
                self.end(Cause::Time, self.spec.grace, now);
            }
            if self.ended.is_some() || self.kill_at.is_some_and(|at| now >= at) {
                let since = *self.killing_since.get_or_insert(now);
                tree::kill();
                // Usually the signal of the next dead child ends the wait, not the clock.
                pause = (pause * 2).clamp(Duration::from_millis(5), Duration::from_millis(200));
                if !self.reported && now - since > GIVE_UP {
                    self.tell(false);
                }
                self.wait(Some(now + pause))?;
            } else {
                let until = match (self.deadline, self.kill_at) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
                self.wait(until)?;
            }
        }
        self.tell(true);
        Ok(())
    }

    /// Begins to end the tree, if nothing has before.
    fn end(&mut self, cause: Cause, grace: Duration, now: Instant) {
        self.deadline = None;
        let at = now.checked_add(grace).unwrap_or(now);
        self.kill_at = Some(self.kill_at.map_or(at, |earlier| earlier.min(at)));
        if self.cause.is_none() && self.ended.is_none() {
            self.cause = Some(cause);
            tree::signal(Signal::TERM);
            // One that is halted would never see the first.
            tree::signal(Signal::CONT);
        }
    }

    /// Waits until something happens or `until` comes, and takes note of it.
    fn wait(&mut self, until: Option<Instant>) -> io::Result<()> {
        let timeout = until.map(|until| {
            let left = until.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            Timespec {
                tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        let mut polled = vec![PollFd::new(&self.signals, PollFlags::IN)];
        if !self.ronde_gone {
            polled.push(PollFd::new(&self.control, PollFlags::IN));
        }
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let signalled = !polled[0].revents().is_empty();
        let addressed = polled
            .get(1)
            .is_some_and(|control| !control.revents().is_empty());
        drop(polled);
        if signalled && child::told_to_end(self.signals.as_fd()) {
            self.end(Cause::Stop, self.spec.grace, Instant::now());
        }
        if addressed {
            self.listen();
        }
        Ok(())
    }

    fn listen(&mut self) {
        let mut bytes = [0; 16];
        let now = Instant::now();
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.control, &mut bytes)) {
            Ok(0) | Err(_) => {
                self.ronde_gone = true;
                self.end(Cause::Stop, self.spec.grace.min(ORPHAN_GRACE), now);
            }
            Ok(read) => {
                let bytes = &bytes[..read];
                if bytes.contains(&KILL) {
                    self.end(Cause::Stop, Duration::ZERO, now);
                } else if bytes.contains(&STOP) {
                    self.end(Cause::Stop, self.spec.grace, now);
                }
            }
        }
    }

    /// Buries the dead. False when no child is left.
    fn reap(&mut self) -> io::Result<bool> {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.program => self.ended = Some(status),
                Ok(Some(_)) => {}
                Ok(None) => return Ok(true),
                Err(Errno::CHILD) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Says how it ended. While something of the tree may be alive, no code of the program's own counts:
    /// what it left can still change.
    fn tell(&mut self, gone: bool) {
        if self.reported {
            return;
        }
        self.reported = true;
        let exit = match self.exit() {
            exit if gone => exit,
            Exit::Code { .. } | Exit::Signal { .. } => Exit::Unknown {
                error: "its processes resist being killed".to_owned(),
            },
            exit => exit,
        };
        // If ronde is gone there is no one to tell.
        let _ = report(&mut self.control, exit);
    }

    fn exit(&mut self) -> Exit {
        match self.cause {
            Some(Cause::Stop) => return Exit::Stopped,
            Some(Cause::Time) => return Exit::TimedOut,
            None => {}
        }
        // The write end closed with the program's exec or with its death, so this does not wait.
        let mut failure = Vec::new();
        let _ = self.failure.read_to_end(&mut failure);
        if !failure.is_empty() {
            return Exit::NotStarted {
                error: String::from_utf8_lossy(&failure).into_owned(),
            };
        }
        let Some(status) = self.ended else {
            return Exit::Unknown {
                error: "the program resists being killed".to_owned(),
            };
        };
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Exit::Code { code },
            (None, Some(signal)) => Exit::Signal { signal },
            (None, None) => Exit::Unknown {
                error: format!("wait status {status:?}"),
            },
        }
    }
}
