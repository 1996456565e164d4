//! `shell`: a command, through the gate's permit, in the sandbox, with a time limit. Its whole process
//! tree is gone before the result is read.

use std::{
    ffi::OsString,
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use ronde_protocol::{access::Level, outcome::Exit, work::ToolOutcome};
use ronde_sandbox::{Capture, Command, Finished, Limits, Permit, Policy, Stdin};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Bench, Report};
use crate::{cut, port};

/// How long a command may run where it asks for nothing else.
const TIME: u64 = 120;
/// How long it may ask for.
const LONGEST: u64 = 600;
/// Between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// Bytes of the output's beginning and end that the model reads.
const HEAD: usize = 8 * 1024;
const TAIL: usize = 16 * 1024;
/// Bytes of the output that are kept at all.
const WHOLE: u64 = 8 * 1024 * 1024;

pub(super) fn spec() -> (&'static str, Value) {
    (
        "Runs a command with bash in the workspace and waits for its end. The result is its output, \
         standard error included, and its exit code. Every call is a new shell. Background processes \
         are killed when the command ends.",
        json!({
            "type": "object",
            "properties": {
                "command": { "type": "string", "description": "The command, as for `bash -c`." },
                "timeout": { "type": "integer", "minimum": 1, "maximum": LONGEST, "description": "Seconds after which it is killed; 120 if left out." }
            },
            "required": ["command"],
            "additionalProperties": false
        }),
    )
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    command: String,
    timeout: Option<u64>,
}

#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) command: String,
    time: Duration,
}

impl Task {
    pub(super) fn new(input: Input) -> Result<Self, String> {
        if input.command.trim().is_empty() || input.command.contains('\0') {
            return Err("`command` must be a command".to_owned());
        }
        let timeout = input.timeout.unwrap_or(TIME);
        if !(1..=LONGEST).contains(&timeout) {
            return Err(format!("`timeout` must be between 1 and {LONGEST} seconds"));
        }
        Ok(Self {
            command: input.command,
            time: Duration::from_secs(timeout),
        })
    }

    pub(super) fn summary(&self) -> String {
        cut::line(&self.command, 200)
    }

    pub(super) async fn run(self, bench: &Bench, permit: Permit) -> Report {
        let running = match bench.spawner.start(permit, self.build(bench)).await {
            Ok(running) => running,
            Err(error) => return Report::failed(format!("the command did not start: {error}")),
        };
        let stopper = running.stopper();
        let end = running.wait();
        tokio::pin!(end);
        let finished = tokio::select! {
            finished = &mut end => finished,
            () = port::stopped(&bench.stop) => {
                stopper.stop();
                end.await
            }
        };
        let report = self.report(&finished, &bench.spool);
        if let Err(error) = std::fs::remove_file(&bench.spool) {
            tracing::debug!(%error, spool = %bench.spool.display(), "cannot remove the output of a command");
        }
        report
    }

    fn build(&self, bench: &Bench) -> Command {
        let mut env: Vec<(OsString, OsString)> = bench
            .env
            .iter()
            .filter(|(name, _)| name != "TMPDIR")
            .cloned()
            .collect();
        env.push(("TMPDIR".into(), bench.tmp.clone().into()));
        let mut writable = vec![bench.tmp.clone()];
        if bench.access.level != Level::ReadOnly {
            writable.push(bench.root.folder().to_owned());
        }
        Command {
            argv: vec![shell(&env).into(), "-c".into(), self.command.clone().into()],
            cwd: bench.root.folder().to_owned(),
            env,
            stdin: Stdin::Null,
            capture: Capture {
                head: HEAD,
                tail: TAIL,
                whole: Some(bench.spool.clone()),
                whole_limit: WHOLE,
                merge: true,
            },
            time: Some(self.time),
            grace: GRACE,
            policy: Policy {
                level: bench.access.level,
                network: bench.access.network,
                writable,
                hidden: bench.hidden.clone(),
                limits: Limits::default(),
            },
        }
    }

    fn report(&self, finished: &Finished, spool: &Path) -> Report {
        let mut text = finished.stdout.text();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let (outcome, end) = match &finished.exit {
            Exit::Code { code: 0 } if text.is_empty() => {
                (ToolOutcome::Done, "no output, exit code 0".to_owned())
            }
            Exit::Code { code: 0 } => (ToolOutcome::Done, "exit code 0".to_owned()),
            Exit::TimedOut => (
                ToolOutcome::Failed,
                format!(
                    "killed after {} seconds; `timeout` can be up to {LONGEST}",
                    self.time.as_secs()
                ),
            ),
            Exit::Unknown { .. } => (ToolOutcome::Unknown, finished.exit.to_string()),
            exit => (ToolOutcome::Failed, exit.to_string()),
        };
        text.push_str(&format!("[{end}]"));
        let left_out = finished.stdout.total > (HEAD + TAIL) as u64;
        Report {
            outcome,
            text,
            whole: left_out.then(|| whole(spool)).flatten(),
        }
    }
}

/// The output as it was kept.
fn whole(spool: &Path) -> Option<Vec<u8>> {
    let read = || {
        let mut bytes = Vec::new();
        std::fs::File::open(spool)?
            .take(WHOLE)
            .read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes)
    };
    read()
        .inspect_err(|error| tracing::warn!(%error, spool = %spool.display(), "cannot read the output of a command"))
        .ok()
}

/// bash where the command's own `PATH` has it, else sh.
fn shell(env: &[(OsString, OsString)]) -> &'static str {
    let path = env
        .iter()
        .find(|(name, _)| name == "PATH")
        .map(|(_, value)| value.as_os_str());
    let has = |folder: PathBuf| {
        let meta = folder.join("bash").metadata();
        meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    let path = path.unwrap_or("/usr/bin:/bin".as_ref());
    if std::env::split_paths(path).any(has) {
        "bash"
    } else {
        "sh"
    }
}
