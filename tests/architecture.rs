//! The import table of `docs/architecture.md`, held against `cargo metadata`.

use std::collections::BTreeMap;

use cargo_metadata::{DependencyKind, MetadataCommand};

/// Which of our crates each may import.
const TABLE: &[(&str, &[&str])] = &[
    ("ronde-protocol", &[]),
    ("ronde-loops", &["ronde-protocol"]),
    ("ronde-state", &["ronde-protocol"]),
    ("ronde-net", &[]),
    ("ronde-model", &["ronde-protocol", "ronde-net"]),
    ("ronde-sandbox", &["ronde-protocol"]),
    ("ronde-workspace", &["ronde-protocol", "ronde-sandbox"]),
    (
        "ronde-turn",
        &[
            "ronde-protocol",
            "ronde-model",
            "ronde-sandbox",
            "ronde-workspace",
            "ronde-net",
        ],
    ),
    ("ronde-trigger", &["ronde-protocol"]),
    ("ronde-budget", &["ronde-protocol"]),
    ("ronde-handoff", &["ronde-protocol"]),
    (
        "ronde-worker",
        &[
            "ronde-protocol",
            "ronde-turn",
            "ronde-model",
            "ronde-sandbox",
            "ronde-workspace",
        ],
    ),
    (
        "ronde-verifier",
        &[
            "ronde-protocol",
            "ronde-sandbox",
            "ronde-workspace",
            "ronde-net",
            "ronde-turn",
            "ronde-model",
        ],
    ),
    ("ronde-tests", &[]),
];

/// Crates that only some of ours may use.
const CHOKE: &[(&str, &[&str])] = &[
    ("reqwest", &["ronde-net"]),
    ("axum", &["ronde"]),
    ("toml", &["ronde-loops"]),
    ("sled", &["ronde-state"]),
    ("landlock", &["ronde-sandbox"]),
    ("seccompiler", &["ronde-sandbox"]),
    (
        "ractor",
        &[
            "ronde",
            "ronde-trigger",
            "ronde-budget",
            "ronde-handoff",
            "ronde-worker",
            "ronde-verifier",
        ],
    ),
];

#[test]
fn nobody_imports_what_the_table_does_not_allow() {
    let metadata = MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .no_deps()
        .other_options(["--offline".to_owned()])
        .exec()
        .expect("cargo metadata");
    let table: BTreeMap<_, _> = TABLE.iter().copied().collect();
    let mut wrong = Vec::new();
    let mut seen = 0;
    for package in &metadata.packages {
        let name = package.name.as_str();
        seen += 1;
        for dependency in &package.dependencies {
            let on = dependency.name.as_str();
            if dependency.kind != DependencyKind::Normal {
                continue;
            }
            if on.starts_with("ronde") && name != "ronde" {
                match table.get(name) {
                    Some(allowed) if allowed.contains(&on) => {}
                    Some(_) => wrong.push(format!("{name} imports {on}")),
                    None => wrong.push(format!("{name} is not in the table")),
                }
            }
            if let Some((_, users)) = CHOKE.iter().find(|(choke, _)| *choke == on)
                && !users.contains(&name)
            {
                wrong.push(format!("{name} uses {on}"));
            }
        }
    }
    assert_eq!(seen, TABLE.len() + 1, "every crate is looked at");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_file_grows_past_eight_hundred_lines() {
    fn look(folder: &std::path::Path, long: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if path.is_dir() && name != "target" && name != ".git" {
                look(&path, long);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let lines = std::fs::read_to_string(&path)
                    .expect("a text")
                    .lines()
                    .count();
                if lines > 800 {
                    long.push(format!("{}: {lines}", path.display()));
                }
            }
        }
    }
    let mut long = Vec::new();
    look(
        std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")),
        &mut long,
    );
    assert!(long.is_empty(), "{long:#?}");
}
