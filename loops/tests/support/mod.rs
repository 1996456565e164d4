//! What the tests share: the sample files, and judges of the texts whose meaning lies outside.

use std::{fs, path::Path};

use ronde_loops::{Refusal, Validators};

/// Refuses one text of each kind, with a place inside it.
pub(crate) struct Outside;

impl Validators for Outside {
    fn cron(&self, text: &str) -> Result<(), Refusal> {
        match text.find("25") {
            Some(at) => Err(Refusal {
                message: "in the hour field: `25` is out of range".to_owned(),
                hint: Some("the hour is 0 to 23".to_owned()),
                span: Some(at..at + 2),
            }),
            None => Ok(()),
        }
    }

    fn zone(&self, name: &str) -> Result<(), Refusal> {
        match name {
            "Europe/Paris" => Ok(()),
            _ => Err(Refusal::new(format!("unknown time zone `{name}`"))
                .hint("did you mean `Europe/Paris`?")),
        }
    }

    fn rule(&self, pattern: &str) -> Result<(), Refusal> {
        if pattern.ends_with(')') {
            Ok(())
        } else {
            Err(Refusal::new(format!("pattern `{pattern}` has no end")).hint("add `)`"))
        }
    }

    fn glob(&self, pattern: &str) -> Result<(), Refusal> {
        match pattern.find('[') {
            Some(at) if !pattern.contains(']') => Err(Refusal {
                message: format!("pattern `{pattern}` has an open `[`"),
                hint: Some("add `]`".to_owned()),
                span: Some(at..pattern.len()),
            }),
            _ => Ok(()),
        }
    }

    fn notify(&self, name: &str) -> Result<(), Refusal> {
        match name {
            "slack" => Ok(()),
            _ => Err(Refusal::new(format!("no notification `{name}`"))
                .hint("known: `slack`; see .ronde/config.toml")),
        }
    }
}

/// Name and bytes of each file of a folder of samples, by name.
pub(crate) fn files(folder: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(folder);
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(&folder)
        .expect("the folder of samples")
        .map(|entry| {
            let path = entry.expect("a sample").path();
            let name = path
                .file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            (name, fs::read(&path).expect("a sample can be read"))
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} holds samples", folder.display());
    files
}
