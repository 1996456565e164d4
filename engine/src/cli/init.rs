//! `ronde init`

use std::{
    io::{IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::builder::{PossibleValue, PossibleValuesParser};
use ronde_loops::template::Context;

use super::Ending;
use crate::handle::{Refusal, RefusalKind};

/// Write a first loop into `.ronde/loops`, ready to be edited
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The project
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Which template to begin with
    #[arg(long, short, default_value = "nightly-green", value_parser = templates())]
    template: String,
    /// The check's command line; guessed from the project where none is given
    #[arg(long)]
    check: Option<String>,
    /// The loop's name, and that of its file; the template's own name where none is given
    #[arg(long)]
    name: Option<String>,
}

/// The templates, each with what it is for.
fn templates() -> PossibleValuesParser {
    PossibleValuesParser::new(
        ronde_loops::template::names().map(|(name, about)| PossibleValue::new(name).help(about)),
    )
}

/// The command that runs a project's tests, by the file its kind of project has.
fn guess(dir: &Path) -> &'static str {
    let kinds = [
        ("Cargo.toml", "cargo test --workspace"),
        ("go.mod", "go test ./..."),
        ("package.json", "npm test"),
        ("pyproject.toml", "python -m pytest"),
        ("setup.py", "python -m pytest"),
        ("gradlew", "./gradlew test"),
        ("pom.xml", "mvn -q test"),
        ("mix.exs", "mix test"),
    ];
    kinds
        .iter()
        .find(|(file, _)| dir.join(file).is_file())
        .map_or("make test", |(_, check)| check)
}

pub(crate) fn init(args: &Args) -> Ending {
    let failed = |path: &Path, error: std::io::Error| {
        Refusal::new(
            RefusalKind::Failed,
            format!("cannot write {}: {error}", path.display()),
        )
    };
    let name = args.name.as_deref().unwrap_or(&args.template);
    let name = ronde_protocol::LoopName::new(name)
        .map_err(|error| Refusal::new(RefusalKind::Invalid, error.to_string()))?;
    let context = Context {
        name: name.to_string(),
        check: args
            .check
            .clone()
            .unwrap_or_else(|| guess(&args.dir).to_owned()),
    };
    let text = ronde_loops::template::render(&args.template, &context).ok_or_else(|| {
        Refusal::new(
            RefusalKind::Invalid,
            format!("there is no template `{}`", args.template),
        )
    })?;
    let folder = args.dir.join(".ronde/loops");
    std::fs::create_dir_all(&folder).map_err(|error| failed(&folder, error))?;
    let file = folder.join(format!("{name}.toml"));
    let mut options = std::fs::OpenOptions::new();
    match options.write(true).create_new(true).open(&file) {
        Ok(mut open) => open
            .write_all(text.as_bytes())
            .map_err(|error| failed(&file, error))?,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(Refusal::new(
                RefusalKind::Conflict,
                format!("{} is there already", file.display()),
            )
            .hint("give the new loop a name of its own: --name"));
        }
        Err(error) => return Err(failed(&file, error)),
    }
    say!("wrote {}", file.display());
    if std::io::stdout().is_terminal() {
        let file = file.display();
        say!("edit it, then:\n  ronde validate {file}\n  ronde run {file}");
    }
    Ok(ExitCode::SUCCESS)
}
