//! Any program as a worker.

use std::time::Duration;

use ronde_protocol::{
    outcome::{Exit, Limit},
    work::{EndReason, Progress},
};
use ronde_worker::{Agent, TimeLimit};

use crate::support::{Bed, CANARY, canary, failed, sh};

#[tokio::test]
async fn the_prompt_comes_on_stdin_and_as_a_private_file() {
    let bed = Bed::new();
    let argv = [
        "sh",
        "-c",
        "cat; echo; cat \"$0\"; ls -l \"$0\" | cut -c1-10; echo made > x",
        "{prompt_file}",
    ];
    let end = bed
        .run(Agent::Command {
            argv: argv.map(String::from).to_vec(),
        })
        .await;
    assert_eq!(end.reason, EndReason::Finished, "{end:?}");
    let want = "The prompt, é.\nThe prompt, é.-rw-------\n";
    assert_eq!(String::from_utf8(bed.output()).expect("text"), want);
    assert_eq!(
        (end.claim.as_str(), end.exit),
        (want.trim(), Some(Exit::Code { code: 0 }))
    );
    assert!(
        !end.metered && bed.path("work/x").exists() && !bed.path("work/ronde-prompt.md").exists()
    );
}

#[tokio::test]
async fn a_prompt_that_nobody_reads_hangs_nobody() {
    let mut bed = Bed::new();
    bed.request.prompt = "x".repeat(4 * 1024 * 1024);
    assert_eq!(bed.sh("exit 0").await.reason, EndReason::Finished);
}

#[tokio::test]
async fn how_it_ends_is_told_truly() {
    let bed = Bed::new();
    let end = bed.sh("echo words; exit 7").await;
    assert!(
        failed(&end).contains("exit code 7") && failed(&end).contains("words"),
        "{end:?}"
    );
    let end = bed.sh("kill -9 $$").await;
    assert!(failed(&end).contains("signal 9"), "{end:?}");
    let missing = Agent::Command {
        argv: vec!["no-such-program".into()],
    };
    let end = bed.run(missing).await;
    assert!(
        matches!(&end.reason, EndReason::Unstartable { error } if error.contains("no-such-program")),
        "{end:?}"
    );
    let end = bed.run(Agent::Command { argv: vec![] }).await;
    assert!(
        matches!(end.reason, EndReason::Unstartable { .. }),
        "{end:?}"
    );
    let mut nowhere = Bed::new();
    nowhere.request.output = nowhere.path("nowhere/output");
    let end = nowhere.sh("true").await;
    assert!(
        matches!(end.reason, EndReason::Unstartable { .. }),
        "{end:?}"
    );
}

#[tokio::test]
async fn a_question_is_text_it_leaves_in_a_file_of_its_own() {
    let bed = Bed::new();
    let end = bed
        .sh("echo 'Which one?' > \"$RONDE_QUESTION_FILE\"; exit 3")
        .await;
    assert_eq!(
        end.reason,
        EndReason::Question {
            text: "Which one?".into()
        }
    );
    // What an earlier attempt left there is none, nor is an empty file.
    assert_eq!(bed.sh("true").await.reason, EndReason::Finished);
    assert_eq!(
        bed.sh(": > \"$RONDE_QUESTION_FILE\"").await.reason,
        EndReason::Finished
    );
    // Nor a link to what the program itself may not read, nor a pipe.
    std::fs::write(bed.path("secret"), "secret").expect("a file");
    let link = format!(
        "ln -s {} \"$RONDE_QUESTION_FILE\"",
        bed.path("secret").display()
    );
    assert_eq!(bed.sh(&link).await.reason, EndReason::Finished);
    assert_eq!(
        bed.sh("mkfifo \"$RONDE_QUESTION_FILE\"").await.reason,
        EndReason::Finished
    );
    // Nor what came after a death by time.
    let mut late = Bed::new();
    late.request.time = Some(TimeLimit::Run(Duration::from_millis(300)));
    let end = late
        .sh("echo q > \"$RONDE_QUESTION_FILE\"; exec sleep 60")
        .await;
    assert_eq!(end.reason, EndReason::Limit { limit: Limit::Time });
}

#[tokio::test]
async fn bytes_that_are_no_text_are_kept_and_shown() {
    let bed = Bed::new();
    let end = bed.sh("printf 'caf\\351'").await;
    assert_eq!(bed.output(), b"caf\xe9");
    assert_eq!(end.claim, "caf\u{fffd}");
}

#[tokio::test]
async fn two_hundred_megabytes_pass_in_bounded_memory() {
    let bed = Bed::new();
    let before = resident();
    let end = bed
        .sh("head -c 200000000 /dev/zero | tr '\\0' x; echo; echo last")
        .await;
    assert_eq!(end.reason, EndReason::Finished);
    let grown = resident().saturating_sub(before);
    // Far less than the output, with room for the tests beside this one.
    assert!(grown < 128 * 1024 * 1024, "{grown} bytes more");
    let size = std::fs::metadata(&bed.request.output)
        .expect("an output")
        .len();
    assert_eq!(size, 200_000_000 + 1 + 5);
    assert!(end.claim.ends_with("last") && end.claim.len() < 5000);
    let news = bed.news.lock().expect("lock");
    assert_eq!(news.last(), Some(&Progress::Output { bytes: size }));
    let longest = news.iter().map(|news| match news {
        Progress::Text { text } => text.len(),
        Progress::Output { .. } => 0,
    });
    assert!(longest.max().expect("news") <= 4096 * 3);
}

/// Bytes of memory this process holds.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages: u64 = statm
        .split(' ')
        .nth(1)
        .and_then(|n| n.parse().ok())
        .expect("a number");
    pages * 4096
}

/// A script that ignores SIGTERM, has a child that left for a group of its own, and tells when it runs.
const STUBBORN: &str = "trap '' TERM; (setsid sh -c 'trap \"\" TERM; echo $$ > pid; echo > up; while :; do sleep 1; done' &) ; while :; do sleep 1; done";

async fn up(bed: &Bed) -> String {
    let up = bed.path("work/up");
    tokio::task::spawn_blocking(move || std::fs::read(up))
        .await
        .expect("no panic")
        .expect("a pipe");
    std::fs::read_to_string(bed.path("work/pid"))
        .expect("a pid")
        .trim()
        .to_owned()
}

fn pipe(bed: &Bed) {
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        bed.path("work/up"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    );
    made.expect("a pipe");
}

#[tokio::test]
async fn a_stop_kills_what_ignores_it_and_what_left() {
    let bed = Bed::new();
    pipe(&bed);
    let (handle, end) = bed.start(sh(STUBBORN)).await;
    let pid = up(&bed).await;
    handle.stop();
    let end = end.await.expect("an end");
    assert_eq!(
        (end.reason, end.exit),
        (EndReason::Stopped, Some(Exit::Stopped))
    );
    assert!(
        !std::path::Path::new("/proc").join(&pid).exists(),
        "{pid} is alive"
    );
}

#[tokio::test]
async fn dropping_the_handle_stops_it() {
    let bed = Bed::new();
    pipe(&bed);
    let (handle, end) = bed.start(sh(STUBBORN)).await;
    let pid = up(&bed).await;
    let over = handle.over();
    drop((handle, end));
    over.await;
    assert!(
        !std::path::Path::new("/proc").join(&pid).exists(),
        "{pid} is alive"
    );
}

#[tokio::test]
async fn time_that_is_up_is_the_runs_or_its_own() {
    let mut bed = Bed::new();
    bed.request.time = Some(TimeLimit::Run(Duration::from_millis(200)));
    let end = bed.sh("exec sleep 60").await;
    assert_eq!(end.reason, EndReason::Limit { limit: Limit::Time });
    bed.request.time = Some(TimeLimit::Attempt(Duration::from_millis(200)));
    let end = bed.sh("exec sleep 60").await;
    assert!(failed(&end).contains("longer than"), "{end:?}");
    assert_eq!(end.exit, Some(Exit::TimedOut));
}

#[tokio::test]
async fn it_writes_its_workspace_and_nothing_else() {
    let bed = Bed::new();
    for outside in ["home/x", "out/x", "x"] {
        let end = bed
            .sh(&format!("echo > {}", bed.path(outside).display()))
            .await;
        assert!(failed(&end).contains("exit code"), "{end:?}");
        assert!(!bed.path(outside).exists());
    }
    let mut read_only = Bed::new();
    read_only.request.access.level = ronde_protocol::access::Level::ReadOnly;
    assert_eq!(
        read_only.sh("echo > \"$TMPDIR/x\"").await.reason,
        EndReason::Finished
    );
    assert!(failed(&read_only.sh("echo > x").await).contains("exit code"));
    let mut hidden = Bed::new();
    std::fs::write(hidden.path("home/key"), "sesame").expect("a file");
    hidden.request.hidden = vec![hidden.path("home")];
    let end = hidden.sh("cat ../home/key").await;
    assert!(!failed(&end).contains("sesame"), "{end:?}");
}

#[tokio::test]
async fn a_secret_of_ronde_itself_never_arrives() {
    let bed = Bed::new();
    let canary = canary();
    // Its parents are not its own to look into either.
    let end = bed.sh("env; for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ; done 2>/dev/null; cat /proc/$PPID/environ; true").await;
    assert_eq!(end.reason, EndReason::Finished);
    let output = String::from_utf8_lossy(&bed.output()).into_owned();
    assert!(output.contains("RONDE_QUESTION_FILE="), "{output}");
    let news = format!("{:?}", bed.news.lock().expect("lock"));
    for (place, text) in [
        ("output", output),
        ("events", news),
        ("end", format!("{end:?}")),
    ] {
        assert!(
            !text.contains(&canary) && !text.contains(CANARY),
            "the canary is in the {place}"
        );
    }
}
