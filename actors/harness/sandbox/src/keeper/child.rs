//! From the keeper's fork to the program's exec, and the keeper's own signals. The only file that
//! calls the C library directly for them.

use std::{
    ffi::{CString, OsStr, OsString},
    fs::File,
    io::{self, Write},
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::Path,
    ptr,
};

use rustix::{
    pipe::PipeFlags,
    process::{Pid, Resource, Rlimit, Signal},
};

use crate::{confine, spec::Spec};

/// The signals the keeper reads from a file instead of being interrupted by.
const READ: [libc::c_int; 5] = [
    libc::SIGCHLD,
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGHUP,
    libc::SIGQUIT,
];
/// Where programs are looked for if the environment does not say.
const DEFAULT_PATH: &str = "/usr/bin:/bin";

/// A program that is about to run.
pub(super) struct Forked {
    /// Its process.
    pub(super) program: Pid,
    /// Why it could not start; empty, once it did.
    pub(super) failure: File,
}

/// Makes this process a keeper: a session of its own, the reaper of its descendants, no inherited
/// signal settings and no file but the streams and `control`. Returns what its signals are read from.
#[expect(
    unsafe_code,
    reason = "signal sets and closing by number exist only in the C library"
)]
pub(super) fn prepare(control: &OwnedFd) -> io::Result<OwnedFd> {
    // Fails only if it leads a session already.
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let _ = rustix::thread::set_name(c"ronde-keeper");

    let keep = control.as_raw_fd().unsigned_abs();
    // SAFETY: nothing but the streams and `control` is used after this, and the process has one thread.
    unsafe {
        if keep > 3 {
            libc::syscall(libc::SYS_close_range, 3, keep - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, keep + 1, libc::c_uint::MAX, 0);
    }

    reset_signals();
    // SAFETY: the set is initialised by `sigemptyset` before it is read; `signalfd` returns a new
    // descriptor that nothing else owns, or -1.
    unsafe {
        // A report to a socket that has closed must be an error, not a death.
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in READ {
            libc::sigaddset(&mut set, signal);
        }
        if libc::sigprocmask(libc::SIG_SETMASK, &set, ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Reads the signals that came. True if one of them asks the keeper to end.
pub(super) fn told_to_end(signals: BorrowedFd<'_>) -> bool {
    const SIZE: usize = size_of::<libc::signalfd_siginfo>();
    let mut told = false;
    let mut buffer = [0; SIZE];
    while let Ok(SIZE) = rustix::io::read(signals, &mut buffer) {
        // The number is the first field.
        let number = u32::from_ne_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]);
        told |= number != libc::SIGCHLD.unsigned_abs();
    }
    told
}

/// Every signal at its default, none blocked: what a shell would give a program.
#[expect(unsafe_code, reason = "the C library's signal calls")]
fn reset_signals() {
    // SAFETY: no handler of ours is in place that could be lost, and the set is initialised before use.
    unsafe {
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
    }
}

/// Forks the program off.
#[expect(unsafe_code, reason = "fork")]
pub(super) fn fork(spec: &Spec, stdin: OwnedFd) -> io::Result<Forked> {
    let (failure, mut told) =
        rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map(|(r, w)| (File::from(r), File::from(w)))?;
    let keeper = rustix::process::getpid();
    // SAFETY: the process has one thread, so the child may do whatever it likes.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let error = become_program(spec, &stdin, keeper);
            // A closed pipe means that the keeper is gone, and then nobody wants to know.
            let _ = told.write_all(error.as_bytes());
            // SAFETY: ends the process without running what belongs to the keeper.
            unsafe { libc::_exit(127) }
        }
        pid => {
            let program =
                Pid::from_raw(pid).ok_or_else(|| io::Error::other("fork returned 0 twice"))?;
            Ok(Forked { program, failure })
        }
    }
}

/// Becomes the program. Returns only to say why not.
fn become_program(spec: &Spec, stdin: &OwnedFd, keeper: Pid) -> String {
    match try_become(spec, stdin, keeper) {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

enum Never {}

fn try_become(spec: &Spec, stdin: &OwnedFd, keeper: Pid) -> Result<Never, String> {
    reset_signals();
    let failed =
        |what: &'static str| move |error: rustix::io::Errno| format!("cannot {what}: {error}");
    rustix::process::setsid().map_err(failed("begin a session"))?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(failed("follow its keeper"))?;
    if rustix::process::getppid() != Some(keeper) {
        return Err("its keeper is gone".to_owned());
    }
    rustix::stdio::dup2_stdin(stdin).map_err(failed("set its input"))?;
    if spec.merge {
        rustix::stdio::dup2_stderr(rustix::stdio::stdout()).map_err(failed("join its output"))?;
    }
    limit(spec)?;
    rustix::process::chdir(&spec.cwd)
        .map_err(|error| format!("cannot enter {}: {error}", spec.cwd.display()))?;
    // Looked up before confinement, so that "no such program" and "not allowed" differ.
    let call = Call::new(spec)?;
    confine::apply(&spec.policy())?;
    Err(call.exec())
}

fn limit(spec: &Spec) -> Result<(), String> {
    let limits = spec.limits;
    let wanted = [
        (Resource::Core, Some(0), "core"),
        (Resource::Data, limits.memory, "memory"),
        (Resource::Nproc, limits.processes, "processes"),
        (Resource::Nofile, limits.open_files, "open files"),
        (Resource::Fsize, limits.file_size, "file size"),
    ];
    for (resource, limit, name) in wanted {
        let Some(limit) = limit else { continue };
        let now = rustix::process::getrlimit(resource);
        let limit = now.maximum.map_or(limit, |maximum| maximum.min(limit));
        let new = Rlimit {
            current: Some(limit),
            maximum: Some(limit),
        };
        rustix::process::setrlimit(resource, new)
            .map_err(|error| format!("cannot limit {name}: {error}"))?;
    }
    Ok(())
}

/// A prepared exec.
struct Call {
    program: OsString,
    argv: Vec<CString>,
    env: Vec<CString>,
    candidates: Vec<CString>,
}

impl Call {
    fn new(spec: &Spec) -> Result<Self, String> {
        let program = spec.argv.first().filter(|program| !program.is_empty());
        let program = program.ok_or("no program is named")?.clone();
        let text = |text: &OsStr| {
            CString::new(text.as_bytes()).map_err(|_| format!("{} has a NUL in it", text.display()))
        };
        let argv = spec
            .argv
            .iter()
            .map(|argument| text(argument))
            .collect::<Result<_, _>>()?;
        let mut env = Vec::new();
        for (name, value) in &spec.env {
            let mut both = name.clone().into_vec();
            both.push(b'=');
            both.extend_from_slice(value.as_bytes());
            env.push(text(OsStr::from_bytes(&both))?);
        }
        let candidates = if program.as_bytes().contains(&b'/') {
            vec![text(&program)?]
        } else {
            let path = spec.env.iter().rev().find(|(name, _)| name == "PATH");
            let path = path.map_or(OsStr::new(DEFAULT_PATH), |(_, value)| value.as_os_str());
            std::env::split_paths(path)
                .map(|folder| text(Path::new(".").join(folder).join(&program).as_os_str()))
                .collect::<Result<_, _>>()?
        };
        Ok(Self {
            program,
            argv,
            env,
            candidates,
        })
    }

    /// Tries each candidate as a shell does. Returns only the reason of the most telling failure.
    fn exec(&self) -> String {
        let mut worst = io::Error::from_raw_os_error(libc::ENOENT);
        for candidate in &self.candidates {
            let mut error = execve(candidate, &self.argv, &self.env);
            if error.raw_os_error() == Some(libc::ENOEXEC) {
                // A script without an interpreter line.
                let mut argv = vec![c"sh".to_owned(), candidate.clone()];
                argv.extend(self.argv.iter().skip(1).cloned());
                error = execve(c"/bin/sh", &argv, &self.env);
            }
            match error.raw_os_error() {
                Some(libc::ENOENT | libc::ENOTDIR) => {}
                Some(libc::EACCES) => worst = error,
                _ => {
                    worst = error;
                    break;
                }
            }
        }
        let name = self.program.display();
        if worst.raw_os_error() != Some(libc::ENOENT) {
            format!("cannot run {name}: {worst}")
        } else if self.program.as_bytes().contains(&b'/') {
            format!("{name}: no such program, or its interpreter is missing")
        } else {
            format!("{name}: no such program in PATH")
        }
    }
}

#[expect(unsafe_code, reason = "execve")]
fn execve(program: &std::ffi::CStr, argv: &[CString], env: &[CString]) -> io::Error {
    let pointers = |texts: &[CString]| {
        texts
            .iter()
            .map(|text| text.as_ptr())
            .chain([ptr::null()])
            .collect::<Vec<_>>()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: all three point to NUL-terminated texts that outlive the call, and both lists end in a
    // null pointer. Every descriptor but the streams is close-on-exec.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}
