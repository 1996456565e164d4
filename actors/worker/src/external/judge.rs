//! From how a program ended and what it printed to the end of its attempt. It reads the files the program
//! left, and starts and stops nothing.

use std::{fs::File, io::Read as _, os::unix::fs::OpenOptionsExt as _, path::Path};

use ronde_protocol::{
    outcome::{Exit, Limit},
    work::{AttemptEnd, EndReason},
};
use ronde_sandbox::Finished;
use serde_json::Value;

use super::last;
use crate::{
    TimeLimit,
    lines::{self, Lines},
    preset::{Preset, Said, Trouble},
};

/// Bytes of last words and of the evidence of a failure.
const WORDS: usize = 4 * 1024;
/// Bytes of a question.
const QUESTION: u64 = 16 * 1024;

/// What it all came to.
pub(super) fn judge(
    finished: &Finished,
    preset: Option<Preset>,
    time: Option<TimeLimit>,
    output: &Path,
    question: &Path,
) -> AttemptEnd {
    let said = preset.map(|preset| read(preset, finished, output));
    let reason = reason(finished, said.as_ref(), preset, time, || asked(question));
    let claim = match &said {
        Some(said) => last(said.claim.trim(), WORDS),
        None => finished.stdout.tail_text(WORDS).trim().to_owned(),
    };
    let (iterations, usage) =
        said.map_or_else(Default::default, |said| (said.iterations, said.usage));
    AttemptEnd {
        reason,
        claim,
        iterations,
        usage,
        metered: false,
        exit: Some(finished.exit.clone()),
        output: None,
    }
}

fn reason(
    finished: &Finished,
    said: Option<&Said>,
    preset: Option<Preset>,
    time: Option<TimeLimit>,
    asked: impl FnOnce() -> Option<String>,
) -> EndReason {
    let failed = |error: String| EndReason::Failed { error };
    match &finished.exit {
        Exit::NotStarted { error } => {
            return EndReason::Unstartable {
                error: error.clone(),
            };
        }
        Exit::Unknown { error } => {
            return EndReason::Unknown {
                error: error.clone(),
            };
        }
        Exit::Stopped => return EndReason::Stopped,
        Exit::TimedOut => {
            return match time {
                Some(TimeLimit::Attempt(limit)) => {
                    failed(format!("it took longer than {} seconds", limit.as_secs()))
                }
                _ => EndReason::Limit { limit: Limit::Time },
            };
        }
        Exit::Code { .. } | Exit::Signal { .. } => {}
    }
    if let Some(text) = asked() {
        return EndReason::Question { text };
    }
    match (said.map(|said| &said.end), finished.exit.success()) {
        (None | Some(Ok(())), true) => EndReason::Finished,
        (Some(Err(Trouble::Limit(limit))), _) => EndReason::Limit { limit: *limit },
        (Some(Err(Trouble::Failed(error))), _) => {
            let name = preset.map_or("it", Preset::name);
            failed(evidence(
                finished,
                &format!("{name}: {}", last(error, WORDS)),
            ))
        }
        (None | Some(Ok(())), false) => failed(evidence(finished, "")),
    }
}

/// How a program failed: its error, its exit, and the end of what it printed.
fn evidence(finished: &Finished, error: &str) -> String {
    let mut parts = vec![error.to_owned(), finished.exit.to_string()];
    parts.retain(|part| !part.is_empty());
    let tail = if finished.stderr.total > 0 {
        &finished.stderr
    } else {
        &finished.stdout
    };
    let tail = tail.tail_text(WORDS);
    if (error.is_empty() || finished.stderr.total > 0) && !tail.trim().is_empty() {
        parts.push(format!("its output ended:\n{}", tail.trim()));
    }
    parts.join("; ")
}

/// Reads a preset's stream from the file it went to, and its end from memory where the file was full.
fn read(preset: Preset, finished: &Finished, output: &Path) -> Said {
    let mut reader = preset.reader();
    let mut take = |line: &[u8]| {
        // Programs print other things among their JSON now and then.
        if let Ok(line) = serde_json::from_slice::<Value>(line) {
            reader.line(&line);
        }
    };
    let mut lines = Lines::new(lines::LONGEST);
    let mut buffer = vec![0; 64 * 1024];
    let mut seen = 0;
    match File::open(output) {
        Ok(mut file) => {
            while let Ok(n @ 1..) = file.read(&mut buffer) {
                seen += n as u64;
                lines.push(&buffer[..n], &mut take);
            }
        }
        Err(error) => {
            tracing::warn!(%error, output = %output.display(), "cannot read back an output")
        }
    }
    let tail = &finished.stdout.tail;
    let tail_from = finished.stdout.total.saturating_sub(tail.len() as u64);
    if seen < tail_from {
        // Something between is lost, and with it the line that reaches into the tail.
        lines = Lines::mid_line(lines::LONGEST);
        seen = tail_from;
    }
    let unseen = usize::try_from(seen - tail_from)
        .unwrap_or(usize::MAX)
        .min(tail.len());
    lines.push(&tail[unseen..], &mut take);
    lines.finish(&mut take);
    reader.said()
}

/// The question the program left. The file was in its hands: a link, a pipe or a folder is none.
fn asked(path: &Path) -> Option<String> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = File::options()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(QUESTION).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    (!text.is_empty()).then_some(text)
}
