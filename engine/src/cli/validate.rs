//! `ronde validate`

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode};

use super::{Ending, print_unusable};
use crate::frozen::Frozen;

/// Check loop files: all errors at once, offline, without any effect
///
/// Without a file, every file of `.ronde/loops` here is checked, and that no two loops have one name.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The loop files
    files: Vec<PathBuf>,
    /// Print one JSON object a file: `file`, `valid`, `errors`
    #[arg(long)]
    json: bool,
}

pub(crate) fn validate(args: &Args) -> Ending {
    let files = if args.files.is_empty() {
        crate::project::loop_files(std::path::Path::new("."))?
    } else {
        args.files
            .iter()
            .map(|file| super::loop_file(file))
            .collect::<Result<_, _>>()?
    };
    let mut valid = true;
    let mut names: BTreeMap<_, PathBuf> = BTreeMap::new();
    for file in files {
        match Frozen::read(&file) {
            Ok(frozen) => {
                let key = (frozen.project(), frozen.definition.name.clone());
                if let Some(first) = names.insert(key, file.clone()) {
                    valid = false;
                    let name = &frozen.definition.name;
                    let error = format!(
                        "a loop named `{name}` is defined in {} already",
                        first.display()
                    );
                    if args.json {
                        let line = serde_json::json!({"file": file, "valid": false, "errors": [{"file": file, "message": error}]});
                        say!("{line}");
                    } else {
                        anstream::eprintln!("{}: {error}", file.display());
                    }
                } else if args.json {
                    let line = serde_json::json!({"file": file, "valid": true, "loop": frozen.definition.name, "errors": []});
                    say!("{line}");
                } else {
                    say!("{}: valid", file.display());
                }
            }
            Err(error) => {
                valid = false;
                print_unusable(&file, &error, args.json);
            }
        }
    }
    Ok(if valid {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(2)
    })
}
