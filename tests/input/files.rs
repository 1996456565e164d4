//! Loop files that are wrong: exit code 2, the file with line and column, the likely word.

use ronde_tests::{contents, git, write};

use super::Marked;

/// Name, file, and what is said.
fn cases(marked: &Marked) -> Vec<(&'static str, String, Vec<&'static str>)> {
    let name = "name = \"it\"";
    let long = format!("name = \"{}\"", "x".repeat(300));
    let right = marked.text(name, "");
    let without = |what: &str| right.replace(what, "");
    vec![
        ("not TOML", "name = \n".to_owned(), vec!["loop.toml:1:8"]),
        (
            "nothing",
            String::new(),
            vec!["missing key `name`", "loop.toml:1:1", "add `name = "],
        ),
        (
            "wrong type",
            marked.text("name = 3", ""),
            vec![
                "`name` is a string, not a number",
                "loop.toml:1:8",
                "hint: write",
            ],
        ),
        (
            "unknown key",
            marked.text("name = \"it\"\ngaol = \"x\"", ""),
            vec![
                "unknown key `gaol`",
                "loop.toml:2:1",
                "did you mean `goal`?",
            ],
        ),
        (
            "unknown agent",
            format!(
                "{name}\ngoal = \"x\"\n[worker]\nagent = \"cluade\"\n[[check]]\nrun = \"true\"\n"
            ),
            vec![
                "unknown `agent` `cluade`",
                "loop.toml:4:9",
                "did you mean `claude`?",
            ],
        ),
        (
            "not built yet",
            marked.text(name, "[[trigger]]\nwatch = [\"src\"]\n"),
            vec![
                "`watch` triggers are not built yet",
                "loop.toml:11:1",
                "use `cron` or `every`",
            ],
        ),
        (
            "a name with a slash",
            marked.text("name = \"a/b\"", ""),
            vec![
                "a loop's name has only letters, digits",
                "loop.toml:1:8",
                "for example",
            ],
        ),
        (
            "a name of 300 characters",
            marked.text(&long, ""),
            vec!["64", "loop.toml:1:8"],
        ),
        (
            "a name of dots",
            marked.text("name = \"..\"", ""),
            vec!["loop.toml:1:8"],
        ),
        (
            "no check",
            without("[[check]]\nrun = \"test -e out\"\n"),
            vec!["no `[[check]]`", "add `[[check]]`"],
        ),
        (
            "an empty list of checks",
            without("[[check]]\nrun = \"test -e out\"\n")
                .replace(name, "name = \"it\"\ncheck = []"),
            vec!["the loop has no check", "loop.toml:2:1", "add `[[check]]`"],
        ),
        (
            "a limit of nothing",
            marked.text(name, "[budget]\ntime = \"0s\"\n"),
            vec!["loop.toml:11:8"],
        ),
        (
            "a bare number where a unit is needed",
            marked.text(name, "[budget]\ntime = 90\n"),
            vec!["loop.toml:11:8", "hint:"],
        ),
        (
            "a minute that is no minute",
            marked.text(name, "[budget]\ntime = \"1M\"\n"),
            vec!["loop.toml:11:8", "hint:"],
        ),
        (
            "a goal file that is not there",
            right.replace("goal = \"out is there\"", "goal_file = \"goal.md\""),
            vec!["cannot read goal_file", "goal.md"],
        ),
        (
            "a notification that is not defined",
            marked.text(name, "[handoff]\nnotify = [\"nobody\"]\n"),
            vec!["`nobody`", "config.toml", "[notify.nobody]"],
        ),
    ]
}

#[test]
fn a_wrong_file_is_told_before_anything_happens() {
    let marked = Marked::new();
    for (name, text, says) in cases(&marked) {
        let file = marked.raw(&text);
        eprintln!("{name}");
        for verb in ["run", "validate", "plan"] {
            let mut command = marked.bench.command([verb.as_ref(), file.as_os_str()]);
            marked.refuses(&mut command, 2, &says);
            assert!(!marked.bench.home().exists(), "a home is made");
        }
    }
}

#[test]
fn every_error_is_told_at_once() {
    let marked = Marked::new();
    let file =
        marked.raw("name = 3\ngaol = \"x\"\n[worker]\nagent = \"cluade\"\n[budget]\ntime = 90\n");
    let mut command = marked
        .bench
        .command(["validate".as_ref(), file.as_os_str()]);
    let says = [
        "`name` is a string",
        "`gaol`",
        "`cluade`",
        "loop.toml:6:8",
        "missing key `goal`",
    ];
    marked.refuses(&mut command, 2, &says);
}

#[test]
fn bytes_that_are_no_text_are_told() {
    let marked = Marked::new();
    let file = marked.raw("");
    std::fs::write(&file, b"name = \"it\"\ngoal = \"\xff\xfe\"\n").expect("a file");
    let mut command = marked.bench.command(["run".as_ref(), file.as_os_str()]);
    marked.refuses(&mut command, 2, &["UTF-8", "loop.toml:2"]);
}

#[test]
fn a_file_that_is_not_there_is_told() {
    let marked = Marked::new();
    let missing = marked.bench.path("nowhere.toml");
    let mut command = marked.bench.command(["run".as_ref(), missing.as_os_str()]);
    marked.refuses(&mut command, 2, &["nowhere.toml", "ronde init"]);
}

/// Two loops of one name share state and branches: neither `validate` nor `serve` takes the second.
#[test]
fn two_loops_of_one_name_are_told() {
    let marked = Marked::new();
    let text = marked.text("name = \"twin\"", "");
    write(
        &marked.root,
        &[
            (".ronde/loops/a.toml", &text),
            (".ronde/loops/b.toml", &text),
        ],
    );
    git(&marked.root, &["add", "-A"]);
    git(&marked.root, &["commit", "-q", "-m", "loops"]);

    let mut command = marked.bench.command(["validate"]);
    let says = [
        "b.toml",
        "a loop named `twin` is defined in",
        "a.toml already",
    ];
    marked.refuses(command.current_dir(&marked.root), 2, &says);

    let before = contents(&marked.root);
    let mut command = marked
        .bench
        .command(["serve".as_ref(), marked.root.as_os_str()]);
    let errors = marked.bench.path("errors");
    command.stderr(std::fs::File::create(&errors).expect("a file"));
    let mut serve = ronde_tests::start(&mut command);
    assert!(
        serve.wait_for("serving").ends_with(": twin"),
        "the first is served"
    );
    serve.signal(rustix::process::Signal::TERM);
    assert_eq!(serve.end().0, Some(0));
    let told = std::fs::read_to_string(&errors).expect("a file");
    for word in says {
        assert!(told.contains(word), "no {word:?} in {told}");
    }
    marked.assert_untouched(&before);
}
