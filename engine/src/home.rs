//! Where ronde keeps everything, and where a loop file belongs.

use std::path::{Path, PathBuf};

/// The home folder: `$RONDE_HOME`, else `$XDG_STATE_HOME/ronde`, else `~/.local/state/ronde`.
///
/// # Errors
/// Says which variables would help where none of the three is set.
pub(crate) fn home() -> Result<PathBuf, String> {
    let set = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let home = set("RONDE_HOME")
        .or_else(|| set("XDG_STATE_HOME").map(|state| state.join("ronde")))
        .or_else(|| set("HOME").map(|user| user.join(".local/state/ronde")))
        .ok_or("no folder for ronde's home: set RONDE_HOME or HOME")?;
    std::path::absolute(&home).map_err(|error| format!("{}: {error}", home.display()))
}

/// The socket of the process that owns a home.
pub(crate) fn socket(home: &Path) -> PathBuf {
    home.join("sock")
}

/// The file with the token that every request at the socket carries. It is made anew by each owner.
///
/// File permissions of the socket keep other users out; the token keeps out what ronde itself starts:
/// Landlock does not govern who connects to a Unix socket, but nothing in a sandbox can read the home.
pub(crate) fn token(home: &Path) -> PathBuf {
    home.join("token")
}

/// The root folder of the project a loop file belongs to: the nearest folder above it that holds
/// `.ronde`, else the root of its git checkout, else the folder it lies in.
pub(crate) fn project_root(file: &Path) -> PathBuf {
    let folder = file.parent().unwrap_or(file);
    let holding = |name: &str| {
        folder
            .ancestors()
            .find(|folder| folder.join(name).symlink_metadata().is_ok())
    };
    holding(".ronde")
        .or_else(|| holding(".git"))
        .unwrap_or(folder)
        .to_owned()
}
