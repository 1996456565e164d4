//! `ronde completions`

use std::process::ExitCode;

use clap::CommandFactory as _;

use super::{Cli, Ending};

/// Print a completion script for a shell
///
/// For example: `ronde completions bash > ~/.local/share/bash-completion/completions/ronde`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

pub(crate) fn completions(args: &Args) -> Ending {
    clap_complete::generate(
        args.shell,
        &mut Cli::command(),
        "ronde",
        &mut std::io::stdout(),
    );
    Ok(ExitCode::SUCCESS)
}
