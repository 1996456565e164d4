//! The command line: one file a verb, whose doc comment is its help.

/// Prints a line on stdout. Who has stopped reading (`ronde runs | head`) has what it wants: what is
/// written after that is nobody's loss, least of all a run's.
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _closed = writeln!(anstream::stdout(), $($words)*);
    }};
}

mod answer;
mod completions;
mod connect;
mod doctor;
mod inbox;
mod init;
mod list;
mod logs;
mod plan;
mod resume;
mod run;
mod schema;
mod screen;
mod serve;
mod show;
mod status;
mod stop;
mod validate;
mod watch;

pub(crate) use screen::took;

use std::{
    io::IsTerminal as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use owo_colors::{OwoColorize as _, Style};
use ronde_protocol::Timestamp;
use ronde_state::local::LocalReader;

use crate::{
    frozen::Unusable,
    handle::{Refusal, RefusalKind},
    home,
};

/// Runs loops: agent work that starts by itself, works until a machine can say it is done, never
/// passes its budget, and hands what it cannot finish to a person.
///
/// Exit codes: 0 done; 1 any other failure; 2 usage or an invalid file; 20 handed off to a person;
/// 21 stopped by a limit; 22 cancelled or interrupted.
#[derive(Debug, Parser)]
#[command(
    name = "ronde",
    version,
    propagate_version = true,
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Init(init::Args),
    Validate(validate::Args),
    Schema(schema::Args),
    Plan(plan::Args),
    Run(run::Args),
    Continue(resume::Args),
    Serve(serve::Args),
    Status(status::Args),
    Runs(list::Args),
    Show(show::Args),
    Logs(logs::Args),
    Inbox(inbox::Args),
    Answer(answer::AnswerArgs),
    Approve(answer::ApproveArgs),
    Deny(answer::DenyArgs),
    Close(answer::CloseArgs),
    Stop(stop::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
}

/// How a verb ends: an exit code, or a refusal that is printed.
type Ending = Result<ExitCode, Refusal>;

/// Reads the command line and does what it says.
pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    log();
    let ending = match cli.verb {
        Verb::Init(args) => init::init(&args),
        Verb::Validate(args) => validate::validate(&args),
        Verb::Schema(args) => schema::schema(&args),
        Verb::Plan(args) => plan::plan(&args),
        Verb::Run(args) => asynchronous(run::run(args)),
        Verb::Continue(args) => asynchronous(resume::resume(args)),
        Verb::Serve(args) => asynchronous(serve::serve(args)),
        Verb::Status(args) => asynchronous(status::status(args)),
        Verb::Runs(args) => list::list(&args),
        Verb::Show(args) => show::show(&args),
        Verb::Logs(args) => asynchronous(logs::logs(args)),
        Verb::Inbox(args) => inbox::inbox(&args),
        Verb::Answer(args) => asynchronous(answer::answer(args)),
        Verb::Approve(args) => asynchronous(answer::approve(args)),
        Verb::Deny(args) => asynchronous(answer::deny(args)),
        Verb::Close(args) => asynchronous(answer::close(args)),
        Verb::Stop(args) => asynchronous(stop::stop(args)),
        Verb::Doctor(args) => doctor::doctor(&args),
        Verb::Completions(args) => completions::completions(&args),
    };
    ending.unwrap_or_else(|refusal| complain(&refusal))
}

/// Prints a refusal, and gives its exit code.
fn complain(refusal: &Refusal) -> ExitCode {
    anstream::eprintln!(
        "{} {}",
        "error:".style(Style::new().red().bold()),
        refusal.message
    );
    if let Some(hint) = &refusal.hint {
        anstream::eprintln!("  hint: {hint}");
    }
    ExitCode::from(match refusal.kind {
        RefusalKind::Invalid => 2,
        RefusalKind::Missing | RefusalKind::Conflict | RefusalKind::Failed => 1,
    })
}

/// Runs a verb that talks to others. The runtime is not made for those that only read files.
fn asynchronous(verb: impl Future<Output = Ending>) -> Ending {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Refusal::new(RefusalKind::Failed, format!("no runtime: {error}")))?;
    let ending = runtime.block_on(verb);
    // Tasks that still wait for something wait for nothing we need.
    runtime.shutdown_background();
    ending
}

/// What goes wrong inside is said on stderr; `RONDE_LOG` says how much (`warn` by default).
fn log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("RONDE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colours(std::io::stderr().is_terminal()))
        .with_target(false)
        .init();
}

/// Whether colours are wanted: a terminal, and no `NO_COLOR`.
fn colours(terminal: bool) -> bool {
    terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// A loop file from what was typed: a file, a folder's `loop.toml`, or the name of a loop in
/// `.ronde/loops` of this folder or one above.
fn loop_file(typed: &Path) -> Result<PathBuf, Refusal> {
    if typed.is_file() {
        return Ok(typed.to_owned());
    }
    if typed.is_dir() && typed.join("loop.toml").is_file() {
        return Ok(typed.join("loop.toml"));
    }
    let here = std::env::current_dir().map_err(|error| {
        Refusal::new(RefusalKind::Failed, format!("the current folder: {error}"))
    })?;
    let name = typed
        .to_str()
        .filter(|name| ronde_protocol::LoopName::new(name).is_ok());
    name.and_then(|name| {
        here.ancestors()
            .map(|folder| folder.join(".ronde/loops").join(format!("{name}.toml")))
            .find(|file| file.is_file())
    })
    .ok_or_else(|| {
        Refusal::new(
            RefusalKind::Invalid,
            format!("there is no loop file {}", typed.display()),
        )
        .hint("name a loop file, or a loop of `.ronde/loops`; `ronde init` writes one")
    })
}

/// Prints what is wrong with a loop file, and gives the exit code for it.
fn fail_with(error: Unusable, json: bool) -> Ending {
    match error {
        Unusable::Text(_) => {
            print_unusable(Path::new(""), &error, json);
            Ok(ExitCode::from(2))
        }
        Unusable::Other(refusal) => Err(refusal),
    }
}

/// Prints all that is wrong with a loop file.
fn print_unusable(file: &Path, error: &Unusable, json: bool) {
    match error {
        Unusable::Text(errors) if json => {
            let file = errors.0.first().map_or(file, |error| &error.file);
            let line = serde_json::json!({"file": file, "valid": false, "errors": errors});
            say!("{line}");
        }
        Unusable::Text(errors) => {
            anstream::eprint!(
                "{}",
                errors.render(colours(std::io::stderr().is_terminal()))
            );
            let count = errors.0.len();
            anstream::eprintln!("{count} {}", if count == 1 { "error" } else { "errors" });
        }
        Unusable::Other(refusal) if json => {
            let error =
                serde_json::json!({"file": file, "message": refusal.message, "hint": refusal.hint});
            say!(
                "{}",
                serde_json::json!({"file": file, "valid": false, "errors": [error]})
            );
        }
        Unusable::Other(refusal) => {
            complain(refusal);
        }
    }
}

/// The home, to be read beside whoever owns it; none where there is none yet.
fn reader() -> Result<Option<LocalReader>, Refusal> {
    let home = home::home().map_err(|error| Refusal::new(RefusalKind::Failed, error))?;
    match home.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        _ => Ok(Some(LocalReader::open(&home)?)),
    }
}

/// An instant for people, in a zone or the machine's own.
fn local_time(at: Timestamp, zone: Option<&str>) -> String {
    let zone = zone
        .and_then(|name| ronde_trigger::zone(name).ok())
        .unwrap_or_else(ronde_trigger::zone::local);
    at.to_zoned_datetime(zone)
        .strftime("%a %Y-%m-%d %H:%M:%S %Z")
        .to_string()
}
