//! `ronde completions`

use std::{io::Write as _, process::ExitCode};

use clap::CommandFactory as _;

use super::{Cli, Ending};
use crate::handle::{Refusal, RefusalKind};

/// Print a completion script for a shell
///
/// For example: `ronde completions bash > ~/.local/share/bash-completion/completions/ronde`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

pub(crate) fn completions(args: &Args) -> Ending {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ronde", &mut script);
    match std::io::stdout().write_all(&script) {
        // Who reads only the beginning has what it wants.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Refusal::new(RefusalKind::Failed, error.to_string()))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
