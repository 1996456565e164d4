//! The socket: for who can read the home, and nobody else.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
};

use ronde_tests::{git, write};

use crate::bench;

#[test]
fn a_request_without_the_token_is_turned_away() {
    let bench = bench();
    let root = bench.project("p", &[("a", "1\n")]);
    write(
        &root,
        &[(
            ".ronde/loops/l.toml",
            "name = \"l\"\ngoal = \"g\"\n[worker]\ncommand = [\"true\"]\n[[check]]\nrun = \"true\"\n",
        )],
    );
    let mut serve = bench.start(["serve".as_ref(), root.as_os_str()]);
    serve.wait_for("serving");
    let ask = |header: &str| {
        let mut stream = UnixStream::connect(bench.home().join("sock")).expect("it answers");
        let request =
            format!("GET /v1/health HTTP/1.1\r\nhost: r\r\nconnection: close\r\n{header}\r\n");
        stream.write_all(request.as_bytes()).expect("a request");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("a reply");
        reply
    };
    assert!(ask("").starts_with("HTTP/1.1 401"), "{}", ask(""));
    assert!(ask("authorization: Bearer guess\r\n").starts_with("HTTP/1.1 401"));
    let token = std::fs::read_to_string(bench.home().join("token")).expect("the owner reads it");
    let reply = ask(&format!("authorization: Bearer {token}\r\n"));
    assert!(
        reply.starts_with("HTTP/1.1 200") && reply.contains("\"verb\":\"serve\""),
        "{reply}"
    );
}

/// A worker that knows where everything is still cannot speak for a person.
#[test]
fn a_worker_can_neither_read_the_home_nor_use_its_socket() {
    let bench = bench();
    let home = bench.home();
    let script = format!(
        "#!/bin/sh\n\
         export RONDE_HOME='{home}'\n\
         {{ '{ronde}' inbox --json; echo \"inbox $?\"\n\
         '{ronde}' approve 1; echo \"approve $?\"\n\
         cat '{home}/token'; echo \"token $?\"; }} > tried 2>&1\n",
        home = home.display(),
        ronde = env!("CARGO_BIN_EXE_ronde"),
    );
    let root = bench.project("p", &[("worker.sh", &script)]);
    let file = root.join("l.toml");
    write(
        &root,
        &[(
            "l.toml",
            "name = \"l\"\ngoal = \"g\"\n[worker]\ncommand = [\"./worker.sh\"]\n[[check]]\nrun = \"test -s tried\"\n",
        )],
    );
    let ended = bench.ronde(["run".as_ref(), file.as_os_str(), "--json".as_ref()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let branch = ended.run_ended()["branch"]
        .as_str()
        .expect("a branch")
        .to_owned();
    let tried = git(&root, &["show", &format!("{branch}:tried")]);
    for what in ["inbox", "approve", "token"] {
        let line = tried
            .lines()
            .find(|line| line.starts_with(&format!("{what} ")))
            .expect(&tried);
        assert_ne!(line, format!("{what} 0"), "{tried}");
    }
    let token = std::fs::read_to_string(home.join("token")).unwrap_or_default();
    assert!(token.is_empty() || !tried.contains(&token), "{tried}");
}

/// Keys of people and agents lie in their homes, and neither a worker nor a check can read them.
#[test]
fn keys_in_the_persons_home_are_out_of_reach() {
    let bench = bench();
    let user = bench.path("user");
    let keys = [
        ".ssh/id",
        ".claude/.credentials.json",
        ".claude.json",
        ".codex/auth.json",
        ".config/gcloud/key",
        ".cargo/credentials.toml",
        ".local/share/opencode/auth.json",
    ];
    write(&user, &keys.map(|key| (key, "canary\n")));
    write(&user, &[(".plain", "plain\n")]);
    let root = bench.project(
        "p",
        &[(
            "worker.sh",
            "#!/bin/sh\ncat ~/.plain > got\ncat \"$@\" >> got\nexit 0\n",
        )],
    );
    let paths: Vec<_> = keys
        .iter()
        .map(|key| user.join(key).display().to_string())
        .collect();
    let check = paths
        .iter()
        .map(|path| format!("! cat {path}"))
        .collect::<Vec<_>>()
        .join(" && ");
    let text = format!(
        "name = \"l\"\ngoal = \"g\"\n[worker]\ncommand = [\"./worker.sh\", \"{}\"]\n[[check]]\nrun = \"{check}\"\n",
        paths.join("\", \"")
    );
    write(&root, &[("l.toml", &text)]);
    let mut command = bench.command([
        "run".as_ref(),
        root.join("l.toml").as_os_str(),
        "--json".as_ref(),
    ]);
    let ended = ronde_tests::end_of(command.env("HOME", &user));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let branch = ended.run_ended()["branch"]
        .as_str()
        .expect("a branch")
        .to_owned();
    assert_eq!(git(&root, &["show", &format!("{branch}:got")]), "plain");
}
