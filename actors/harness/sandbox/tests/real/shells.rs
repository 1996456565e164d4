//! The gate against a real shell: whatever text makes the shell run `git push` is not allowed where
//! that is denied.

use std::{collections::BTreeSet, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use proptest::prelude::*;
use ronde_protocol::access::{Level, Rules};
use ronde_sandbox::{
    Command, Policy,
    gate::{Action, Decision, Gate},
};

use crate::support::run;

/// What the texts are made of.
const PIECES: &[&str] = &[
    "git",
    "push",
    "git push",
    " ",
    " ",
    " ",
    " ",
    "\n",
    ";",
    "&&",
    "||",
    "|",
    "&",
    "(",
    ")",
    "{ ",
    "; }",
    "$(",
    "`",
    "'",
    "\"",
    "\\",
    "\\\n",
    "#",
    "<<E",
    "<<'E'",
    "<<-E",
    "\nE\n",
    "\tE\n",
    "<",
    ">",
    "2>&1",
    ">/dev/null",
    "/dev/null",
    "$x",
    "${x}",
    "x=git",
    "x=push",
    "x=",
    "eval ",
    "bash -c ",
    "sh -c ",
    "env ",
    "command ",
    "exec ",
    "time ",
    "! ",
    "if ",
    "then ",
    "; fi",
    "while ",
    "do ",
    "; done",
    "for x in push",
    "case x in x) ",
    ";; esac",
    "[[ ",
    " ]]",
    "[ ",
    " ]",
    "((",
    "))",
    "$((",
    "1<<2",
    "a[",
    "]",
    "*",
    "?",
    "gi[t]",
    "pus?",
    "{git,push}",
    "{",
    "}",
    ",",
    "~",
    "$'",
    "$\"",
    "f() ",
    "f",
    "function f ",
    "echo ",
    "true",
    "cat",
    "-C . ",
    "-c a=b ",
    "FOO=1 ",
    "declare ",
    "let ",
    "<(",
    "<<<",
    "=",
    "$",
    "E",
    "1",
    "\t",
    "set -- ",
    "\"$@\"",
    "trap ",
    " EXIT",
    "coproc ",
    "select ",
];

fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let bin = dir.path().join("bin");
    std::fs::create_dir_all(&bin).expect("made");
    std::fs::create_dir(dir.path().join("tmp")).expect("made");
    // Sees the command that git would, whatever options of its own stand before it.
    let git = format!(
        "#!/bin/bash\nwhile [[ $1 == -* ]]; do [[ $1 == -[Cc] ]] && shift; shift; done\n\
         [[ $1 == push ]] && echo >> {}/tmp/pushed\nexit 0\n",
        dir.path().display()
    );
    std::fs::write(bin.join("git"), git).expect("written");
    std::fs::set_permissions(bin.join("git"), PermissionsExt::from_mode(0o755)).expect("set");
    for program in ["bash", "sh", "env", "cat"] {
        let path = Path::new("/bin").join(program);
        let path = if path.exists() {
            path
        } else {
            Path::new("/usr/bin").join(program)
        };
        std::os::unix::fs::symlink(path, bin.join(program)).expect("linked");
    }
    // What a pattern of file names may turn into.
    for name in ["git", "push"] {
        std::fs::write(dir.path().join("tmp").join(name), "").expect("written");
    }
    dir
}

async fn pushes(dir: &Path, shell: &str, text: &str) -> bool {
    let marker = dir.join("tmp/pushed");
    let mut command = Command::new([shell, "-c", text], dir.join("tmp"));
    command.env = vec![("PATH".into(), dir.join("bin").into())];
    command.time = Some(Duration::from_secs(2));
    command.grace = Duration::ZERO;
    command.policy = Policy {
        level: Level::ReadOnly,
        network: false,
        writable: vec![dir.join("tmp")],
        ..Policy::unconfined()
    };
    run(command).await;
    std::fs::remove_file(marker).is_ok()
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(300)
}

#[test]
fn what_a_shell_takes_for_a_git_push_is_not_allowed() {
    let dir = place();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let rules = Rules {
        deny: vec!["shell(git push *)".to_owned()],
        ..Rules::default()
    };
    let gate = Gate::new(&rules, Level::WorkspaceWrite).expect("good rules");
    let allowed = |command: &str| {
        matches!(
            gate.decide(&Action::Shell { command }, &BTreeSet::new()),
            Decision::Allow(_)
        )
    };
    // The rig itself sees a push.
    assert!(runtime.block_on(pushes(dir.path(), "/bin/bash", "git -C . push")));
    assert!(!runtime.block_on(pushes(dir.path(), "/bin/bash", "git status push")));
    let pieces = prop::collection::vec(prop::sample::select(PIECES), 1..14);
    let config = ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(pieces in pieces, end in prop::sample::select(&["", "git push", " push", " git push\n2", "git push\nE\n"][..]))| {
        let text = pieces.concat() + end;
        if allowed(&text) {
            for shell in ["/bin/bash", "/bin/sh"] {
                let pushed = runtime.block_on(pushes(dir.path(), shell, &text));
                prop_assert!(!pushed, "{} pushes with {:?}", shell, text);
            }
        }
    });
}
