//! Snapshots of the home: the fold up to a record, so that opening need not read the journal from its
//! beginning. Never the truth: one that cannot be read is passed over.

use std::{
    io,
    path::{Path, PathBuf},
};

use ronde_protocol::Seq;
use serde::{Deserialize, Serialize};

use crate::{
    disk::{self, Disk},
    home::{Home, Image},
    line,
};

/// The version of the form below; a snapshot of another one is passed over.
const VERSION: u16 = 1;
/// Snapshots kept: the last, and the one before it in case the last is damaged.
const KEPT: usize = 2;

#[derive(Serialize, Deserialize)]
struct Snapshot {
    snapshot: u16,
    home: Image,
}

/// The newest snapshot that can be read and goes no further than record `last`.
pub(crate) fn newest(disk: &dyn Disk, dir: &Path, last: Seq) -> Option<Home> {
    for (seq, path) in list(disk, dir)
        .into_iter()
        .rev()
        .filter(|(seq, _)| *seq <= last)
    {
        let read = disk
            .read(&path)
            .ok()
            .and_then(|bytes| line::decode_object::<Snapshot>(&bytes));
        match read {
            Some(Snapshot {
                snapshot: VERSION,
                home,
            }) => {
                let home = Home::from(home);
                if home.seq() == seq {
                    return Some(home);
                }
            }
            _ => tracing::warn!(file = %path.display(), "passed over a snapshot that is damaged"),
        }
    }
    None
}

/// Writes a snapshot and removes old ones.
pub(crate) fn write(disk: &dyn Disk, dir: &Path, home: &Home) -> io::Result<()> {
    let snapshot = Snapshot {
        snapshot: VERSION,
        home: Image::from(home),
    };
    let bytes = line::encode_object(&snapshot)?;
    let file = dir.join(format!("{:012}.json", home.seq()));
    disk::replace(disk, &dir.join("new"), &file, &bytes)?;
    let all = list(disk, dir);
    for (_, old) in &all[..all.len().saturating_sub(KEPT)] {
        disk.remove(old)?;
    }
    Ok(())
}

/// The record number and path of each, oldest first.
fn list(disk: &dyn Disk, dir: &Path) -> Vec<(Seq, PathBuf)> {
    let names = disk.list(dir).unwrap_or_default();
    let number = |name: &str| name.strip_suffix(".json")?.parse().ok();
    let mut all: Vec<_> = names
        .iter()
        .filter_map(|name| Some((number(name)?, dir.join(name))))
        .collect();
    all.sort();
    all
}
