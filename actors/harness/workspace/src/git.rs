//! Runs git, and nothing but git: explicit folders, an environment of its own, no configuration but
//! that of the named git folder, and what in there could run a program switched off.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ronde_protocol::outcome::Exit;
use ronde_sandbox::{
    Command, Spawner, Stdin,
    gate::{self, Purpose},
};

use crate::Error;

/// Output kept of a command: a list of some million paths.
const WHOLE: usize = 1 << 30;
/// Error output kept.
const STDERR: usize = 4096;
/// A local command that takes longer hangs.
const LOCAL_TIME: Duration = Duration::from_secs(30 * 60);
/// A fetch that takes longer hangs.
const FETCH_TIME: Duration = Duration::from_secs(30 * 60);

/// Switched off in every command, whatever the git folder's own configuration says.
const CONFIG: [&str; 18] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    // Run by a shell where an alternate is asked for its refs; `true` names none.
    "core.alternateRefsCommand=true",
    "core.logAllRefUpdates=false",
    "core.filesRefLockTimeout=1000",
    "core.protectNTFS=true",
    // What a journal will name must be on disk first.
    "core.fsync=committed,reference",
    "core.fsyncMethod=batch",
    "gc.auto=0",
    "maintenance.auto=false",
    "fetch.writeCommitGraph=false",
    "submodule.recurse=false",
    "protocol.ext.allow=never",
    "safe.directory=*",
];

/// Variables of the person's own environment that a fetch needs to reach a remote as that person.
const FETCH_ENV: [&str; 18] = [
    "HOME",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
    "USER",
    "LOGNAME",
    "SSH_AUTH_SOCK",
    "DBUS_SESSION_BUS_ADDRESS",
    "GNUPGHOME",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "all_proxy",
    "no_proxy",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
];

/// git, through the one spawner. Clones share the count.
#[derive(Debug, Clone)]
pub struct Git {
    spawner: Spawner,
    commands: Arc<AtomicU64>,
}

impl Git {
    /// git as found on the PATH, started by this spawner.
    pub fn new(spawner: Spawner) -> Self {
        Self {
            spawner,
            commands: Arc::default(),
        }
    }

    /// How many git processes were started so far.
    pub fn commands(&self) -> u64 {
        self.commands.load(Ordering::Relaxed)
    }

    /// Runs a command and gives what it wrote and its exit code.
    pub(crate) async fn run(&self, call: Call<'_>) -> Result<Output, Error> {
        self.commands.fetch_add(1, Ordering::Relaxed);
        let name = call
            .args
            .first()
            .map(|name| name.display().to_string())
            .unwrap_or_default();
        let path = call.work.unwrap_or(call.dir).to_owned();
        let finished = self
            .spawner
            .output(gate::engine(Purpose::Git), call.command())
            .await?;
        let stderr = finished.stderr.tail_text(STDERR);
        let failed = |detail: String| Error::Git {
            command: name.clone(),
            path: path.clone(),
            detail,
        };
        match finished.exit {
            Exit::Code { code } => {
                let out = finished.stdout;
                if out.total > out.head.len() as u64 && !call.cut {
                    return Err(failed(format!(
                        "{} bytes of output are too many",
                        out.total
                    )));
                }
                Ok(Output {
                    code,
                    stdout: out.head,
                    total: out.total,
                    stderr,
                    name,
                    path,
                })
            }
            // A folder that is gone keeps a program from starting, too.
            Exit::NotStarted { error } if !path.is_dir() => Err(failed(error)),
            Exit::NotStarted { error } => Err(Error::NoGit { detail: error }),
            exit => Err(failed(format!("{exit} {stderr}").trim().to_owned())),
        }
    }

    /// Runs a command that must succeed and gives what it wrote.
    pub(crate) async fn ok(&self, call: Call<'_>) -> Result<Vec<u8>, Error> {
        self.run(call).await?.ok()
    }

    /// Runs a command that must succeed and write one object id.
    pub(crate) async fn id(&self, call: Call<'_>) -> Result<String, Error> {
        let output = self.run(call).await?;
        let failed = |detail| Error::Git {
            command: output.name.clone(),
            path: output.path.clone(),
            detail,
        };
        if output.code != 0 {
            return Err(failed(output.stderr.trim().to_owned()));
        }
        let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if is_id(&id) {
            Ok(id)
        } else {
            Err(failed(format!("`{id}` is not an object id")))
        }
    }
}

/// Whether a text is a whole object id.
pub(crate) fn is_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What a command wrote.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    /// Bytes of output, of which `stdout` has the first.
    pub(crate) total: u64,
    pub(crate) stderr: String,
    name: String,
    path: std::path::PathBuf,
}

impl Output {
    /// The output of a command that must have succeeded.
    pub(crate) fn ok(self) -> Result<Vec<u8>, Error> {
        if self.code == 0 {
            Ok(self.stdout)
        } else {
            Err(self.error())
        }
    }

    /// The failure it reports.
    pub(crate) fn error(&self) -> Error {
        let said = self.stderr.trim();
        let detail = if said.is_empty() {
            format!("exit code {}", self.code)
        } else {
            said.to_owned()
        };
        Error::Git {
            command: self.name.clone(),
            path: self.path.clone(),
            detail,
        }
    }
}

/// One git command.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    dir: &'a Path,
    work: Option<&'a Path>,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    stdin: Stdin,
    head: usize,
    cut: bool,
    fetch: bool,
}

impl<'a> Call<'a> {
    /// A command on a git folder. Without [`Call::work`], it has no files.
    pub(crate) fn new(dir: &'a Path, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        Self {
            dir,
            work: None,
            args: args
                .into_iter()
                .map(|arg| arg.as_ref().to_owned())
                .collect(),
            env: Vec::new(),
            stdin: Stdin::Null,
            head: WHOLE,
            cut: false,
            fetch: false,
        }
    }

    /// One more argument.
    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// The folder with the files.
    pub(crate) fn work(mut self, work: &'a Path) -> Self {
        self.work = Some(work);
        self
    }

    /// The index file.
    pub(crate) fn index(self, index: &Path) -> Self {
        self.env("GIT_INDEX_FILE", index)
    }

    /// The tree whose `.gitattributes` hold, rather than those of the files.
    pub(crate) fn attributes(self, tree: Option<&str>) -> Self {
        match tree {
            Some(tree) => self.env("GIT_ATTR_SOURCE", tree),
            None => self,
        }
    }

    /// A variable.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// What it reads.
    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Stdin::Bytes(bytes.into());
        self
    }

    /// Keeps only the first bytes of its output.
    pub(crate) fn cut(mut self, bytes: usize) -> Self {
        (self.head, self.cut) = (bytes, true);
        self
    }

    /// Lets it reach a remote, with the person's own configuration and credentials.
    pub(crate) fn fetch(mut self) -> Self {
        self.fetch = true;
        self
    }

    fn command(&self) -> Command {
        let mut argv: Vec<OsString> = vec!["git".into()];
        for setting in CONFIG {
            argv.extend(["-c".into(), setting.into()]);
        }
        argv.extend(self.args.iter().cloned());

        let mut allowed = vec!["PATH".to_owned()];
        if self.fetch {
            allowed.extend(FETCH_ENV.map(str::to_owned));
        }
        let mut env = ronde_sandbox::env_allow(&allowed, &[]);
        let mut set = |name: &str, value: &OsStr| env.push((name.into(), value.to_owned()));
        set("GIT_DIR", self.dir.as_os_str());
        // Also where there are no files: it overrides a `core.worktree` that may lead anywhere.
        set("GIT_WORK_TREE", self.work.unwrap_or(self.dir).as_os_str());
        set("GIT_TERMINAL_PROMPT", OsStr::new("0"));
        set("GIT_OPTIONAL_LOCKS", OsStr::new("0"));
        set("GIT_NO_REPLACE_OBJECTS", OsStr::new("1"));
        set("GIT_NO_LAZY_FETCH", OsStr::new("1"));
        set("GIT_ATTR_NOSYSTEM", OsStr::new("1"));
        set("LC_ALL", OsStr::new("C"));
        if self.fetch {
            set("GIT_ALLOW_PROTOCOL", OsStr::new("file:git:http:https:ssh"));
            set("SSH_ASKPASS_REQUIRE", OsStr::new("never"));
        } else {
            set("GIT_CONFIG_NOSYSTEM", OsStr::new("1"));
            set("GIT_CONFIG_GLOBAL", OsStr::new("/dev/null"));
            // A list that names no transport there is: nothing is fetched behind our back.
            set("GIT_ALLOW_PROTOCOL", OsStr::new("none"));
        }
        env.extend(self.env.iter().cloned());

        let mut command = Command::new(argv, self.work.unwrap_or(self.dir));
        command.env = env;
        command.stdin = self.stdin.clone();
        command.capture.head = self.head;
        command.capture.tail = STDERR;
        command.time = Some(if self.fetch { FETCH_TIME } else { LOCAL_TIME });
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(call: &Call<'_>) -> Vec<String> {
        let env = call.command().env;
        env.into_iter()
            .map(|(name, _)| name.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn of_the_surroundings_only_the_path_is_seen() {
        let dir = Path::new("/x");
        let mut got = names(&Call::new(dir, ["cat-file"]).index(Path::new("/i")));
        got.sort();
        let want = [
            "GIT_ALLOW_PROTOCOL",
            "GIT_ATTR_NOSYSTEM",
            "GIT_CONFIG_GLOBAL",
            "GIT_CONFIG_NOSYSTEM",
            "GIT_DIR",
            "GIT_INDEX_FILE",
            "GIT_NO_LAZY_FETCH",
            "GIT_NO_REPLACE_OBJECTS",
            "GIT_OPTIONAL_LOCKS",
            "GIT_TERMINAL_PROMPT",
            "GIT_WORK_TREE",
            "LC_ALL",
            "PATH",
        ];
        assert_eq!(got, want);
        let got = names(&Call::new(dir, ["fetch"]).fetch());
        let known = |name: &String| {
            want.contains(&name.as_str())
                || FETCH_ENV.contains(&name.as_str())
                || name == "SSH_ASKPASS_REQUIRE"
        };
        assert!(got.iter().all(known), "{got:?}");
        assert!(
            !got.iter().any(|name| name.starts_with("GIT_CONFIG")),
            "{got:?}"
        );
    }
}
