//! What a program may do, as its caller asks for it. The keeper enforces it (see `confine` and
//! `seccomp`); nothing here touches the kernel.

use std::path::PathBuf;

use ronde_protocol::access::Level;

/// How far a program may reach.
///
/// With [`Level::ReadOnly`] and [`Level::WorkspaceWrite`] files are held by Landlock: everything can
/// be read but `hidden`, nothing can be written but `writable` and the devices every program expects
/// (`/dev/null` and the like). Such a program can also neither signal, trace nor read the memory of a
/// process outside its own tree. With [`Level::Full`] there is no file isolation, and `writable` and
/// `hidden` mean nothing.
///
/// Confined programs share no memory, semaphores or queues with each other or anybody else, because
/// those outlive a program and would carry what a worker says to the checks after it: `/dev/shm` is
/// written by none, and System V IPC and POSIX message queues are refused. Threads, pipes, Unix sockets
/// and memory mapped by a process and its children work; what needs named shared memory or semaphores
/// (Python's `multiprocessing` locks, a PostgreSQL server) needs [`Level::Full`].
///
/// The folder the program starts in can be read with all that is in it, even beneath a hidden path.
///
/// Landlock only knows how to allow. A hidden path is held by allowing everything beside it, so two
/// things follow for each folder above a hidden path: it cannot be listed, and what is newly made in
/// it after the program started cannot be read by that program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// How far writes reach.
    pub level: Level,
    /// Whether sockets other than Unix ones may be opened.
    pub network: bool,
    /// Folders and files that can be written. Each must exist; one inside a hidden path is granted.
    pub writable: Vec<PathBuf>,
    /// Paths that can be neither read nor written, with all beneath them but what is `writable` and
    /// the folder the program starts in. One that does not exist when the program starts is passed
    /// over.
    pub hidden: Vec<PathBuf>,
    /// Resource limits.
    pub limits: Limits,
}

impl Policy {
    /// No isolation and no limits: for what the engine itself runs.
    pub fn unconfined() -> Self {
        Self {
            level: Level::Full,
            network: true,
            writable: Vec::new(),
            hidden: Vec::new(),
            limits: Limits::default(),
        }
    }

    /// Whether files are isolated.
    pub(crate) fn confines_files(&self) -> bool {
        self.level != Level::Full
    }
}

/// Resource limits of each process of a tree; `None` leaves what ronde itself has. Core dumps are
/// always off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Limits {
    /// Bytes of private writable memory per process (`RLIMIT_DATA`).
    pub memory: Option<u64>,
    /// Processes of the same user, in all (`RLIMIT_NPROC`; the kernel does not hold root to it).
    pub processes: Option<u64>,
    /// Open files per process (`RLIMIT_NOFILE`).
    pub open_files: Option<u64>,
    /// Bytes of the largest file that can be written (`RLIMIT_FSIZE`).
    pub file_size: Option<u64>,
}
