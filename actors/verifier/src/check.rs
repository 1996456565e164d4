//! One check: its process, and what its end means.

use std::{ffi::OsString, path::Path, sync::Arc, time::Duration};

use ronde_protocol::{
    CheckName,
    access::Level,
    outcome::Exit,
    verdict::{Check, CheckResult, Finding},
};
use ronde_sandbox::{Capture, Command, Finished, Policy, Whole, gate};
use tokio::sync::watch;

use crate::{Config, Error, environment, evidence::useful_end, guard::Guard, scratch};

/// Bytes of a check's output that are kept whole; more is cut off with a word.
const WHOLE: u64 = 256 << 20;
/// Bytes of its end that are read for evidence.
const READ: usize = 256 << 10;
/// Bytes of evidence.
const EVIDENCE: usize = 6_000;
/// Codes by which a shell says that it could not run what it was given (POSIX, 2.8.2).
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;

/// The shell that runs checks: `bash`, else `sh`, by the `PATH` it is run with.
pub(crate) fn shell(env: &[(OsString, OsString)]) -> &'static str {
    let path = env.iter().find(|(name, _)| name == "PATH");
    let has_bash = path.is_some_and(|(_, path)| {
        std::env::split_paths(path).any(|folder| folder.join("bash").is_file())
    });
    if has_bash { "bash" } else { "sh" }
}

/// Runs a check as often as it says, each time on what the guard put back.
pub(crate) async fn run(
    config: &Config,
    check: &Check,
    folder: &Path,
    guard: &Arc<Guard>,
    stop: &mut watch::Receiver<bool>,
) -> Result<CheckResult, Error> {
    let mut passes = 0;
    let mut runs = 0;
    let mut duration = Duration::ZERO;
    // Of several runs, the last that did not pass is the evidence.
    let mut shown: Option<CheckResult> = None;
    let repeat = check.repeat;
    while runs < repeat.times {
        Guard::restore(guard, check).await?;
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
    let command = Command {
        time: Some(Duration::from_millis(check.timeout_ms)),
        capture: Capture {
            head: 0,
            tail: READ,
            whole: Some(whole.clone()),
            whole_limit: WHOLE,
            merge: true,
        },
        policy: policy(config, folder, false),
        ..Command::new([shell(&env), "-c", &check.run], folder)
    };
    let done = process(
        config,
        gate::Purpose::Check,
        Command { env, ..command },
        stop,
    )
    .await?;
    let output = match config.artefacts.put_file(&whole).await {
        Ok(id) => Some(id),
        Err(error) => {
            tracing::warn!(check = %check.name, %error, "the whole output of a check is not kept");
            None
        }
    };
    let finding = meaning(&done.exit);
    let mut tail = useful_end(&done.stdout.tail, EVIDENCE);
    if let Some(note) = done
        .whole
        .as_ref()
        .and_then(|whole| not_whole(whole, done.stdout.total))
    {
        tail.push_str(&note);
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

/// A word about output that is not kept whole.
fn not_whole(whole: &Whole, total: u64) -> Option<String> {
    let why = match &whole.error {
        Some(error) => format!(": {error}"),
        None => String::new(),
    };
    let written = whole.written;
    (written < total)
        .then(|| format!("\n[{total} bytes of output; the first {written} are kept{why}]"))
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

/// Runs a process of the verification; a stop ends it and the verification. Nothing of its tree is
/// left when this returns.
pub(crate) async fn process(
    config: &Config,
    purpose: gate::Purpose,
    command: Command,
    stop: &mut watch::Receiver<bool>,
) -> Result<Finished, Error> {
    let permit = gate::engine(purpose);
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
            scratch::home(&config.scratch),
            scratch::tmp(&config.scratch),
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
            (Exit::Code { code: 143 }, Unknown),
            (Exit::Code { code: 130 }, Fail),
            (Exit::Signal { signal: 11 }, Fail),
            (Exit::Signal { signal: 9 }, Unknown),
            (Exit::Signal { signal: 15 }, Unknown),
            (Exit::TimedOut, Unknown),
            (Exit::Stopped, Unknown),
            (Exit::NotStarted { error: error() }, Unknown),
            (Exit::Unknown { error: error() }, Unknown),
        ];
        for (exit, want) in table {
            assert_eq!(meaning(&exit), want, "{exit}");
        }
    }

    #[test]
    fn output_that_is_not_kept_whole_is_told() {
        let whole = |written, error: Option<&str>| Whole {
            written,
            error: error.map(str::to_owned),
        };
        assert_eq!(not_whole(&whole(7, None), 7), None);
        assert_eq!(
            not_whole(&whole(5, None), 7).as_deref(),
            Some("\n[7 bytes of output; the first 5 are kept]")
        );
        assert_eq!(
            not_whole(&whole(0, Some("no space left")), 7).as_deref(),
            Some("\n[7 bytes of output; the first 0 are kept: no space left]")
        );
    }
}
