//! Starts programs, each behind a keeper of its own, and gathers their output. The one place where
//! ronde creates a process. It decides nothing: what may run is the gate's business, and how a tree
//! is confined and killed is the keeper's.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use ronde_protocol::outcome::Exit;
use tokio::{
    fs::File,
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{UnixStream, unix::pipe},
    process::Child,
    sync::{mpsc, watch},
    task::JoinHandle,
};

use crate::{
    Captured, Command, Permit, Stdin,
    capture::Collector,
    keeper,
    spec::{KILL, Report, STOP, Spec},
};

/// Chunks of live output that may wait for a reader before further ones are dropped.
const LIVE_CHUNKS: usize = 16;
/// The size of a read, and so of the largest live chunk.
const CHUNK: usize = 64 * 1024;

/// Reads of a stream after its tree is gone: more than a pipe holds, so only a stranger who was given
/// the pipe and still writes is cut off.
const LEFT_OVER: u32 = 1024;

/// Why a program could not even be handed to a keeper. A program that does not exist, or that cannot
/// be confined as asked, is no error but [`Exit::NotStarted`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A pipe or socket could not be made.
    #[error("cannot make a pipe for a process: {source}")]
    Pipe {
        /// Why.
        source: io::Error,
    },
    /// The keeper could not be started.
    #[error("cannot start the keeper {}: {source}", path.display())]
    Keeper {
        /// The executable.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The keeper went away before it had the command.
    #[error("cannot hand the command to its keeper: {source}")]
    HandOver {
        /// Why.
        source: io::Error,
    },
    /// The file for the whole output could not be made.
    #[error("cannot write the output to {}: {source}", path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Starts programs.
#[derive(Debug, Clone)]
pub struct Spawner {
    keeper: PathBuf,
}

impl Spawner {
    /// One whose keepers are this executable, run with [`keeper::ARG`]. `/proc/self/exe` is ronde
    /// itself, and stays so when the file it was started from is replaced.
    pub fn new(keeper: PathBuf) -> Self {
        Self { keeper }
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn output(&self, permit: Permit, command: Command) -> Result<Finished, Error> {
        Ok(self.start(permit, command).await?.wait().await)
    }

    /// Starts a command. It returns once a keeper has it; whether the program itself could start is
    /// told by [`Running::wait`].
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn start(&self, permit: Permit, command: Command) -> Result<Running, Error> {
        let pipe = |source: io::Error| Error::Pipe { source };
        let whole = match &command.capture.whole {
            Some(path) => Some(Tee::create(path, command.capture.whole_limit).await?),
            None => None,
        };
        let (ours, theirs) = UnixStream::pair().map_err(pipe)?;
        let theirs = theirs.into_std().map_err(pipe)?;
        theirs.set_nonblocking(false).map_err(pipe)?;
        let (stdout, stdout_end) = output_pipe().map_err(pipe)?;
        let (stderr, stderr_end) = if command.capture.merge {
            (None, Stdio::null())
        } else {
            let (stderr, end) = output_pipe().map_err(pipe)?;
            (Some(stderr), end.into())
        };

        let began = Instant::now();
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the one place that starts processes"
        )]
        let mut keeper = tokio::process::Command::new(&self.keeper);
        let child = keeper
            .arg0("ronde")
            .arg(keeper::ARG)
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(stdout_end)
            .stderr(stderr_end)
            .spawn()
            .map_err(|source| Error::Keeper {
                path: self.keeper.clone(),
                source,
            })?;
        // It still has our copies of the ends that are the keeper's now.
        drop(keeper);
        tracing::debug!(
            purpose = permit.purpose(),
            program = %command.argv.first().map(|program| program.display().to_string()).unwrap_or_default(),
            keeper = child.id(),
            "started a process"
        );

        let mut ours = ours;
        hand_over(&mut ours, &command)
            .await
            .map_err(|source| Error::HandOver { source })?;

        let (stop, stops) = watch::channel(Stop::No);
        let (over, when_over) = watch::channel(false);
        let (live, live_out) = mpsc::channel(LIVE_CHUNKS);
        let (head, tail) = (command.capture.head, command.capture.tail);
        let stdout = tokio::spawn(pump(
            stdout,
            Collector::new(head, tail),
            Some(live),
            whole,
            when_over.clone(),
        ));
        let stderr = stderr.map(|stderr| {
            tokio::spawn(pump(
                stderr,
                Collector::new(head, tail),
                None,
                None,
                when_over,
            ))
        });
        let end = tokio::spawn(async move {
            let exit = supervise(ours, child, stops).await;
            over.send_replace(true);
            (exit, began.elapsed())
        });
        Ok(Running {
            stopper: Stopper { stop },
            live: Some(live_out),
            tasks: Some(Tasks {
                stdout,
                stderr,
                end,
            }),
        })
    }
}

/// A program at work. Dropping it stops the program's tree.
#[derive(Debug)]
pub struct Running {
    stopper: Stopper,
    live: Option<mpsc::Receiver<Vec<u8>>>,
    tasks: Option<Tasks>,
}

#[derive(Debug)]
struct Tasks {
    stdout: JoinHandle<(Captured, Option<Whole>)>,
    stderr: Option<JoinHandle<(Captured, Option<Whole>)>>,
    end: JoinHandle<(Exit, Duration)>,
}

impl Running {
    /// What stops it.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Its standard output as it comes, once. A reader that is too slow misses chunks.
    pub fn take_output(&mut self) -> Option<mpsc::Receiver<Vec<u8>>> {
        self.live.take()
    }

    /// Waits until the program and everything it started are gone.
    pub async fn wait(mut self) -> Finished {
        self.live = None;
        let Some(tasks) = &mut self.tasks else {
            unreachable!("the tasks are taken only here, and this takes the whole value");
        };
        let (exit, duration) = (&mut tasks.end).await.unwrap_or_else(|error| {
            (
                Exit::Unknown {
                    error: format!("its supervision failed: {error}"),
                },
                Duration::ZERO,
            )
        });
        let (stdout, whole) = (&mut tasks.stdout).await.unwrap_or_default();
        let stderr = match &mut tasks.stderr {
            Some(stderr) => stderr.await.unwrap_or_default().0,
            None => Captured::default(),
        };
        Finished {
            exit,
            stdout,
            stderr,
            whole,
            duration,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Stop {
    No,
    Gently,
    AtOnce,
}

/// Stops a program and its tree.
#[derive(Debug, Clone)]
pub struct Stopper {
    stop: watch::Sender<Stop>,
}

impl Stopper {
    /// Ends the tree: SIGTERM now, SIGKILL after the command's grace. Doing it again does nothing.
    pub fn stop(&self) {
        self.raise(Stop::Gently);
    }

    /// Ends the tree with SIGKILL, now.
    pub fn kill(&self) {
        self.raise(Stop::AtOnce);
    }

    fn raise(&self, to: Stop) {
        self.stop.send_if_modified(|stop| {
            let higher = *stop < to;
            if higher {
                *stop = to;
            }
            higher
        });
    }
}

/// How a program ended, and what is left of its output.
#[derive(Debug, Clone)]
pub struct Finished {
    /// How it ended.
    pub exit: Exit,
    /// Its standard output.
    pub stdout: Captured,
    /// Its standard error; empty if that went into standard output.
    pub stderr: Captured,
    /// The file with the whole output, where one was asked for.
    pub whole: Option<Whole>,
    /// How long it took until its whole tree was gone.
    pub duration: Duration,
}

/// What became of the file for the whole output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// Bytes written to it. Less than the stream's total if that went past the limit.
    pub written: u64,
    /// Why writing broke off, if it did. The program is not stopped by it.
    pub error: Option<String>,
}

fn output_pipe() -> io::Result<(pipe::Receiver, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // The two ends are two descriptions: the program's own end keeps blocking.
    Ok((pipe::Receiver::from_owned_fd(read)?, write))
}

async fn hand_over(socket: &mut UnixStream, command: &Command) -> io::Result<()> {
    let spec = serde_json::to_vec(&Spec::of(command))?;
    socket.write_all(&(spec.len() as u64).to_le_bytes()).await?;
    socket.write_all(&spec).await?;
    if let Stdin::Bytes(bytes) = &command.stdin {
        socket.write_all(bytes).await?;
    }
    Ok(())
}

/// Passes stops on to the keeper until it reports or vanishes.
async fn supervise(socket: UnixStream, mut child: Child, mut stops: watch::Receiver<Stop>) -> Exit {
    let (read, mut write) = socket.into_split();
    let mut lines = BufReader::new(read).lines();
    let line = loop {
        tokio::select! {
            line = lines.next_line() => break line,
            Ok(()) = stops.changed() => {
                let byte = match *stops.borrow_and_update() {
                    Stop::No => continue,
                    Stop::Gently => STOP,
                    Stop::AtOnce => KILL,
                };
                // A keeper that is already gone is seen by the read.
                let _ = write.write_all(&[byte]).await;
            }
        }
    };
    let report = match line {
        Ok(Some(line)) => serde_json::from_str::<Report>(&line)
            .map_err(|error| format!("its keeper reported nonsense: {error}")),
        Ok(None) => Err("its keeper vanished".to_owned()),
        Err(error) => Err(format!("its keeper cannot be heard: {error}")),
    };
    match report {
        Ok(report) => {
            // The report is the end; the keeper itself is only reaped.
            tokio::spawn(async move { child.wait().await });
            report.exit
        }
        Err(error) => match child.wait().await {
            Ok(status) => Exit::Unknown {
                error: format!("{error} ({status})"),
            },
            Err(_) => Exit::Unknown { error },
        },
    }
}

/// Reads a stream to its end: until no one holds it, or until the tree is gone and it is empty (some
/// process outside the tree may have been given a copy of it).
async fn pump(
    stream: pipe::Receiver,
    mut collector: Collector,
    live: Option<mpsc::Sender<Vec<u8>>>,
    mut whole: Option<Tee>,
    mut over: watch::Receiver<bool>,
) -> (Captured, Option<Whole>) {
    let mut buffer = vec![0; CHUNK];
    let mut left_over = LEFT_OVER;
    while left_over > 0 {
        let read = tokio::select! {
            biased;
            _ = over.wait_for(|over| *over) => {
                left_over -= 1;
                // Empty, or broken: whatever there was has been read.
                read_now(&stream, &mut buffer).unwrap_or(0)
            }
            read = read_ready(&stream, &mut buffer) => match read {
                Ok(n) => n,
                Err(error) => {
                    tracing::warn!(%error, "cannot read the output of a process");
                    0
                }
            },
        };
        if read == 0 {
            break;
        }
        let chunk = &buffer[..read];
        collector.push(chunk);
        if let Some(live) = &live
            && let Ok(slot) = live.try_reserve()
        {
            slot.send(chunk.to_vec());
        }
        if let Some(whole) = &mut whole {
            whole.write(chunk).await;
        }
    }
    let whole = match whole {
        Some(whole) => Some(whole.finish().await),
        None => None,
    };
    (collector.finish(), whole)
}

async fn read_ready(stream: &pipe::Receiver, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        stream.readable().await?;
        match stream.try_read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

/// Reads what is there at this moment, whatever the runtime has heard of it yet.
fn read_now(stream: &pipe::Receiver, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::retry_on_intr(|| {
        rustix::io::read(stream.as_fd(), &mut *buffer)
    })?)
}

/// The file for the whole output.
struct Tee {
    file: File,
    path: PathBuf,
    limit: u64,
    written: u64,
    error: Option<String>,
}

impl Tee {
    async fn create(path: &Path, limit: u64) -> Result<Self, Error> {
        let file = File::create(path).await.map_err(|source| Error::Output {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            file,
            path: path.to_owned(),
            limit,
            written: 0,
            error: None,
        })
    }

    async fn write(&mut self, chunk: &[u8]) {
        if self.error.is_some() {
            return;
        }
        let room = usize::try_from(self.limit - self.written).unwrap_or(usize::MAX);
        let chunk = &chunk[..chunk.len().min(room)];
        // A write to a tokio file only begins; its failure shows in the flush.
        let written = match self.file.write_all(chunk).await {
            Ok(()) => self.file.flush().await,
            Err(error) => Err(error),
        };
        match written {
            Ok(()) => self.written += chunk.len() as u64,
            Err(error) => {
                tracing::warn!(%error, path = %self.path.display(), "the output is not kept");
                self.error = Some(error.to_string());
            }
        }
    }

    async fn finish(self) -> Whole {
        Whole {
            written: self.written,
            error: self.error,
        }
    }
}
