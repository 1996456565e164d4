//! The test engine: a home of its own, projects with real git, and the real binary, watched by its
//! `--json` lines. No sleeps: a test waits for a line, an exit, or a process to be gone.
#![expect(
    clippy::disallowed_methods,
    reason = "tests start the real binary and git themselves"
)]

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

use serde_json::Value;

/// A home and a folder for projects, gone when dropped.
pub struct Bench {
    dir: tempfile::TempDir,
    ronde: PathBuf,
}

impl Bench {
    /// A new one, for a `ronde` binary.
    pub fn new(ronde: impl Into<PathBuf>) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        Self {
            dir,
            ronde: ronde.into(),
        }
    }

    /// The home.
    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// A folder beside the home.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A git repository with these files in one commit on `main`.
    pub fn project(&self, name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root = self.path(name);
        write(&root, files);
        git(&root, &["init", "-q", "-b", "main"]);
        git(&root, &["add", "-A"]);
        git(&root, &["commit", "-q", "-m", "first", "--allow-empty"]);
        root
    }

    /// `ronde` with arguments: a home of its own, no colours, and nothing else of this environment but
    /// what programs need.
    pub fn command(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(&self.ronde);
        command.args(args).env_clear().current_dir(self.dir.path());
        for name in ["PATH", "HOME", "CARGO_HOME", "RUSTUP_HOME"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
            .env("RONDE_HOME", self.home())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        command
    }

    /// Runs `ronde` to its end.
    pub fn ronde(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Ended {
        end_of(&mut self.command(args))
    }

    /// Starts `ronde` and reads its lines as they come.
    pub fn start(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Running {
        start(&mut self.command(args))
    }

    /// The JSON lines of a listing verb.
    pub fn lines(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Vec<Value> {
        let ended = self.ronde(args);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.json()
    }

    /// The records of a run's journal, parsed; the torn tail a kill leaves is left out.
    pub fn journal(&self, run: &str) -> Vec<Value> {
        let file = self.home().join("runs").join(run).join("journal.jsonl");
        let text = fs::read_to_string(file).unwrap_or_default();
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// The records of the home journal, parsed; a torn tail is left out.
    pub fn home_journal(&self) -> Vec<Value> {
        let segments = fs::read_dir(self.home().join("home/journal"));
        let mut segments: Vec<_> = segments
            .into_iter()
            .flatten()
            .map(|entry| entry.expect("an entry").path())
            .collect();
        segments.sort();
        let read = |file: &PathBuf| fs::read_to_string(file).unwrap_or_default();
        let text: String = segments.iter().map(read).collect();
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Reads the home journal again whenever it was written to, until it holds what is waited for. The
    /// home has to be there.
    pub fn wait_for_home(&self, holds: impl Fn(&[Value]) -> bool) {
        let folder = self.home().join("home/journal");
        wait_written(&folder, || holds(&self.home_journal()));
    }

    /// As [`Bench::wait_for_home`], for the journal of a run.
    pub fn wait_for_run(&self, run: &str, holds: impl Fn(&[Value]) -> bool) {
        let folder = self.home().join("runs").join(run);
        wait_written(&folder, || holds(&self.journal(run)));
    }

    /// Processes whose command line or environment names this bench's folder: whatever a run left.
    pub fn leftovers(&self) -> Vec<String> {
        let needle = self.dir.path().to_string_lossy().into_owned();
        let me = std::process::id().to_string();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").expect("proc is mounted").flatten() {
            let pid = entry.file_name().to_string_lossy().into_owned();
            if pid == me || !pid.chars().all(|c| c.is_ascii_digit()) {
                continue;
            }
            let read = |file: &str| {
                fs::read(entry.path().join(file))
                    .map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "))
                    .unwrap_or_default()
            };
            let (line, environ) = (read("cmdline"), read("environ"));
            if line.contains(&needle) || environ.contains(&needle) {
                found.push(format!("{pid}: {line}"));
            }
        }
        found
    }

    /// Waits until nothing of this bench is left. A keeper needs a moment after its ronde was killed.
    pub fn wait_until_nothing_is_left(&self) {
        let mut left = self.leftovers();
        while let Some(first) = left.first() {
            let pid = first.split(':').next().and_then(|pid| pid.parse().ok());
            wait_gone(pid.expect("a pid"));
            left = self.leftovers();
        }
    }
}

/// Writes files below a folder.
pub fn write(root: &Path, files: &[(&str, &str)]) {
    fs::create_dir_all(root).expect("a folder");
    for (path, content) in files {
        let file = root.join(path);
        fs::create_dir_all(file.parent().expect("a file has a folder")).expect("a folder");
        fs::write(&file, content).expect("a file");
        if content.starts_with("#!") {
            use std::os::unix::fs::PermissionsExt as _;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("a mode");
        }
    }
}

/// Looks again whenever something in a folder was written to, until it is as it should be.
fn wait_written(folder: &Path, holds: impl Fn() -> bool) {
    use rustix::fs::inotify;
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC).expect("inotify");
    let events = inotify::WatchFlags::MODIFY | inotify::WatchFlags::CREATE;
    inotify::add_watch(&watch, folder, events).expect("the folder can be watched");
    let mut seen = [0; 4096];
    while !holds() {
        rustix::io::read(&watch, &mut seen).expect("an event");
    }
}

/// Everything below a folder, byte for byte: files, the targets of links, and folders.
pub fn contents(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    use std::os::unix::ffi::OsStrExt as _;
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let meta = path.symlink_metadata().expect("it is there");
            let bytes = if meta.is_dir() {
                folders.push(path.clone());
                Vec::new()
            } else if meta.is_symlink() {
                let target = fs::read_link(&path).expect("a link");
                target.as_os_str().as_bytes().to_vec()
            } else if meta.is_file() {
                fs::read(&path).expect("a file")
            } else {
                Vec::new()
            };
            found.insert(path, bytes);
        }
    }
    found
}

/// The most memory a process has held so far, in bytes; none if it is gone.
pub fn peak_memory(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

/// A command of another program.
pub fn program(name: &str) -> Command {
    Command::new(name)
}

/// Runs git in a folder and gives what it prints.
pub fn git(root: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["-c", "user.name=t", "-c", "user.email=t@localhost"])
        .args(args)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git runs");
    assert!(
        output.status.success(),
        "git {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned()
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it complained of.
    pub stderr: String,
}

impl Ended {
    /// Its output as JSON, a value a line.
    pub fn json(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).expect(line))
            .collect()
    }

    /// The closing `run_ended` event.
    pub fn run_ended(&self) -> Value {
        let last = self
            .json()
            .pop()
            .unwrap_or_else(|| panic!("no line: {self:?}"));
        assert_eq!(last["event"], "run_ended", "{self:?}");
        last
    }
}

/// Runs a command to its end.
pub fn end_of(command: &mut Command) -> Ended {
    let output = command.output().expect("the binary starts");
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A command under way; killed when dropped.
pub struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

/// Starts a command in a process group of its own.
pub fn start(command: &mut Command) -> Running {
    let mut child = command
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("the binary starts");
    let lines = BufReader::new(child.stdout.take().expect("stdout is piped"));
    Running { child, lines }
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid")
    }

    /// The next line; none at its end.
    pub fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line).expect("a line");
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// Reads up to the first line that contains a text.
    pub fn wait_for(&mut self, text: &str) -> String {
        let mut seen = Vec::new();
        while let Some(line) = self.line() {
            if line.contains(text) {
                return line;
            }
            seen.push(line);
        }
        panic!("ended without {text:?}: {seen:#?}");
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid()).expect("a pid");
        rustix::process::kill_process(pid, signal).expect("it can be signalled");
    }

    /// Kills it as a power cut would.
    pub fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }

    /// Reads the rest of its lines, and waits for its end.
    pub fn end(mut self) -> (Option<i32>, Vec<String>) {
        let mut lines = Vec::new();
        while let Some(line) = self.line() {
            lines.push(line);
        }
        (self.child.wait().expect("it ends").code(), lines)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may be gone already.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// Waits until a process is gone, or is no process of that number any more.
pub fn wait_gone(pid: i32) {
    use rustix::{
        event::{PollFd, PollFlags, poll},
        process::{Pid, PidfdFlags, pidfd_open},
    };
    let Some(pid) = Pid::from_raw(pid) else {
        return;
    };
    // It is gone already.
    let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) else {
        return;
    };
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).expect("a pidfd can be waited for");
}
