//! One check: its process, and what its end means.

use std::{path::Path, time::Duration};

use ronde_protocol::{
    CheckName,
    access::Level,
    outcome::Exit,
    verdict::{Check, CheckResult, Finding},
};
use ronde_sandbox::{Capture, Command, Finished, Policy, gate};
use tokio::sync::watch;

use crate::{Config, Error, environment, evidence::useful_end};

/// Bytes of a check's output that are kept whole; more is cut off with a word.
const WHOLE: u64 = 256 << 20;
/// Bytes of it that are read for evidence.
const READ: usize = 256 << 10;
/// Bytes of evidence.
const EVIDENCE: usize = 6_000;
/// Codes by which a shell says that it could not run what it was given (POSIX, 2.8.2).
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;

/// The shell that runs checks: `bash`, else `sh`.
pub(crate) fn shell(path: Option<&std::ffi::OsStr>) -> &'static str {
    let has_bash = path.is_some_and(|path| {
        std::env::split_paths(path).any(|folder| folder.join("bash").is_file())
    });
    if has_bash { "bash" } else { "sh" }
}

/// Runs a check as often as it says.
pub(crate) async fn run(
    config: &Config,
    check: &Check,
    folder: &Path,
    stop: &mut watch::Receiver<bool>,
) -> Result<CheckResult, Error> {
    let mut passes = 0;
    let mut runs = 0;
    let mut duration = Duration::ZERO;
    // Of several runs, the last that did not pass is the evidence.
    let mut shown: Option<CheckResult> = None;
    let repeat = check.repeat;
    while runs < repeat.times {
        let result = once(config, check, folder, stop).await?;
        runs += 1;
        duration += Duration::from_millis(result.duration_ms);
        let finding = result.finding;
        if finding == Finding::Pass {
            passes += 1;
        }
        if finding != Finding::Pass || shown.is_none() {
            shown = Some(result);
        }
        // What can neither be reached nor missed any more is decided.
        if finding == Finding::Unknown
            || passes >= repeat.pass
            || passes + (repeat.times - runs) < repeat.pass
        {
            break;
        }
    }
    let mut result =
        shown.ok_or_else(|| Error::Broken(format!("check {} never ran", check.name)))?;
    result.duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if repeat.times > 1 {
        result.passes = Some((passes, runs));
        if result.finding != Finding::Unknown {
            result.finding = if passes >= repeat.pass {
                Finding::Pass
            } else {
                Finding::Fail
            };
        }
    }
    Ok(result)
}

async fn once(
    config: &Config,
    check: &Check,
    folder: &Path,
    stop: &mut watch::Receiver<bool>,
) -> Result<CheckResult, Error> {
    let whole = config.scratch.join("output");
    let env = environment::of_check(check, &config.scratch);
    let path = env
        .iter()
        .find(|(name, _)| name == "PATH")
        .map(|(_, value)| value.as_os_str());
    let command = Command {
        time: Some(Duration::from_millis(check.timeout_ms)),
        capture: Capture {
            head: READ / 4,
            tail: READ,
            whole: Some(whole.clone()),
            whole_limit: WHOLE,
            merge: true,
        },
        policy: policy(config, folder, false),
        ..Command::new([shell(path), "-c", &check.run], folder)
    };
    let done = process(config, Command { env, ..command }, stop).await?;
    let output = match config.artefacts.put_file(&whole).await {
        Ok(id) => Some(id),
        Err(error) => {
            tracing::warn!(check = %check.name, %error, "the whole output of a check is not kept");
            None
        }
    };
    let finding = meaning(&done.exit);
    let mut bytes = done.stdout.tail.clone();
    if done.stdout.total <= u64::try_from(done.stdout.head.len()).unwrap_or(u64::MAX) {
        bytes.clone_from(&done.stdout.head);
    }
    let mut tail = useful_end(&bytes, EVIDENCE);
    if done.stdout.total > WHOLE {
        tail.push_str(&format!(
            "\n[{} bytes of output; the first {WHOLE} are kept]",
            done.stdout.total
        ));
    }
    Ok(CheckResult {
        name: check.name.clone(),
        run: check.run.clone(),
        finding,
        exit: done.exit,
        duration_ms: u64::try_from(done.duration.as_millis()).unwrap_or(u64::MAX),
        tail,
        output,
        passes: None,
    })
}

/// The result of a check that could not be tried, because the setup before it failed.
pub(crate) fn untried(check: &Check, exit: &Exit, tail: &str) -> CheckResult {
    CheckResult {
        name: check.name.clone(),
        run: check.run.clone(),
        finding: Finding::Unknown,
        exit: Exit::NotStarted {
            error: format!("the setup before it: {exit}"),
        },
        duration_ms: 0,
        tail: tail.to_owned(),
        output: None,
        passes: None,
    }
}

/// Runs a process of the verification; a stop ends it and the verification.
pub(crate) async fn process(
    config: &Config,
    command: Command,
    stop: &mut watch::Receiver<bool>,
) -> Result<Finished, Error> {
    let permit = gate::engine(gate::Purpose::Check);
    let running = config
        .spawner
        .start(permit, command)
        .await
        .map_err(|error| Error::Broken(error.to_string()))?;
    let stopper = running.stopper();
    let wait = running.wait();
    tokio::pin!(wait);
    tokio::select! {
        done = &mut wait => Ok(done),
        () = stopped(stop) => {
            stopper.stop();
            // The tree is to be gone before the checkout is.
            wait.await;
            Err(Error::Stopped)
        }
    }
}

/// Resolves when the verification is to stop. A sender that is gone wants nothing judged any more.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _gone = stop.wait_for(|stop| *stop).await.is_err();
}

/// What a process of the verification may do: write its checkout and its scratch folder.
pub(crate) fn policy(config: &Config, folder: &Path, network: bool) -> Policy {
    Policy {
        level: Level::WorkspaceWrite,
        network,
        writable: vec![
            folder.to_owned(),
            config.scratch.join("home"),
            config.scratch.join("tmp"),
        ],
        hidden: config.hidden.clone(),
        ..Policy::unconfined()
    }
}

/// What the end of a check's process means. Only what it says by an exit code of its own is a pass or
/// a fail. 126 and 127 are the shell's words for a program it could not run: a script that ends with
/// one of them by itself is not told apart, and errs towards unknown.
pub(crate) fn meaning(exit: &Exit) -> Finding {
    match exit {
        Exit::Code { code: 0 } => Finding::Pass,
        Exit::Code {
            code: NOT_EXECUTABLE | NOT_FOUND,
        } => Finding::Unknown,
        // A shell says 128 + n of a child that signal n ended: killed from outside says nothing.
        Exit::Code { code } if *code == 128 + 9 || *code == 128 + 15 => Finding::Unknown,
        Exit::Code { .. } => Finding::Fail,
        // A check that crashes has failed; one that was killed or told to end was not heard out.
        Exit::Signal { signal: 9 | 15 } => Finding::Unknown,
        Exit::Signal { .. } => Finding::Fail,
        Exit::TimedOut | Exit::Stopped | Exit::NotStarted { .. } | Exit::Unknown { .. } => {
            Finding::Unknown
        }
    }
}

/// Tells the screen how a check stands.
pub(crate) fn news(config: &Config, name: &CheckName, finding: Option<Finding>) {
    (config.progress)(name.clone(), finding);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_exit_code_of_its_own_says_pass_or_fail() {
        use Finding::{Fail, Pass, Unknown};
        let error = || "e".to_owned();
        let table = [
            (Exit::Code { code: 0 }, Pass),
            (Exit::Code { code: 1 }, Fail),
            (Exit::Code { code: 101 }, Fail),
            (Exit::Code { code: 126 }, Unknown),
            (Exit::Code { code: 127 }, Unknown),
            (Exit::Code { code: 137 }, Unknown),
            (Exit::Signal { signal: 11 }, Fail),
            (Exit::Signal { signal: 9 }, Unknown),
            (Exit::TimedOut, Unknown),
            (Exit::Stopped, Unknown),
            (Exit::NotStarted { error: error() }, Unknown),
            (Exit::Unknown { error: error() }, Unknown),
        ];
        for (exit, want) in table {
            assert_eq!(meaning(&exit), want, "{exit}");
        }
    }
}
