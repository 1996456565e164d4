//! Which files of the repository a check's command line runs as programs. Pure, and on the safe side:
//! what it cannot read it leaves out, and `protect` is there for the rest (what such a file runs in
//! turn, what a package script says).

/// Words before a command that only change how it runs.
const WRAPPERS: [&str; 12] = [
    "env", "time", "nice", "nohup", "exec", "command", "sudo", "stdbuf", "timeout", "xvfb-run",
    "ionice", "setsid",
];
/// Programs whose first file is a program itself.
const INTERPRETERS: [&str; 18] = [
    "bash", "sh", "dash", "zsh", "ksh", "fish", "python", "python3", "pypy3", "node", "ruby",
    "perl", "php", "lua", "Rscript", "pwsh", "bats", "expect",
];
/// Programs whose first word is `run` before a file.
const RUNNERS: [&str; 3] = ["deno", "bun", "uv"];
/// Programs that take what they do from a file of a fixed name, the first that is there.
const RECIPES: [(&str, &[&str], &[&str]); 5] = [
    (
        "make",
        &["GNUmakefile", "makefile", "Makefile"],
        &["-f", "--file", "--makefile"],
    ),
    (
        "gmake",
        &["GNUmakefile", "makefile", "Makefile"],
        &["-f", "--file", "--makefile"],
    ),
    (
        "just",
        &["justfile", "Justfile", ".justfile"],
        &["-f", "--justfile"],
    ),
    (
        "task",
        &["Taskfile.yml", "Taskfile.yaml", "taskfile.yml"],
        &["-t", "--taskfile"],
    ),
    (
        "rake",
        &["rakefile", "Rakefile", "rakefile.rb", "Rakefile.rb"],
        &["-f", "--rakefile"],
    ),
];
/// How deep a shell in a shell is looked into.
const DEPTH: usize = 4;

/// The files of the repository that a check's command line names as programs: `./scripts/check.sh`,
/// `bash ci/test.sh`, `python -m tools.x`, the `Makefile` of `make`. Paths are from the root, in the
/// order they appear, each once. `exists` tells whether the repository has a file at such a path.
pub fn programs_in(run: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Found {
        exists: &exists,
        paths: Vec::new(),
    };
    found.script(run, Some(String::new()), 0);
    found.paths
}

struct Found<'a> {
    exists: &'a dyn Fn(&str) -> bool,
    paths: Vec<String>,
}

impl Found<'_> {
    /// Looks at a whole script that starts in a folder of the repository, if that is known.
    fn script(&mut self, text: &str, folder: Option<String>, depth: usize) {
        if depth > DEPTH {
            return;
        }
        let mut folder = folder;
        let mut outer = Vec::new();
        let mut words: Vec<Word> = Vec::new();
        let mut piece = Pieces {
            rest: text.chars().peekable(),
        };
        loop {
            match piece.next_piece() {
                Piece::Word(word) => words.push(word),
                other => {
                    self.command(&words, &mut folder, depth);
                    words.clear();
                    match other {
                        Piece::Open => outer.push(folder.clone()),
                        Piece::Close => folder = outer.pop().unwrap_or(folder),
                        Piece::End => return,
                        Piece::Break | Piece::Word(_) => {}
                    }
                }
            }
        }
    }

    /// Looks at one simple command.
    fn command(&mut self, words: &[Word], folder: &mut Option<String>, depth: usize) {
        let mut words = words;
        let mut wrapped = false;
        let (name, rest) = loop {
            let Some((first, rest)) = words.split_first() else {
                return;
            };
            let text = first.text.as_str();
            let skip = is_assignment(first)
                || matches!(
                    text,
                    "{" | "}"
                        | "!"
                        | "if"
                        | "then"
                        | "elif"
                        | "else"
                        | "fi"
                        | "while"
                        | "until"
                        | "do"
                        | "done"
                        | "&&"
                        | "||"
                )
                || (wrapped && (text.starts_with('-') || is_number(text)))
                || (WRAPPERS.contains(&text) && first.plain);
            wrapped |= WRAPPERS.contains(&text);
            if !skip {
                break (first, rest);
            }
            words = rest;
        };
        if !name.plain {
            return;
        }
        let text = name.text.as_str();
        let base = text.rsplit('/').next().unwrap_or(text);
        if text.contains('/') {
            self.add(folder, text);
        }
        match base {
            "cd" | "pushd" => {
                let to = rest.iter().find(|word| !word.text.starts_with('-'));
                *folder = match (to, folder.as_deref()) {
                    (Some(to), Some(from)) if to.plain => join(from, &to.text),
                    _ => None,
                };
            }
            "source" | "." => {
                if let Some(file) = rest.first().filter(|word| word.plain) {
                    self.add(folder, &file.text);
                }
            }
            _ if is_interpreter(base) => self.interpreter(base, rest, folder, depth),
            _ if RUNNERS.contains(&base) => {
                if let Some(("run", rest)) = rest.split_first().map(|(w, r)| (w.text.as_str(), r)) {
                    let file = rest.iter().find(|word| !word.text.starts_with('-'));
                    match file.map(|word| word.text.as_str()) {
                        // `uv run python tools/x.py`
                        Some(program) if is_interpreter(program) || program.contains('/') => {
                            let at = rest
                                .iter()
                                .position(|word| word.text == program)
                                .unwrap_or(0);
                            self.command(&rest[at..], folder, depth + 1);
                        }
                        Some(file) => self.add(folder, file),
                        None => {}
                    }
                }
            }
            _ => {
                if let Some((_, names, flags)) = RECIPES.iter().find(|(name, ..)| *name == base) {
                    self.recipe(rest, folder, names, flags);
                }
            }
        }
    }

    /// `bash ci/x.sh`, `bash -c '…'`, `python -m tools.x`.
    fn interpreter(&mut self, name: &str, rest: &[Word], folder: &Option<String>, depth: usize) {
        let shell = matches!(name, "bash" | "sh" | "dash" | "zsh" | "ksh" | "fish");
        let python = name.starts_with("py");
        let mut words = rest.iter();
        while let Some(word) = words.next() {
            let text = word.text.as_str();
            let short = text.starts_with('-') && !text.starts_with("--");
            if shell && short && text.ends_with('c') {
                if let Some(script) = words.next() {
                    self.script(&script.text, folder.clone(), depth + 1);
                }
                return;
            }
            if python && short && text.ends_with('m') {
                if let Some(module) = words.next().filter(|module| module.plain) {
                    let path = module.text.replace('.', "/");
                    self.add(folder, &format!("{path}.py"));
                    self.add(folder, &format!("{path}/__main__.py"));
                }
                return;
            }
            if !shell && matches!(text, "-c" | "-e" | "--eval" | "-p" | "-r") {
                // The program is the next word itself (or is loaded before one that follows).
                if let Some(file) = words.next().filter(|file| file.plain && text == "-r") {
                    self.add(folder, &file.text);
                    continue;
                }
                return;
            }
            if matches!(text, "-o" | "-O" | "-W" | "-X" | "-I") && (shell || python || text == "-I")
            {
                words.next();
                continue;
            }
            if text.starts_with('-') {
                continue;
            }
            if word.plain {
                self.add(folder, text);
            }
            return;
        }
    }

    /// `make -C web test`, `just -f ci.just`.
    fn recipe(&mut self, rest: &[Word], folder: &Option<String>, names: &[&str], flags: &[&str]) {
        let mut folder = folder.clone();
        let mut named = false;
        let mut words = rest.iter();
        while let Some(word) = words.next() {
            let text = word.text.as_str();
            let value = |flag: &str| {
                let joined = text.strip_prefix(flag)?;
                match joined.strip_prefix('=') {
                    Some(value) => Some(value.to_owned()),
                    None if !flag.starts_with("--") && !joined.is_empty() => {
                        Some(joined.to_owned())
                    }
                    None => None,
                }
            };
            let of = |flag: &str, words: &mut std::slice::Iter<'_, Word>| {
                if text == flag {
                    return Some(
                        words
                            .next()
                            .map(|word| word.text.clone())
                            .unwrap_or_default(),
                    );
                }
                value(flag)
            };
            if let Some(to) = of("-C", &mut words).or_else(|| of("--directory", &mut words)) {
                folder = folder.as_deref().and_then(|from| join(from, &to));
            } else if let Some(file) = flags.iter().find_map(|flag| of(flag, &mut words)) {
                named = true;
                self.add(&folder, &file);
            }
        }
        if named {
            return;
        }
        let there = names.iter().find(|name| {
            let path = folder.as_deref().and_then(|from| join(from, name));
            path.is_some_and(|path| (self.exists)(&path))
        });
        if let Some(name) = there {
            self.add(&folder, name);
        }
    }

    fn add(&mut self, folder: &Option<String>, path: &str) {
        let Some(path) = folder.as_deref().and_then(|from| join(from, path)) else {
            return;
        };
        if !path.is_empty() && (self.exists)(&path) && !self.paths.contains(&path) {
            self.paths.push(path);
        }
    }
}

fn is_interpreter(name: &str) -> bool {
    let version = name.trim_start_matches("python");
    INTERPRETERS.contains(&name)
        || (version.len() < name.len() && version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

fn is_assignment(word: &Word) -> bool {
    word.text.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// The time limit of `timeout`, the level of `nice`.
fn is_number(text: &str) -> bool {
    let digits = text.strip_suffix(['s', 'm', 'h', 'd']).unwrap_or(text);
    !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '.')
}

/// A path from a folder of the repository, as from its root; `None` if it is outside.
fn join(folder: &str, path: &str) -> Option<String> {
    if path.starts_with('/') || path.starts_with('~') {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    text: String,
    /// Whether it is just this text: no variable, substitution or pattern in it.
    plain: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Word(Word),
    /// Between two commands.
    Break,
    /// `(`
    Open,
    /// `)`
    Close,
    End,
}

/// Cuts a command line as a shell does, as far as that is needed here.
struct Pieces<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
}

impl Pieces<'_> {
    fn next_piece(&mut self) -> Piece {
        while let Some(&c) = self.rest.peek() {
            match c {
                ' ' | '\t' | '\r' => {
                    self.rest.next();
                }
                '\\' if self.is_line_joined() => {}
                '#' => while self.rest.next_if(|c| *c != '\n').is_some() {},
                '\n' | ';' | '&' | '|' => {
                    self.rest.next();
                    return Piece::Break;
                }
                '(' | ')' => {
                    self.rest.next();
                    return if c == '(' { Piece::Open } else { Piece::Close };
                }
                '<' | '>' => {
                    self.rest.next();
                    self.redirection();
                }
                _ => return Piece::Word(self.word()),
            }
        }
        Piece::End
    }

    /// Takes a backslash and a line break, if that is what comes.
    fn is_line_joined(&mut self) -> bool {
        let mut ahead = self.rest.clone();
        ahead.next();
        let joined = ahead.next() == Some('\n');
        if joined {
            self.rest = ahead;
        }
        joined
    }

    /// Takes the rest of a redirection, so that its file is no word of the command.
    fn redirection(&mut self) {
        while self
            .rest
            .next_if(|c| matches!(c, '<' | '>' | '&' | '|' | ' ' | '-'))
            .is_some()
        {}
        if self
            .rest
            .peek()
            .is_some_and(|c| !matches!(c, '\n' | ';' | '(' | ')'))
        {
            self.word();
        }
    }

    fn word(&mut self) -> Word {
        let mut word = Word {
            text: String::new(),
            plain: true,
        };
        while let Some(c) = self.rest.next_if(|c| !" \t\r\n;&|()<>".contains(*c)) {
            match c {
                '\'' => {
                    while let Some(c) = self.rest.next_if(|c| *c != '\'') {
                        word.text.push(c);
                    }
                    self.rest.next();
                }
                '"' => self.quoted(&mut word),
                '\\' => match self.rest.next() {
                    Some('\n') | None => {}
                    Some(c) => word.text.push(c),
                },
                '$' | '`' | '*' | '?' | '[' => {
                    word.plain = false;
                    word.text.push(c);
                }
                c => word.text.push(c),
            }
        }
        word
    }

    fn quoted(&mut self, word: &mut Word) {
        while let Some(c) = self.rest.next() {
            match c {
                '"' => return,
                '\\' => match self.rest.next() {
                    Some(c @ ('"' | '\\' | '$' | '`')) => word.text.push(c),
                    Some('\n') | None => {}
                    Some(c) => word.text.extend(['\\', c]),
                },
                c => {
                    word.plain &= !matches!(c, '$' | '`');
                    word.text.push(c);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::programs_in;

    #[test]
    fn programs_of_a_command_line() {
        let files = [
            "scripts/check.sh",
            "scripts/a b.sh",
            "ci/test.sh",
            "tools/x.py",
            "tools/pkg/__main__.py",
            "Makefile",
            "web/Makefile",
            "web/build.js",
            "ci.mk",
            "justfile",
            "gradlew",
            "x.sh",
            "scripts/a*.sh",
            "check",
            "é.sh",
        ];
        let table: [(&str, &[&str]); 66] = [
            ("./scripts/check.sh", &["scripts/check.sh"]),
            ("scripts/check.sh --fast", &["scripts/check.sh"]),
            ("./scripts/../scripts/check.sh", &["scripts/check.sh"]),
            ("./scripts/gone.sh", &[]),
            ("/usr/bin/scripts/check.sh", &[]),
            ("../x.sh", &[]),
            ("x.sh", &[]),
            ("bash x.sh", &["x.sh"]),
            ("bash ci/test.sh arg", &["ci/test.sh"]),
            ("/bin/bash ci/test.sh", &["ci/test.sh"]),
            ("bash -eu ci/test.sh", &["ci/test.sh"]),
            ("bash -o pipefail ci/test.sh", &["ci/test.sh"]),
            ("bash --norc ci/test.sh", &["ci/test.sh"]),
            ("sh -c './x.sh && cargo test'", &["x.sh"]),
            ("bash -euc \"bash ci/test.sh\"", &["ci/test.sh"]),
            ("bash -c 'bash -c \"./x.sh\"'", &["x.sh"]),
            ("python tools/x.py", &["tools/x.py"]),
            ("python3.12 -W error tools/x.py", &["tools/x.py"]),
            ("python -m tools.x", &["tools/x.py"]),
            ("python3 -m tools.pkg", &["tools/pkg/__main__.py"]),
            ("python -c 'import x' tools/x.py", &[]),
            ("pythonic tools/x.py", &[]),
            ("uv run tools/x.py", &["tools/x.py"]),
            ("uv run python tools/x.py", &["tools/x.py"]),
            ("uv sync", &[]),
            ("node web/build.js", &["web/build.js"]),
            ("node -e 'x' web/build.js", &[]),
            ("make", &["Makefile"]),
            ("make test", &["Makefile"]),
            ("make -C web test", &["web/Makefile"]),
            ("make -Cweb test", &["web/Makefile"]),
            ("make --directory=web", &["web/Makefile"]),
            ("make -f ci.mk", &["ci.mk"]),
            ("make --file=ci.mk", &["ci.mk"]),
            ("make -C gone", &[]),
            ("just test", &["justfile"]),
            ("./gradlew test", &["gradlew"]),
            ("cargo test --workspace", &[]),
            ("npm test", &[]),
            ("cd web && make", &["web/Makefile"]),
            ("cd web; node build.js", &["web/build.js"]),
            ("cd $X && ./x.sh", &[]),
            ("cd .. && ./x.sh", &[]),
            ("(cd web && make) && make", &["web/Makefile", "Makefile"]),
            ("cd web\n../x.sh", &["x.sh"]),
            ("A=1 B='x y' ./x.sh", &["x.sh"]),
            ("env A=1 ./x.sh", &["x.sh"]),
            ("timeout 5m ./x.sh", &["x.sh"]),
            ("timeout -k 5 60 bash x.sh", &["x.sh"]),
            ("nice -n 5 ./x.sh", &["x.sh"]),
            ("exec ./x.sh", &["x.sh"]),
            ("! ./x.sh", &["x.sh"]),
            ("if ./x.sh; then make; fi", &["x.sh", "Makefile"]),
            ("true && ./x.sh || bash ci/test.sh", &["x.sh", "ci/test.sh"]),
            ("./x.sh | tee log", &["x.sh"]),
            ("./x.sh > out 2>&1", &["x.sh"]),
            ("cat < x.sh", &[]),
            ("source x.sh", &["x.sh"]),
            (". ./x.sh; test", &["x.sh"]),
            ("'./scripts/a b.sh'", &["scripts/a b.sh"]),
            ("./scripts/a\\ b.sh", &["scripts/a b.sh"]),
            ("./scripts/a*.sh", &[]),
            ("# ./x.sh", &[]),
            ("echo ./x.sh", &[]),
            ("./é.sh; ./x.sh; ./x.sh", &["é.sh", "x.sh"]),
            ("", &[]),
        ];
        for (run, want) in table {
            assert_eq!(
                programs_in(run, |path| files.contains(&path)),
                want,
                "{run}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_to_its_end(text in "[a-z./ '\"\\\\$();&|<>\n#-]{0,60}") {
            for path in programs_in(&text, |_| true) {
                proptest::prop_assert!(!path.starts_with('/') && !path.split('/').any(|p| p == ".."));
            }
        }
    }
}
