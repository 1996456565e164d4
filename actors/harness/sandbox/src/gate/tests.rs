use proptest::prelude::*;

use super::*;

fn gate(deny: &[&str], ask: &[&str], allow: &[&str], level: Level) -> Gate {
    let list = |patterns: &[&str]| patterns.iter().map(|&pattern| pattern.to_owned()).collect();
    let rules = Rules {
        deny: list(deny),
        ask: list(ask),
        allow: list(allow),
    };
    Gate::new(&rules, level).expect("good rules")
}

/// `allow`, `ask` or `deny`.
fn word(decision: &Decision) -> &'static str {
    match decision {
        Decision::Allow(_) => "allow",
        Decision::Ask { .. } => "ask",
        Decision::Deny { .. } => "deny",
    }
}

fn shell(gate: &Gate, command: &str) -> &'static str {
    word(&gate.decide(&Action::Shell { command }, &BTreeSet::new()))
}

/// The ways in which other harnesses let a forbidden command through, and more of their kind.
#[test]
fn git_push_is_never_allowed_in_any_disguise() {
    let gate = gate(
        &["shell(git push *)"],
        &[],
        &["shell(*)"],
        Level::WorkspaceWrite,
    );
    let table = [
        ("git push", "deny"),
        ("git push origin main", "deny"),
        ("ls && git push", "deny"),
        ("ls; git push", "deny"),
        ("ls\ngit push", "deny"),
        ("ls || git push", "deny"),
        ("ls | git push", "deny"),
        ("FOO=1 git push", "deny"),
        ("env git push", "deny"),
        ("env -u X A=1 git push", "deny"),
        ("bash -c 'git push'", "deny"),
        ("sh -c \"git push\"", "deny"),
        ("bash -euo pipefail -c 'ls; git push'", "deny"),
        ("$(echo git) push", "ask"),
        ("`echo git` push", "ask"),
        ("git -C . push", "deny"),
        ("git -c a.b=c --no-pager --git-dir x push", "deny"),
        ("echo $(git push)", "deny"),
        ("echo \"$(git push)\"", "deny"),
        ("timeout 5 git push", "deny"),
        ("nice -n 5 git push", "deny"),
        ("command git push", "deny"),
        ("/usr/bin/git push", "deny"),
        ("git  push", "deny"),
        ("git\tpush", "deny"),
        ("git \\\n push", "deny"),
        ("xargs git push", "deny"),
        ("echo push | xargs git", "ask"),
        ("echo git push | xargs env", "ask"),
        ("find . -exec git push \\;", "deny"),
        ("find . -exec git {} \\;", "ask"),
        ("eval 'git push'", "deny"),
        ("eval git push", "deny"),
        ("eval $x", "ask"),
        ("git push&", "deny"),
        ("(git push)", "deny"),
        ("{ git push; }", "deny"),
        ("if true; then git push; fi", "deny"),
        ("g=git; $g push", "ask"),
        ("g='git push'; $g", "ask"),
        ("\\git push", "deny"),
        ("'git' push", "deny"),
        ("g'i't pu\"sh\"", "deny"),
        ("sudo git push", "deny"),
        ("sudo -u me env -i nice git push", "deny"),
        ("git push 2>&1 | cat", "deny"),
        ("git >/dev/null push", "deny"),
        (">f git push", "deny"),
        ("git-push", "deny"),
        ("/usr/lib/git-core/git-push origin", "deny"),
        ("git p{us,}h", "ask"),
        ("git pus[h]", "ask"),
        ("/usr/bin/gi[t] push", "ask"),
        ("/usr/bin/gi[\"t\"] push", "ask"),
        ("/usr/bin/gi? push", "ask"),
        ("/usr/b*/git push", "deny"),
        ("env /usr/bin/gi? push", "ask"),
        ("declare a[ 1 <<2]=3\ngit push\n2]=3", "ask"),
        ("nohup ./x$y push", "ask"),
        ("git $x", "ask"),
        ("git *", "ask"),
        ("git -c alias.p=push p", "ask"),
        ("f() { git \"$@\"; }; f push", "ask"),
        ("alias g=git; g push", "ask"),
        ("trap 'git push' EXIT", "deny"),
        ("echo 'git push' | sh", "ask"),
        ("bash <<< 'git push'", "ask"),
        ("bash <<E\ngit push\nE", "ask"),
        ("cat <<E\n$(git push)\nE", "ask"),
        ("((x<<2))\ngit push\n2", "ask"),
        ("cat <(git push)", "deny"),
        ("ssh host git push", "ask"),
        ("ssh host 'git push'", "ask"),
        ("su -c 'git push'", "deny"),
        ("git submodule foreach git push", "ask"),
        ("git rebase --exec 'git push'", "ask"),
        ("GIT_EDITOR='git push' git commit", "ask"),
        (
            "python3 -c 'import os; os.system(\"git\" + \" push\")'",
            "ask",
        ),
        ("awk 'BEGIN{system(\"git push\")}'", "ask"),
        ("$'git' push", "ask"),
        ("git ${x:-push}", "ask"),
        ("IFS=,; x=git,push; $x", "ask"),
        ("git push 'unclosed", "deny"),
        ("case a in a) git push;; esac", "deny"),
        ("! git push", "deny"),
        ("time -p git push", "deny"),
        ("coproc git push", "ask"),
        ("unknownwrapper --flag git push", "ask"),
    ];
    for (command, want) in table {
        let got = shell(&gate, command);
        assert_ne!(got, "allow", "{command}");
        assert_eq!(got, want, "{command}");
    }
}

#[test]
fn ordinary_work_is_not_in_the_way_of_a_deny_rule() {
    let gate = gate(&["shell(git push *)"], &[], &[], Level::WorkspaceWrite);
    for command in [
        "cargo test --workspace 2>&1 | tail -n 40",
        "git status && git diff --stat",
        "git commit -m 'prepare; then git push'",
        "git commit -m \"$(cat <<'EOF'\nit's done; git push later\nEOF\n)\"",
        "grep -rn 'git push' docs",
        "echo git push",
        "cat > notes.md <<'EOF'\nrun `git push` when you're done\nEOF",
        "for f in *.rs; do wc -l \"$f\"; done",
        "find . -name '*.rs' | xargs grep -l foo",
        "find src -type f -exec wc -l {} +",
        "x=$(date +%s); echo $((x + 1))",
        "timeout 60 cargo test $FLAGS",
        "RUST_LOG=debug cargo run -- --port 8080 &",
        "test -f Cargo.toml || exit 1",
        "[ -n \"$CI\" ] && make",
        "python3 -m pytest -q",
        "python3 scripts/run.py --all",
        "bash scripts/check.sh",
        "awk '{print $1}' f",
        "sed -n '1,20p' src/main.rs",
        "mkdir -p a/b && cd a/b && touch {}",
        "ls -la # git push",
        "cargo build > log.txt 2>&1",
    ] {
        assert_eq!(shell(&gate, command), "allow", "{command}");
    }
}

#[test]
fn deny_beats_ask_beats_allow_beats_the_level() {
    let table = [
        // deny, ask, allow, level, command, decision
        (
            "shell(rm *)",
            "shell(rm *)",
            "shell(rm *)",
            Level::Full,
            "rm x",
            "deny",
        ),
        (
            "",
            "shell(git *)",
            "shell(git status)",
            Level::Full,
            "git status",
            "ask",
        ),
        (
            "",
            "",
            "shell(git status)",
            Level::Full,
            "git status",
            "allow",
        ),
        ("", "", "shell(git status)", Level::Full, "git log", "ask"),
        ("", "", "", Level::ReadOnly, "git log", "allow"),
        ("", "", "", Level::WorkspaceWrite, "git log", "allow"),
        // All parts must be allowed, and be nothing but words.
        (
            "",
            "",
            "shell(cargo *)",
            Level::Full,
            "cargo test && cargo build",
            "allow",
        ),
        (
            "",
            "",
            "shell(cargo *)",
            Level::Full,
            "cargo test; rm x",
            "ask",
        ),
        (
            "",
            "",
            "shell(cargo *)",
            Level::Full,
            "cargo test $(rm x)",
            "ask",
        ),
        (
            "",
            "",
            "shell(cargo *)",
            Level::Full,
            "cargo test > /etc/passwd",
            "ask",
        ),
        (
            "",
            "",
            "shell(cargo *)",
            Level::Full,
            "cargo test > /dev/null 2>&1",
            "allow",
        ),
        (
            "",
            "",
            "shell(cargo *)",
            Level::Full,
            "LD_PRELOAD=x cargo test",
            "ask",
        ),
        (
            "",
            "",
            "shell(cargo *)",
            Level::Full,
            "/tmp/cargo test",
            "ask",
        ),
        (
            "",
            "",
            "shell(cargo *)",
            Level::Full,
            "cargo test `x",
            "ask",
        ),
        ("", "", "shell(cargo *)", Level::Full, "cargo", "allow"),
        ("", "", "shell(cargo *)", Level::Full, "cargox", "ask"),
        ("", "", "shell", Level::Full, "anything $(at all)", "allow"),
        ("shell", "", "shell", Level::WorkspaceWrite, "true", "deny"),
        ("shell(*)", "", "", Level::WorkspaceWrite, "", "deny"),
        ("*", "", "", Level::WorkspaceWrite, "true", "deny"),
        ("", "shell", "", Level::WorkspaceWrite, "true", "ask"),
        // An unknown word that makes no difference makes none.
        (
            "shell(curl *)",
            "",
            "",
            Level::WorkspaceWrite,
            "curl $URL",
            "deny",
        ),
        (
            "shell(rm *)",
            "",
            "",
            Level::WorkspaceWrite,
            "find . -exec rm {} +",
            "deny",
        ),
        (
            "shell(rm *)",
            "",
            "",
            Level::WorkspaceWrite,
            "ls | xargs rm",
            "deny",
        ),
        // What cannot be followed is asked about once there is a rule it could break.
        (
            "shell(rm *)",
            "",
            "",
            Level::WorkspaceWrite,
            "eval \"$x\"",
            "ask",
        ),
        (
            "edit(x)",
            "",
            "",
            Level::WorkspaceWrite,
            "eval \"$x\"",
            "allow",
        ),
    ];
    for (deny, ask, allow, level, command, want) in table {
        fn list(pattern: &'static str) -> Vec<&'static str> {
            if pattern.is_empty() {
                vec![]
            } else {
                vec![pattern]
            }
        }
        let gate = gate(&list(deny), &list(ask), &list(allow), level);
        assert_eq!(
            shell(&gate, command),
            want,
            "{deny} | {ask} | {allow} | {level:?} | {command}"
        );
    }
}

#[test]
fn paths_and_other_tools() {
    let gate = gate(
        &["edit(.github/**)", "read(*.pem)", "web(*evil*)"],
        &["edit(Cargo.toml)", "web"],
        &[],
        Level::WorkspaceWrite,
    );
    let edit = |path: &'static str| Action::Edit {
        path: Path::new(path),
        change: Change::Whole { content: "x" },
    };
    let read = |path: &'static str| Action::Read {
        path: Path::new(path),
    };
    let tool = |name: &'static str, argument: &'static str| Action::Tool { name, argument };
    let table = [
        (edit("src/a.rs"), "allow"),
        (edit(".github/workflows/ci.yml"), "deny"),
        (edit("src/../.github/x"), "deny"),
        (edit("Cargo.toml"), "ask"),
        (edit("a/Cargo.toml"), "ask"),
        (edit("../elsewhere"), "ask"),
        (read(".github/x"), "allow"),
        (read("a/b/key.pem"), "deny"),
        (tool("web", "https://evil.example"), "deny"),
        (tool("web", "https://good.example"), "ask"),
        (tool("write", ".github/x"), "deny"),
        (tool("other", "x"), "allow"),
    ];
    for (action, want) in table {
        if matches!(action, Action::Tool { name: "write", .. }) {
            continue;
        }
        assert_eq!(
            word(&gate.decide(&action, &BTreeSet::new())),
            want,
            "{action}"
        );
    }
}

#[test]
fn an_approval_is_for_the_exact_action_and_never_beats_a_deny() {
    let asks = gate(&[], &["shell(cargo add *)"], &[], Level::WorkspaceWrite);
    let Decision::Ask {
        action, text, rule, ..
    } = asks.decide(
        &Action::Shell {
            command: "cargo add serde",
        },
        &BTreeSet::new(),
    )
    else {
        panic!("not asked");
    };
    assert_eq!(text, "shell: cargo add serde");
    assert_eq!(rule.as_deref(), Some("shell(cargo add *)"));
    let approved = BTreeSet::from([action]);
    let decide = |gate: &Gate, command| word(&gate.decide(&Action::Shell { command }, &approved));
    assert_eq!(decide(&asks, "cargo add serde"), "allow");
    assert_eq!(decide(&asks, "cargo add serde "), "ask");
    assert_eq!(decide(&asks, "cargo add serde2"), "ask");
    let denies = gate(&["shell(cargo add *)"], &[], &[], Level::WorkspaceWrite);
    assert_eq!(decide(&denies, "cargo add serde"), "deny");
    // The tool is part of what was approved.
    let other = Action::Tool {
        name: "shell2",
        argument: "cargo add serde",
    };
    assert!(!approved.contains(&other.digest()));
}

#[test]
fn an_approved_edit_is_of_that_file_and_that_change() {
    let gate = gate(&[], &["edit(*.txt)"], &[], Level::WorkspaceWrite);
    let edit = |path: &'static str, change: Change<'static>| Action::Edit {
        path: Path::new(path),
        change,
    };
    let whole = |content| Change::Whole { content };
    let piece = |old, new, all| Change::Piece { old, new, all };
    let table = [
        edit("a.txt", whole("harmless")),
        edit("a.txt", whole("harmful")),
        edit("a.txt", whole("")),
        edit("b.txt", whole("harmless")),
        edit("a.txt", piece("old", "new", false)),
        edit("a.txt", piece("old", "new", true)),
        edit("a.txt", piece("old", "other", false)),
        edit("a.txt", piece("other", "new", false)),
    ];
    for approved in &table {
        let Decision::Ask {
            action,
            text,
            change,
            ..
        } = gate.decide(approved, &BTreeSet::new())
        else {
            panic!("{approved:?} is not asked about");
        };
        assert_eq!(text, approved.to_string());
        assert!(change.is_some_and(|change| !change.is_empty()));
        let yes = BTreeSet::from([action]);
        for tried in &table {
            let want = if tried == approved { "allow" } else { "ask" };
            assert_eq!(
                word(&gate.decide(tried, &yes)),
                want,
                "{approved:?} then {tried:?}"
            );
        }
    }
    let odd = edit("a\n\u{1b}[2K.txt", whole(""));
    assert_eq!(odd.to_string(), "edit: a\u{fffd}\u{fffd}[2K.txt");
}

#[test]
fn a_tool_denied_whole_is_hidden() {
    let gate = gate(
        &["shell", "edit(src/**)", "web(*)"],
        &["read"],
        &[],
        Level::Full,
    );
    for (tool, hidden) in [
        ("shell", true),
        ("web", true),
        ("edit", false),
        ("read", false),
        ("other", false),
    ] {
        assert_eq!(gate.hides(tool), hidden, "{tool}");
    }
}

#[test]
fn bad_rules_are_all_reported() {
    let rules = Rules {
        deny: vec!["shell(a".into(), "shell(ok)".into()],
        ask: vec![],
        allow: vec!["shell".into(), "edit([)".into()],
    };
    let errors = Gate::new(&rules, Level::Full).expect_err("two errors");
    let got: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(got.len(), 2, "{got:?}");
    assert!(
        got[0].starts_with("deny[0] `shell(a`: the closing"),
        "{got:?}"
    );
    assert!(got[1].starts_with("allow[1] `edit([)`: "), "{got:?}");
    assert!(check_pattern("shell(a *)").is_ok());
    assert!(check_pattern("shell(a").is_err());
}

const BEFORE: &[&str] = &[
    "ls",
    "echo 'a b'",
    "x=1",
    "FOO=b make",
    "cat <<'E'\nit's\nE\n",
    "cat <<-E\n\tx\n\tE\n",
    "echo $((1 + 2))",
    "a \\\n b",
    "true #c\n",
    "echo \"$(date)\"",
    "[ -f x ]",
    "echo \\;",
    "echo '('",
    "echo \"a'b\"",
    "echo 2>&1",
    "a{b,c}",
];
const JOINTS: &[&str] = &[" && ", "||", ";", " ;", "\n", "\n\n", " & ", "|", " |& "];
const OPENINGS: &[&str] = &[
    "",
    "( ",
    "{ ",
    "if ",
    "! ",
    "time ",
    "FOO=1 ",
    "env ",
    "sudo ",
    "timeout 5 ",
    ">f ",
    "echo $(",
    "echo \"`",
    "bash -c '",
];
const GIT: &[&str] = &[
    "git",
    "\\git",
    "'git'",
    "\"git\"",
    "/usr/bin/git",
    "g'i't",
    "git -C .",
    "git --no-pager",
];
const AFTER: &[&str] = &[
    "",
    " origin main",
    " --force",
    " 2>&1",
    " &",
    " ; ls",
    "&& x",
    " > f",
    "| cat",
    "\n",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever surrounds it: a `git push` that stands where a command stands is not allowed.
    #[test]
    fn a_plain_git_push_is_never_allowed(
        before in prop::collection::vec(prop::sample::select(BEFORE), 0..4),
        joints in prop::collection::vec(prop::sample::select(JOINTS), 4),
        opening in prop::sample::select(OPENINGS),
        git in prop::sample::select(GIT),
        gap in prop::sample::select(&[" ", "  ", "\t", " \\\n"][..]),
        push in prop::sample::select(&["push", "'push'", "pu\\sh", "p\"us\"h"][..]),
        after in prop::sample::select(AFTER),
    ) {
        let mut command = String::new();
        for (part, joint) in before.iter().zip(&joints) {
            command.push_str(part);
            // A comment or a here-document has ended its line already.
            command.push_str(if part.ends_with('\n') { "" } else { joint });
        }
        let inner = format!("{git}{gap}{push}{after}");
        let inner = if opening.ends_with('\'') { inner.replace('\'', "") } else { inner };
        let inner = if opening.contains('`') { inner.replace("\\\n", " ").replace(['\\', '"'], "") } else { inner };
        command.push_str(opening);
        command.push_str(&inner);
        command.push_str(match opening {
            "( " => "\n)",
            "{ " => "\n}",
            "if " => "\nthen x; fi",
            "echo $(" => "\n)",
            "echo \"`" => "`\"",
            "bash -c '" => "'",
            _ => "",
        });
        let gate = gate(&["shell(git push *)"], &[], &["shell"], Level::WorkspaceWrite);
        prop_assert_ne!(shell(&gate, &command), "allow", "{}", command);
    }

    /// Nothing makes the reader panic or run for ever.
    #[test]
    fn any_text_is_decided(command in "[a-z'\"\\\\$`(){}<>|&;#\n *=\\[\\]!0-9-]{0,60}") {
        let gate = gate(&["shell(git push *)"], &[], &[], Level::Full);
        let _ = shell(&gate, &command);
    }
}
