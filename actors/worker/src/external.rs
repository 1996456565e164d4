//! An agent that is a program: started in the sandbox with the prompt on stdin, watched, and read. What
//! it says about itself is a claim; how it ended is a fact.

mod judge;

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::Arc,
    time::Duration,
};

use ronde_protocol::{
    access::Level,
    work::{AttemptEnd, EndReason, Progress},
};
use ronde_sandbox::{
    Capture, Command, Limits, Policy, Spawner, Stdin, env_allow,
    gate::{self, Purpose},
};
use tokio::sync::{mpsc, watch};

use crate::{
    QUESTION_FILE, Request, TimeLimit,
    actor::{end, stopped},
    lines::Lines,
    preset::{self, Launch, Preset, Reader, Setting},
};

/// Bytes of output that are kept.
const WHOLE: u64 = 256 * 1024 * 1024;
/// Bytes of the output's end that are kept in memory: enough for the line that tells the result.
const TAIL: usize = 1024 * 1024;
/// Bytes of one piece of news.
const NEWS: usize = 4 * 1024;
/// Between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// What an argument holds where it wants the prompt as a file.
const PROMPT_FILE: &str = "{prompt_file}";

/// What is run.
pub(crate) enum Program {
    /// Any command.
    Command(Vec<String>),
    /// A known agent, with its model.
    Preset(Preset, Option<String>),
}

impl Program {
    fn preset(&self) -> Option<Preset> {
        match self {
            Self::Command(_) => None,
            Self::Preset(preset, _) => Some(*preset),
        }
    }
}

pub(crate) async fn run(
    request: Request,
    program: Program,
    spawner: Spawner,
    mut stop: watch::Receiver<bool>,
    progress: Arc<dyn Fn(Progress) + Send + Sync>,
) -> AttemptEnd {
    let question = request.tmp.join("ronde-question");
    let command = match command(&request, &program, &question) {
        Ok(command) => command,
        Err(error) => return end(EndReason::Unstartable { error }),
    };
    let mut running = match spawner.start(gate::engine(Purpose::Worker), command).await {
        Ok(running) => running,
        Err(error) => {
            return end(EndReason::Unstartable {
                error: error.to_string(),
            });
        }
    };
    let news = running.take_output().map(|live| {
        let reader = program.preset().map(Preset::reader);
        tokio::spawn(tell(live, reader, Arc::clone(&progress)))
    });
    let stopper = running.stopper();
    let ending = running.wait();
    tokio::pin!(ending);
    let finished = tokio::select! {
        finished = &mut ending => finished,
        () = stopped(&mut stop) => {
            stopper.stop();
            ending.await
        }
    };
    if let Some(news) = news {
        // What broke in telling the news is no matter of the attempt.
        let _told = news.await;
    }
    let total = finished.stdout.total;
    progress(Progress::Output { bytes: total });
    let (time, output, preset) = (request.time, request.output, program.preset());
    let judged = tokio::task::spawn_blocking(move || {
        judge::judge(&finished, preset, time, &output, &question)
    });
    judged.await.unwrap_or_else(|error| {
        end(EndReason::Unknown {
            error: format!("its output could not be read: {error}"),
        })
    })
}

/// The command, and the files it needs.
fn command(request: &Request, program: &Program, question: &Path) -> Result<Command, String> {
    let mut env = request.env.clone();
    if let Some(preset) = program.preset() {
        let names: Vec<String> = preset
            .variables()
            .iter()
            .map(|&name| name.to_owned())
            .collect();
        for (name, value) in env_allow(&names, &[]) {
            if !env.iter().any(|(other, _)| *other == name) {
                env.push((name, value));
            }
        }
    }
    let mut set = |name: &str, value: OsString| {
        env.retain(|(other, _)| other != name);
        env.push((name.into(), value));
    };
    set("TMPDIR", request.tmp.clone().into());
    set(QUESTION_FILE, question.to_owned().into());
    clear(question)?;
    let mut writable = vec![request.tmp.clone()];
    if request.access.level != Level::ReadOnly {
        writable.push(request.folder.clone());
    }
    let (argv, prompt) = match program {
        Program::Command(argv) => (with_prompt_file(argv, request)?, request.prompt.clone()),
        Program::Preset(preset, model) => {
            let setting = Setting {
                model: model.as_deref(),
                level: request.access.level,
                iterations: request.iterations,
                env: &env,
            };
            let Launch {
                argv,
                env: more,
                state,
                state_files,
            } = preset.launch(&setting);
            for (name, value) in more {
                env.retain(|(other, _)| other != name);
                env.push((name.into(), value.into()));
            }
            for folder in state {
                fs::create_dir_all(&folder).map_err(|error| {
                    let (name, folder) = (preset.name(), folder.display());
                    format!("{name} keeps its state in {folder}, which cannot be made: {error}")
                })?;
                writable.push(folder);
            }
            writable.extend(state_files.into_iter().filter(|file| file.exists()));
            (argv, request.prompt.clone() + preset::QUESTIONS)
        }
    };
    let is_preset = program.preset().is_some();
    Ok(Command {
        argv,
        cwd: request.folder.clone(),
        env,
        stdin: Stdin::Bytes(prompt.into_bytes()),
        capture: Capture {
            head: 0,
            tail: if is_preset { TAIL } else { 64 * 1024 },
            whole: Some(request.output.clone()),
            whole_limit: WHOLE,
            // The JSON of a preset stands alone on its standard output.
            merge: !is_preset,
        },
        time: request.time.map(TimeLimit::duration),
        grace: GRACE,
        policy: Policy {
            level: request.access.level,
            network: request.access.network,
            writable,
            hidden: request.hidden.clone(),
            limits: Limits::default(),
        },
    })
}

/// The arguments, with the prompt written to a file of its own where one of them asks for it.
fn with_prompt_file(argv: &[String], request: &Request) -> Result<Vec<OsString>, String> {
    if argv.is_empty() {
        return Err("the worker's command is empty".to_owned());
    }
    if !argv.iter().any(|arg| arg.contains(PROMPT_FILE)) {
        return Ok(argv.iter().map(Into::into).collect());
    }
    let path = request.tmp.join("ronde-prompt.md");
    clear(&path)?;
    let written = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .and_then(|mut file| file.write_all(request.prompt.as_bytes()));
    written.map_err(|error| format!("cannot write the prompt to {}: {error}", path.display()))?;
    let shown = path.to_str().ok_or_else(|| {
        format!(
            "the path of the prompt file, {}, is not UTF-8",
            path.display()
        )
    })?;
    Ok(argv
        .iter()
        .map(|arg| arg.replace(PROMPT_FILE, shown).into())
        .collect())
}

/// Removes what an earlier attempt may have left at this path, a link included.
fn clear(path: &Path) -> Result<(), String> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Passes on what the program says while it runs. Some of it may be missing; the end is read from the
/// file.
async fn tell(
    mut live: mpsc::Receiver<Vec<u8>>,
    mut reader: Option<Box<dyn Reader>>,
    progress: Arc<dyn Fn(Progress) + Send + Sync>,
) {
    let mut lines = Lines::new(NEWS * 16);
    let mut bytes = 0;
    while let Some(chunk) = live.recv().await {
        bytes += chunk.len() as u64;
        match &mut reader {
            None => {
                let from = chunk.len().saturating_sub(NEWS);
                let text = String::from_utf8_lossy(&chunk[from..]).into_owned();
                progress(Progress::Text { text });
            }
            Some(reader) => lines.push(&chunk, |line| {
                let words = serde_json::from_slice(line)
                    .ok()
                    .and_then(|line| reader.line(&line));
                if let Some(words) = words {
                    progress(Progress::Text {
                        text: last(&words, NEWS),
                    });
                }
            }),
        }
        progress(Progress::Output { bytes });
    }
}

/// The last bytes of a text.
fn last(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    format!("…{}", &text[text.ceil_char_boundary(text.len() - max)..])
}
