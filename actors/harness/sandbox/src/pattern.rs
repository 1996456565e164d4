//! The patterns of the gate's rules: `tool` or `tool(pattern)`. Pure.
//!
//! - `shell(git push *)` and other tools: `*` is any run of characters; a ` *` at the end also stands
//!   for nothing, so `shell(cargo *)` covers `cargo`.
//! - `edit(src/**)`, `read(*.pem)`: globs over the path from the workspace's root, as in a
//!   `.gitignore`: a name without a slash is met at any depth, a folder covers what is in it. `~/` is
//!   the home folder, `//` the root of the file system. `write` is another name for `edit`.
//! - `*` alone is every tool.

use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Stands in a text for characters that are not known, and can be any or none.
pub(crate) const UNSURE: char = '\0';

/// How a pattern meets a text in which some characters are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Meets {
    /// Whatever they are, it does not.
    No,
    /// It may.
    Maybe,
    /// Whatever they are, it does.
    Yes,
}

/// A rule's pattern, checked.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    /// As written.
    pub(crate) text: String,
    tool: String,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    All,
    Text(Wild),
    Path(GlobSet),
}

impl Pattern {
    /// Reads a pattern. `home` is what `~/` stands for.
    pub(crate) fn parse(text: &str, home: Option<&Path>) -> Result<Self, String> {
        let trimmed = text.trim();
        let (tool, inner) = match trimmed.split_once('(') {
            None => (trimmed, None),
            Some((tool, rest)) => match rest.strip_suffix(')') {
                Some(inner) => (tool.trim_end(), Some(inner.trim())),
                None => return Err("the closing parenthesis is missing".to_owned()),
            },
        };
        if tool.is_empty() {
            return Err("a tool's name is missing, as in `shell(git push *)`".to_owned());
        }
        let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
        if tool != "*" && !tool.chars().all(named) {
            return Err(format!("`{tool}` cannot be a tool's name"));
        }
        if tool == "*" && inner.is_some() {
            return Err("`*` covers every tool and takes no pattern in parentheses".to_owned());
        }
        let what = match inner {
            None | Some("*" | "**") => What::All,
            Some("") => {
                return Err(format!(
                    "the parentheses are empty; write `{tool}` for all of it"
                ));
            }
            Some(_) if inner.is_some_and(|inner| inner.contains(UNSURE)) => {
                return Err("it has a NUL in it".to_owned());
            }
            Some(inner) if paths(tool) => What::Path(globs(inner, home)?),
            Some(inner) => What::Text(Wild::new(inner)),
        };
        Ok(Self {
            text: trimmed.to_owned(),
            tool: canonical(tool).to_owned(),
            what,
        })
    }

    /// Whether it speaks of a tool.
    pub(crate) fn is_for(&self, tool: &str) -> bool {
        self.tool == "*" || self.tool == canonical(tool)
    }

    /// Whether it covers whatever its tool does.
    pub(crate) fn is_for_all(&self) -> bool {
        matches!(self.what, What::All)
    }

    /// How it meets a text its tool is given.
    pub(crate) fn meets_text(&self, text: &str) -> Meets {
        match &self.what {
            What::All => Meets::Yes,
            What::Text(wild) => wild.meets(text),
            What::Path(_) => Meets::No,
        }
    }

    /// How it meets a path, relative to the workspace or absolute. Of one that leaves the workspace
    /// by `..` nothing is known but by a pattern for all.
    pub(crate) fn meets_path(&self, path: &Path) -> Meets {
        match &self.what {
            What::All => Meets::Yes,
            What::Text(_) => Meets::No,
            What::Path(globs) => match plain(path) {
                Some(path) if globs.is_match(&path) => Meets::Yes,
                Some(_) => Meets::No,
                None => Meets::Maybe,
            },
        }
    }
}

fn canonical(tool: &str) -> &str {
    if tool == "write" { "edit" } else { tool }
}

fn paths(tool: &str) -> bool {
    matches!(tool, "edit" | "write" | "read")
}

/// The path without `.` and `..`; `None` if it leaves the workspace.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                let inside = plain.pop();
                if !inside && !path.is_absolute() {
                    return None;
                }
                if plain.as_os_str().is_empty() && path.is_absolute() {
                    plain.push("/");
                }
            }
            other => plain.push(other),
        }
    }
    Some(plain)
}

fn globs(pattern: &str, home: Option<&Path>) -> Result<GlobSet, String> {
    let base = if let Some(rest) = pattern.strip_prefix("~/") {
        let home = home.ok_or("`~/` needs HOME to be set")?;
        let home = home.to_str().ok_or("`~/` needs HOME to be UTF-8")?;
        format!("{}/{rest}", globset::escape(home.trim_end_matches('/')))
    } else if let Some(rest) = pattern.strip_prefix("//") {
        format!("/{rest}")
    } else if let Some(rest) = pattern.strip_prefix('/') {
        rest.to_owned()
    } else if let Some(rest) = pattern.strip_prefix("./") {
        rest.to_owned()
    } else if pattern.trim_end_matches('/').contains('/') {
        pattern.to_owned()
    } else {
        format!("**/{pattern}")
    };
    let mut set = GlobSetBuilder::new();
    let mut add = |glob: &str| -> Result<(), String> {
        let glob = GlobBuilder::new(glob)
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|error| error.kind().to_string())?;
        set.add(glob);
        Ok(())
    };
    let folder = base.trim_end_matches('/');
    if folder.len() == base.len() {
        add(&base)?;
    }
    if !folder.ends_with("/**") {
        add(&format!("{folder}/**"))?;
    }
    set.build().map_err(|error| error.kind().to_string())
}

/// A text in which `*` stands for any run of characters.
#[derive(Debug, Clone)]
struct Wild {
    /// `None` is a `*`.
    pieces: Vec<Option<char>>,
    /// The pattern up to a ` *` at its end.
    short: Option<Vec<Option<char>>>,
}

impl Wild {
    fn new(pattern: &str) -> Self {
        let words: Vec<&str> = pattern.split_whitespace().collect();
        let pattern = words.join(" ");
        let pieces = |text: &str| {
            let mut pieces: Vec<Option<char>> =
                text.chars().map(|c| (c != '*').then_some(c)).collect();
            pieces.dedup_by(|a, b| a.is_none() && b.is_none());
            pieces
        };
        Self {
            pieces: pieces(&pattern),
            short: pattern.strip_suffix(" *").map(pieces),
        }
    }

    fn meets(&self, text: &str) -> Meets {
        let text: Vec<char> = text.chars().collect();
        let forms = [Some(&self.pieces), self.short.as_ref()];
        let any = |unsure: bool| {
            forms
                .into_iter()
                .flatten()
                .any(|pieces| matches(pieces, &text, unsure))
        };
        if any(false) {
            Meets::Yes
        } else if text.contains(&UNSURE) && any(true) {
            Meets::Maybe
        } else {
            Meets::No
        }
    }
}

/// Whether the pieces cover the text. An unknown run in it is met by a `*` alone; or, if `unsure`, by
/// anything it could turn out to be.
fn matches(pieces: &[Option<char>], text: &[char], unsure: bool) -> bool {
    // reached[i]: the first i pieces cover the text read so far.
    let mut reached = vec![false; pieces.len() + 1];
    reached[0] = true;
    let stars = |reached: &mut Vec<bool>| {
        for (i, piece) in pieces.iter().enumerate() {
            if piece.is_none() && reached[i] {
                reached[i + 1] = true;
            }
        }
    };
    stars(&mut reached);
    for &c in text {
        let mut next = vec![false; pieces.len() + 1];
        for (i, piece) in pieces.iter().enumerate() {
            match piece {
                None => next[i + 1] |= reached[i] || reached[i + 1],
                Some(piece) => next[i + 1] |= reached[i] && *piece == c && c != UNSURE,
            }
        }
        if c == UNSURE && unsure {
            // Any run: every later place is reached from the earliest one.
            if let Some(first) = reached.iter().position(|&reached| reached) {
                next[first..].fill(true);
            }
        }
        reached = next;
        stars(&mut reached);
    }
    reached[pieces.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Pattern {
        Pattern::parse(text, Some(Path::new("/home/a*b"))).expect(text)
    }

    #[test]
    fn texts() {
        use Meets::{Maybe, No, Yes};
        let table = [
            ("shell(cargo *)", "cargo", Yes),
            ("shell(cargo *)", "cargo test", Yes),
            ("shell(cargo *)", "cargox", No),
            ("shell(cargo*)", "cargox", Yes),
            ("shell(git push)", "git push", Yes),
            ("shell(git push)", "git push origin", No),
            ("shell(git   push *)", "git push origin main", Yes),
            ("shell(* --force*)", "git push --force-with-lease", Yes),
            ("shell(git push *)", "git\0", Maybe),
            ("shell(git push *)", "git push\0", Maybe),
            ("shell(git push *)", "git push origin\0", Yes),
            ("shell(git push *)", "\0 push", Maybe),
            ("shell(git push *)", "\0", Maybe),
            ("shell(git push *)", "echo\0", No),
            ("shell(git push *)", "git commit\0", No),
            ("shell(git push *)", "g\0t p\0h x", Maybe),
            ("shell(git push --force)", "git\0--force", Maybe),
            ("shell(*)", "anything", Yes),
            ("shell", "anything", Yes),
        ];
        for (pattern, text, want) in table {
            assert_eq!(parse(pattern).meets_text(text), want, "{pattern} {text:?}");
        }
    }

    #[test]
    fn paths() {
        use Meets::{Maybe, No, Yes};
        let table = [
            ("edit(src/**)", "src/a/b.rs", Yes),
            ("edit(src/**)", "a/src/b.rs", No),
            ("edit(src)", "src/a.rs", Yes),
            ("edit(src)", "a/src/b.rs", Yes),
            ("edit(/src)", "a/src/b.rs", No),
            ("edit(/src)", "src", Yes),
            ("edit(tests/)", "tests/a.rs", Yes),
            ("edit(*.lock)", "a/b/Cargo.lock", Yes),
            ("edit(*.lock)", "Cargo.lock", Yes),
            ("edit(a/*.rs)", "a/b/c.rs", No),
            ("edit(src/**)", "./src/../src/a.rs", Yes),
            ("edit(src/**)", "x/../src/a.rs", Yes),
            ("edit(src/**)", "../src/a.rs", Maybe),
            ("edit(src/**)", "a/../../src/a.rs", Maybe),
            ("edit(~/.ssh/**)", "/home/a*b/.ssh/id", Yes),
            ("edit(~/.ssh/**)", "/home/axb/.ssh/id", No),
            ("edit(~/.ssh)", "/home/x/../a*b/.ssh/id", Yes),
            ("edit(//etc/**)", "/etc/passwd", Yes),
            ("edit(//etc/**)", "etc/passwd", No),
            ("write(src/**)", "src/a", Yes),
            ("edit", "../x", Yes),
        ];
        for (pattern, path, want) in table {
            assert_eq!(
                parse(pattern).meets_path(Path::new(path)),
                want,
                "{pattern} {path}"
            );
        }
        assert!(parse("write(a)").is_for("edit"));
        assert!(parse("edit(a)").is_for("write"));
        assert!(!parse("edit(a)").is_for("read"));
        assert!(parse("*").is_for("read"));
    }

    #[test]
    fn what_is_no_pattern_is_said_so() {
        let table = [
            ("", "a tool's name is missing"),
            ("(x)", "a tool's name is missing"),
            ("shell(git push", "closing parenthesis"),
            ("shell()", "parentheses are empty"),
            ("sh ell(x)", "cannot be a tool's name"),
            ("*(x)", "covers every tool"),
            ("edit([)", "unclosed character class"),
        ];
        for (pattern, want) in table {
            let error = Pattern::parse(pattern, None).expect_err(pattern);
            assert!(error.contains(want), "{pattern}: {error}");
        }
        assert!(
            Pattern::parse("edit(~/x)", None)
                .expect_err("no home")
                .contains("HOME")
        );
    }
}
