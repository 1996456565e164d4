//! `ronde schema`

use std::process::ExitCode;

use super::Ending;

/// Print the JSON Schema of the loop file, for editors
///
/// With taplo or the "Even Better TOML" extension: save it, and begin a loop file with
/// `#:schema ./loop.schema.json`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print that of `.ronde/config.toml` instead
    #[arg(long)]
    config: bool,
}

pub(crate) fn schema(args: &Args) -> Ending {
    let schema = if args.config {
        ronde_loops::config_schema()
    } else {
        ronde_loops::schema()
    };
    say!("{schema:#}");
    Ok(ExitCode::SUCCESS)
}
