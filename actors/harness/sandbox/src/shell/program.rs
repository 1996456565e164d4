//! What a simple command runs: the program behind keywords, assignments, paths and wrappers.

use super::{Script, Word, read::Gathered};
use crate::pattern::UNSURE;

/// Words of one command whose every ending is looked at.
const WORDS: usize = 300;

/// Keywords after which a command follows.
const LEADING: [&str; 13] = [
    "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "!", "{", "}", "time",
];

const SHELLS: [&str; 10] = [
    "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "rbash", "fish", "yash",
];

/// Programs that run what stands among their arguments.
const WRAPPERS: [&str; 53] = [
    "env",
    "nice",
    "timeout",
    "nohup",
    "setsid",
    "command",
    "builtin",
    "exec",
    "stdbuf",
    "ionice",
    "chrt",
    "taskset",
    "sudo",
    "doas",
    "su",
    "runuser",
    "time",
    "xargs",
    "find",
    "fd",
    "fdfind",
    "parallel",
    "busybox",
    "toybox",
    "watch",
    "flock",
    "script",
    "strace",
    "ltrace",
    "unshare",
    "nsenter",
    "chroot",
    "setarch",
    "linux32",
    "linux64",
    "prlimit",
    "systemd-run",
    "systemd-inhibit",
    "dbus-run-session",
    "xvfb-run",
    "valgrind",
    "perf",
    "bwrap",
    "firejail",
    "fakeroot",
    "unbuffer",
    "entr",
    "setpriv",
    "capsh",
    "numactl",
    "choom",
    "caffeinate",
    "proxychains4",
];

/// Those among them that add arguments of their own finding.
const FEEDERS: [&str; 6] = ["xargs", "find", "fd", "fdfind", "parallel", "entr"];

/// Programs that read programs.
const INTERPRETERS: [&str; 20] = [
    "python",
    "python2",
    "python3",
    "pypy3",
    "perl",
    "ruby",
    "node",
    "nodejs",
    "deno",
    "bun",
    "php",
    "lua",
    "luajit",
    "tclsh",
    "expect",
    "osascript",
    "Rscript",
    "julia",
    "guile",
    "ipython",
];

/// Programs that run nothing, whatever they are told.
const INERT: [&str; 41] = [
    "echo", "printf", "cat", "ls", "grep", "egrep", "fgrep", "rg", "head", "tail", "wc", "true",
    "false", ":", "cd", "pwd", "test", "[", "[[", "mkdir", "rmdir", "touch", "cp", "mv", "rm",
    "ln", "chmod", "uniq", "cut", "tr", "diff", "cmp", "basename", "dirname", "which", "type",
    "date", "sleep", "exit", "stat", "tee",
];

/// Commands of git that run no program named among their arguments.
const INERT_GIT: [&str; 20] = [
    "add",
    "blame",
    "branch",
    "checkout",
    "commit",
    "diff",
    "fetch",
    "init",
    "log",
    "ls-files",
    "merge",
    "mv",
    "reset",
    "restore",
    "rev-parse",
    "rm",
    "show",
    "status",
    "switch",
    "tag",
];

/// Options of git itself whose value is the next word.
const GIT_VALUES: [&str; 8] = [
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--super-prefix",
    "--config-env",
    "--attr-source",
];

/// Assignments that change what other commands run.
const TELLING: [&str; 7] = [
    "BASH_ENV",
    "ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "IFS",
    "LD_PRELOAD",
    "GIT_EXEC_PATH",
];

/// Takes a simple command into the script.
pub(super) fn simple(script: &mut Script, command: Gathered) {
    let mut words = command.words.as_slice();
    while let Some((first, rest)) = words.split_first()
        && LEADING.contains(&first.bare())
    {
        words = rest;
        if first.bare() == "time" && rest.first().is_some_and(|word| word.bare() == "-p") {
            words = &rest[1..];
        }
    }
    match words.first().map_or("", Word::bare) {
        // Names and values; what they hold is not known where it is used.
        "for" | "select" => return,
        "case" | "esac" | "function" | "coproc" => {
            script.hide("it has a construct that is not followed");
        }
        _ => {}
    }
    let mut assigns = false;
    while let Some((first, rest)) = words.split_first()
        && let Some(name) = assigned(first)
    {
        if TELLING.contains(&name) || name.starts_with("GIT_CONFIG") {
            script.hide("it sets a variable that changes what runs");
        }
        // An editor, a pager, or a command kept for later.
        let value = &first.text[first.text.find('=').map_or(0, |at| at + 1)..];
        if value.contains(char::is_whitespace) {
            possibly(script, value);
        }
        assigns = true;
        words = rest;
    }
    if words.is_empty() {
        if assigns || command.redirects {
            script.plain.push(None);
        }
        return;
    }
    let plain = !assigns && !command.redirects;
    script.plain.push(plain.then(|| super::join(words)));
    script.add(words, true);
    forms(script, words, true);
    inside(script, words);
}

/// The name of the variable a word assigns to.
fn assigned(word: &Word) -> Option<&str> {
    let (name, _) = word.text.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    let mut chars = name.chars();
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    let good = chars.next().is_some_and(letter) && chars.all(|c| letter(c) || c.is_ascii_digit());
    good.then_some(name)
}

fn base(word: &Word) -> &str {
    word.text.rsplit('/').next().unwrap_or_default()
}

/// Adds the command that these words are, in its plain spelling.
fn forms(script: &mut Script, words: &[Word], certain: bool) {
    let Some((first, rest)) = words.split_first() else {
        return;
    };
    script.add(words, certain);
    let name = base(first);
    if name.contains(UNSURE) {
        // It may be any program.
        let any = [Word::known(&UNSURE.to_string())];
        script.add(&[&any, rest].concat(), certain);
        return;
    }
    let with = |names: &[&str], rest: &[Word]| -> Vec<Word> {
        names
            .iter()
            .map(|name| Word::known(name))
            .chain(rest.iter().cloned())
            .collect()
    };
    script.add(&with(&[name], rest), certain);
    if let Some(command) = name.strip_prefix("git-") {
        script.add(&with(&["git", command], rest), certain);
    }
    if name == "git" {
        if rest
            .iter()
            .any(|word| word.text.contains("alias.") || word.text.starts_with("--config-env"))
        {
            script.hide("it makes or uses an alias of git");
        }
        let rest = after_options(rest);
        script.add(&with(&["git"], rest), certain);
    }
    if SHELLS.contains(&name) {
        shell(script, rest, certain);
    } else if INTERPRETERS
        .contains(&name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'))
        || INTERPRETERS.contains(&name)
    {
        interpreter(script, rest);
    }
    match name {
        "eval" => {
            let text = super::join(rest);
            nested(script, &text, certain);
        }
        "trap" => {
            if let Some(first) = rest.first() {
                nested(script, &first.text, certain);
            }
        }
        "alias" | "enable" | "hash" | "bind" | "complete" if !rest.is_empty() => {
            script.hide("it changes what a name stands for");
        }
        "awk" | "gawk" | "mawk" | "nawk" => {
            let runs = |word: &Word| {
                !word.is_known()
                    || ["system", "|", "getline", "@"]
                        .iter()
                        .any(|t| word.text.contains(t))
            };
            if rest.iter().any(runs) {
                script.hide("its awk program may run something");
            }
        }
        _ => {}
    }
}

/// The words of git after its own options.
fn after_options(mut words: &[Word]) -> &[Word] {
    while let Some((first, rest)) = words.split_first()
        && first.text.starts_with('-')
    {
        let takes = usize::from(GIT_VALUES.contains(&first.text.as_str())).min(rest.len());
        words = &rest[takes..];
    }
    words
}

fn shell(script: &mut Script, arguments: &[Word], certain: bool) {
    let option = |word: &Word| word.text.starts_with(['-', '+']);
    let takes_text =
        |word: &Word| option(word) && !word.text.starts_with("--") && word.text.contains('c');
    if let Some(at) = arguments.iter().position(takes_text) {
        // Options may stand between; reading too much does no harm.
        for argument in arguments[at + 1..].iter().filter(|word| !option(word)) {
            nested(script, &argument.text, certain);
        }
        if arguments.len() == at + 1 {
            script.hide("it starts a shell with what is not known");
        }
    } else {
        let named = arguments
            .iter()
            .any(|word| !option(word) && word.is_known());
        let reads = arguments
            .iter()
            .any(|word| word.text.starts_with("-s") || !word.is_known());
        if !named || reads {
            script.hide("it starts a shell that reads its commands from elsewhere");
        }
    }
}

fn interpreter(script: &mut Script, arguments: &[Word]) {
    for argument in arguments {
        let text = argument.text.as_str();
        let harmless = ["--version", "--help", "--test", "-V", "-h"].contains(&text);
        if harmless || text.starts_with("-m") {
            return;
        }
        let long =
            text.starts_with("--") && !text.starts_with("--eval") && !text.starts_with("--print");
        let flag = ["-u", "-B", "-O", "-I", "-s", "-S", "-w", "-v"].contains(&text);
        if long || flag {
            continue;
        }
        if argument.is_known() && !text.starts_with('-') && text != "eval" {
            return;
        }
        break;
    }
    script.hide("it runs a program written into the command or fed to it");
}

/// Reads a text that a shell will read.
fn nested(script: &mut Script, text: &str, certain: bool) {
    if text.contains(UNSURE) {
        script.hide("it runs a text that is not known");
    }
    let plain = script.plain.len();
    if certain {
        script.read(text);
    } else {
        let mark = script.certain.len();
        script.read(text);
        let moved = script.certain.split_off(mark);
        script.possible.extend(moved);
    }
    // What is nested is not written plainly.
    script.plain.truncate(plain);
    script.plain.push(None);
}

/// Looks for commands among the arguments.
fn inside(script: &mut Script, words: &[Word]) {
    let Some((first, rest)) = words.split_first() else {
        return;
    };
    let name = base(first).to_owned();
    if !name.contains(UNSURE) {
        let runs_nothing = INERT.contains(&name.as_str())
            || (name == "git"
                && after_options(rest)
                    .first()
                    .is_some_and(|command| INERT_GIT.contains(&command.text.as_str())));
        if runs_nothing {
            return;
        }
    }
    if words.len() > WORDS {
        script.hide("it has too many words");
        return;
    }
    let wraps = WRAPPERS.contains(&name.as_str());
    for at in 0..rest.len() {
        let known = rest[at].is_known();
        if known || (wraps && leads(&rest[..at])) {
            forms(script, &rest[at..], wraps);
        }
        let text = &rest[at].text;
        if text.contains(char::is_whitespace) || text.contains([';', '|', '&', '`']) {
            possibly(script, text);
        }
    }
    let feeds = |word: &Word| FEEDERS.contains(&base(word));
    if feeds(first) || (wraps && rest.iter().any(feeds)) {
        fed(script, rest);
    }
}

/// Whether an unknown word after these words of a wrapper may be the command: they are options,
/// their values, assignments and numbers alone.
fn leads(before: &[Word]) -> bool {
    before.iter().enumerate().all(|(at, word)| {
        let text = word.text.as_str();
        let value = at > 0 && before[at - 1].text.starts_with('-');
        !word.is_known()
            || text.starts_with('-')
            || value
            || text.contains('=')
            || text.starts_with(|c: char| c.is_ascii_digit())
            || WRAPPERS.contains(&base(word))
    })
}

/// The command of a program that adds arguments to it, each of which may be anything.
fn fed(script: &mut Script, words: &[Word]) {
    let indirect = |word: &Word| {
        let name = base(word);
        WRAPPERS.contains(&name) || SHELLS.contains(&name) || name == "eval"
    };
    if words.iter().any(indirect) {
        script.hide("it gives arguments that are not known to what runs them");
    }
    let placed = |word: &Word| {
        word.text.starts_with("-I") || word.text.starts_with("--replace") || word.text == "-i"
    };
    if words.iter().any(placed) {
        script.hide("it puts arguments that are not known into a command");
    }
    let unsure = || Word::known(&UNSURE.to_string());
    let filled: Vec<Word> = words
        .iter()
        .map(|word| {
            if word.text.contains("{}") {
                unsure()
            } else {
                word.clone()
            }
        })
        .chain([unsure()])
        .collect();
    for at in 0..words.len() {
        if filled[at].is_known() {
            forms(script, &filled[at..], false);
        }
    }
}

/// Reads a text that something may run. That it cannot be followed means nothing: it may be prose.
fn possibly(script: &mut Script, text: &str) {
    let (opaque, plain) = (script.opaque, script.plain.len());
    let mark = script.certain.len();
    script.read(text);
    let moved = script.certain.split_off(mark);
    script.possible.extend(moved);
    script.opaque = opaque;
    script.plain.truncate(plain);
}
