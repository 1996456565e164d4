//! Sockets whose path is longer than the address of a socket can be: they are reached through their open
//! folder.

use std::{
    fs::OpenOptions,
    io::{Error, ErrorKind, Result},
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
};

/// The longest path an address holds: `sun_path` of unix(7) is 108 bytes, the last one zero.
const LONGEST: usize = 107;

/// A path to bind or connect to. The path itself where it is short enough; else one through its folder,
/// good as long as the descriptor is held.
///
/// # Errors
/// The folder cannot be opened, or the name alone is too long ([`ErrorKind::InvalidFilename`]).
pub fn short_socket(path: &Path) -> Result<(PathBuf, Option<OwnedFd>)> {
    if path.as_os_str().len() <= LONGEST {
        return Ok((path.to_owned(), None));
    }
    let too_long = || {
        Error::new(
            ErrorKind::InvalidFilename,
            "the name is too long for a socket",
        )
    };
    let name = path.file_name().ok_or_else(too_long)?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let folder = OwnedFd::from(OpenOptions::new().read(true).open(folder)?);
    let short = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
    if short.as_os_str().as_bytes().len() > LONGEST {
        return Err(too_long());
    }
    Ok((short, Some(folder)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn a_path_of_any_length_is_bound_and_reached() {
        let root = tempfile::tempdir().expect("a folder");
        for length in [LONGEST, LONGEST + 1, 300] {
            let rest = length - root.path().as_os_str().len() - "//s".len();
            let mut folder = root.path().join("d".repeat(rest.min(200)));
            if rest > 200 {
                folder = folder.join("e".repeat(rest - 201));
            }
            std::fs::create_dir_all(&folder).expect("a folder");
            let path = folder.join("s");
            assert_eq!(path.as_os_str().len(), length);
            let (short, held) = short_socket(&path).expect("a path");
            assert_eq!(held.is_some(), length > LONGEST);
            assert!(held.is_some() || short == path, "{}", short.display());
            let _listener = UnixListener::bind(&short).expect("a listener");
            assert!(path.exists());
            let (again, _held) = short_socket(&path).expect("a path");
            UnixStream::connect(again).expect("an open socket");
        }
    }

    #[test]
    fn what_cannot_be_shortened_is_an_error() {
        let root = tempfile::tempdir().expect("a folder");
        let name = short_socket(&root.path().join("s".repeat(120)));
        assert_eq!(
            name.expect_err("a name too long").kind(),
            ErrorKind::InvalidFilename
        );
        let folder = short_socket(&root.path().join("d".repeat(120)).join("s"));
        assert_eq!(folder.expect_err("no folder").kind(), ErrorKind::NotFound);
    }
}
