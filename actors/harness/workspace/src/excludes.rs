//! What a snapshot leaves out: the `.gitignore` files of the base, made into one list of patterns
//! that hold from the root. So a worker that edits a `.gitignore` neither hides nor uncovers a file.

use ronde_protocol::TreeId;

use crate::{Error, Git, git::Call};

/// The list for a tree, as the text of one `.gitignore` file at the root. One git process.
pub(crate) async fn of(git: &Git, dir: &std::path::Path, tree: &TreeId) -> Result<Vec<u8>, Error> {
    let call = Call::new(
        dir,
        ["grep", "-a", "-z", "--no-color", "--no-textconv", "-e", ""],
    )
    .arg(tree.as_str())
    .arg("--")
    .arg(":(glob)**/.gitignore");
    let output = git.run(call).await?;
    // No such file, or only empty ones.
    if output.code == 1 && output.stdout.is_empty() && output.stderr.is_empty() {
        return Ok(Vec::new());
    }
    Ok(compile(&output.ok()?, tree.as_str()))
}

/// Reads `<tree>:<path>\0<line>\n` again and again, and writes the lines as from the root, those of
/// deeper folders later: the last pattern that matches decides, as it does with many files.
fn compile(output: &[u8], tree: &str) -> Vec<u8> {
    let mut patterns: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut rest = output;
    let mut last_folder: Option<&[u8]> = None;
    while let Some(end) = rest.iter().position(|&byte| byte == 0) {
        let (path, after) = (&rest[..end], &rest[end + 1..]);
        let stop = after
            .iter()
            .position(|&byte| byte == b'\n')
            .unwrap_or(after.len());
        let mut line = &after[..stop];
        rest = after.get(stop + 1..).unwrap_or_default();
        let path = path.get(tree.len() + 1..).unwrap_or_default();
        let folder = path.strip_suffix(b".gitignore").unwrap_or_default();
        if last_folder != Some(folder) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
            last_folder = Some(folder);
        }
        if let Some(pattern) = rooted(folder, line) {
            patterns.push((folder.iter().filter(|&&byte| byte == b'/').count(), pattern));
        }
    }
    patterns.sort_by_key(|(depth, _)| *depth);
    patterns
        .into_iter()
        .flat_map(|(_, pattern)| pattern)
        .collect()
}

/// One line of the `.gitignore` of a folder (empty, or ending in `/`) as a line for the root.
fn rooted(folder: &[u8], line: &[u8]) -> Option<Vec<u8>> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.starts_with(b"#") || line.iter().all(|&byte| byte == b' ') || line.contains(&0) {
        return None;
    }
    if folder.is_empty() {
        return Some([line, b"\n"].concat());
    }
    let (not, pattern): (&[u8], &[u8]) = match line.strip_prefix(b"!") {
        Some(pattern) => (b"!", pattern),
        None => (b"", line),
    };
    // A slash at the end only says "folders"; any other binds the pattern to its own folder.
    let bound = pattern
        .strip_suffix(b"/")
        .unwrap_or(pattern)
        .contains(&b'/');
    let pattern = pattern.strip_prefix(b"/").unwrap_or(pattern);
    if pattern.is_empty() {
        return None;
    }
    let anywhere: &[u8] = if bound { b"" } else { b"**/" };
    Some([not, b"/", &escaped(folder), anywhere, pattern, b"\n"].concat())
}

/// A folder's name as a pattern that matches only it.
fn escaped(folder: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(folder.len());
    for &byte in folder {
        match byte {
            // No line can hold a line break.
            b'\n' => out.push(b'?'),
            b'*' | b'?' | b'[' | b'\\' => out.extend([b'\\', byte]),
            _ => out.push(byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_hold_from_the_root() {
        let table: [(&str, &str, Option<&str>); 14] = [
            ("", "*.log", Some("*.log\n")),
            ("", "/build\r", Some("/build\n")),
            ("", "# no", None),
            ("", "   ", None),
            ("", "", None),
            ("a/", "*.log", Some("/a/**/*.log\n")),
            ("a/", "/build", Some("/a/build\n")),
            ("a/", "tmp/", Some("/a/**/tmp/\n")),
            ("a/", "x/y", Some("/a/x/y\n")),
            ("a/", "!keep.log", Some("!/a/**/keep.log\n")),
            ("a/", "\\#odd", Some("/a/**/\\#odd\n")),
            ("a/", "/", None),
            ("[a]*/b\\/", "x", Some("/\\[a]\\*/b\\\\/**/x\n")),
            ("x\ny/", "z", Some("/x?y/**/z\n")),
        ];
        for (folder, line, want) in table {
            let got = rooted(folder.as_bytes(), line.as_bytes());
            assert_eq!(
                got.as_deref(),
                want.map(str::as_bytes),
                "{folder:?} {line:?}"
            );
        }
    }

    #[test]
    fn deeper_files_come_later() {
        let output = b"T:-d/e/.gitignore\0!x\nT:.gitignore\0\xef\xbb\xbfx\nT:-d/.gitignore\0/y\n\
            T:q\nr/.gitignore\0a\0b\n";
        assert_eq!(compile(output, "T"), b"x\n/-d/y\n!/-d/e/**/x\n");
    }
}
