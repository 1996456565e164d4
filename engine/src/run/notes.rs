//! The state files of a loop: what stays from one run to the next, laid into the worker's folder and kept
//! as the worker left it.

use std::{collections::BTreeMap, io::Read as _, path::Path};

use ronde_workspace::{STATE_FOLDER, remove_tree};

use super::act::Run;

/// A state file is at most this large; more is cut off when it is kept.
const LARGEST: u64 = 1 << 20;

/// Lays the state files into the worker's folder, and gives their texts.
pub(super) async fn put(run: &Run, folder: &Path) -> Result<BTreeMap<String, String>, String> {
    let mut texts = BTreeMap::new();
    let names = &run.frozen.definition.state_files;
    if names.is_empty() {
        return Ok(texts);
    }
    let to = folder.join(STATE_FOLDER);
    // A repository that has something of that name has not got it in a worker's folder.
    remove_tree(&to)
        .and_then(|()| std::fs::create_dir_all(&to))
        .map_err(|error| format!("{}: {error}", to.display()))?;
    for name in names {
        let bytes = run
            .store
            .state_file(&run.firing.project, run.firing.loop_name.as_str(), name)
            .await
            .map_err(|error| error.to_string())?
            .unwrap_or_default();
        std::fs::write(to.join(name), &bytes).map_err(|error| format!("{name}: {error}"))?;
        texts.insert(name.clone(), String::from_utf8_lossy(&bytes).into_owned());
    }
    Ok(texts)
}

/// Keeps the state files as the worker left them. No link is followed, of the folder or of a file: what
/// it leads to is not the worker's to show. A file that is gone stays as it was.
pub(super) async fn keep(run: &Run, folder: &Path) -> Result<(), String> {
    let from = folder.join(STATE_FOLDER);
    if !from.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        return Ok(());
    }
    for name in &run.frozen.definition.state_files {
        let file = from.join(name);
        if !file.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
            continue;
        }
        let mut bytes = Vec::new();
        std::fs::File::open(&file)
            .and_then(|open| open.take(LARGEST).read_to_end(&mut bytes))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        run.store
            .set_state_file(
                &run.firing.project,
                run.firing.loop_name.as_str(),
                name,
                &bytes,
            )
            .await
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}
