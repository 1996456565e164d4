//! Journals that are torn at their end, which is what a power cut does, and damaged in the middle, which
//! is what nothing of ronde does: the first is mended and told, the second stops what it touches alone.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
};

use ronde_tests::{Bench, git, write};
use rustix::process::Signal;

use crate::bench;

/// A project whose worker waits for a file `go` beside it, and a run of it that was interrupted.
struct Resting {
    bench: Bench,
    root: PathBuf,
    run: String,
}

impl Resting {
    fn new() -> Self {
        let bench = bench();
        let root = bench.project("project", &[("README", "x\n")]);
        let go = bench.path("go");
        let text = format!(
            r#"
name = "it"
goal = "out is there"
[worker]
command = ["sh", "-c", "echo at work; until test -e '{}'; do sleep 0.1; done; echo x > out"]
[[check]]
run = "test -e out"
"#,
            go.display()
        );
        write(&root, &[(".ronde/loops/it.toml", &text)]);
        let mut this = Self {
            bench,
            root,
            run: String::new(),
        };
        this.run = this.interrupted();
        this
    }

    /// Starts a run, and lets it rest once the worker is at work.
    fn interrupted(&self) -> String {
        let file = self.root.join(".ronde/loops/it.toml");
        let mut running = self
            .bench
            .start(["run".as_ref(), file.as_os_str(), "--json".as_ref()]);
        let line = running.wait_for("\"progress\"");
        let event: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        running.signal(Signal::INT);
        assert_eq!(running.end().0, Some(22));
        event["run"].as_str().expect("a run").to_owned()
    }

    fn journal(&self, run: &str) -> PathBuf {
        self.bench
            .home()
            .join("runs")
            .join(run)
            .join("journal.jsonl")
    }

    fn home_journal(&self) -> PathBuf {
        let folder = fs::read_dir(self.bench.home().join("home/journal")).expect("a folder");
        let mut files: Vec<_> = folder
            .map(|entry| entry.expect("an entry").path())
            .collect();
        files.sort();
        files.pop().expect("a journal")
    }

    /// Lets the worker finish from now on.
    fn go(&self) {
        fs::write(self.bench.path("go"), "").expect("a file");
    }
}

fn append(file: &Path, text: &[u8]) {
    let mut file = OpenOptions::new()
        .append(true)
        .open(file)
        .expect("a journal");
    file.write_all(text).expect("it is written");
}

/// Changes a letter inside the second line of a journal, and gives the offset of that line.
fn damage(file: &Path) -> usize {
    let mut bytes = fs::read(file).expect("a journal");
    let line = bytes
        .iter()
        .position(|byte| *byte == b'\n')
        .expect("a line")
        + 1;
    assert!(bytes[line..].iter().filter(|byte| **byte == b'\n').count() > 1);
    let colon = bytes[line..]
        .iter()
        .position(|byte| *byte == b':')
        .expect("a field");
    bytes[line + colon - 2] ^= 1;
    fs::write(file, bytes).expect("a journal");
    line
}

#[test]
fn a_torn_tail_is_cut_and_told() {
    let resting = Resting::new();
    let half = "{\"v\":1,\"seq\":99,\"epoch\":1,\"at\":\"2026-";
    append(&resting.journal(&resting.run), half.as_bytes());
    append(&resting.home_journal(), half.as_bytes());
    // Those who only read go on too.
    assert_eq!(
        resting.bench.lines(["runs", "--json"])[0]["outcome"],
        "interrupted"
    );
    assert_eq!(resting.bench.ronde(["show", &resting.run]).code, Some(0));
    resting.go();
    let ended = resting.bench.ronde(["continue", &resting.run, "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.run_ended()["outcome"], "done");
    for file in [resting.journal(&resting.run), resting.home_journal()] {
        let name = file.display().to_string();
        assert!(
            ended.stderr.contains(&name),
            "nothing of {name}: {}",
            ended.stderr
        );
        assert!(!fs::read_to_string(&file).expect("text").contains(half));
    }
    assert_eq!(
        resting
            .bench
            .journal(&resting.run)
            .last()
            .expect("a record")["event"]["type"],
        "ended"
    );
}

#[test]
fn damage_in_one_run_stops_that_run_alone() {
    let resting = Resting::new();
    let other = resting.interrupted();
    let journal = resting.journal(&resting.run);
    let offset = damage(&journal);
    let damaged = fs::read(&journal).expect("a journal");
    resting.go();

    let at = format!("{} is damaged at byte {offset}", journal.display());
    for args in [
        ["continue", &resting.run],
        ["show", &resting.run],
        ["logs", &resting.run],
    ] {
        let ended = resting.bench.ronde(args);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.contains(&at), "no {at:?} in {ended:?}");
    }
    let ended = resting.bench.ronde(["continue", &other, "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let file = resting.root.join(".ronde/loops/it.toml");
    let ended = resting
        .bench
        .ronde(["run".as_ref(), file.as_os_str(), "--json".as_ref()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    // `serve` tells of it and goes on with the others.
    let mut serve = resting
        .bench
        .start(["serve".as_ref(), resting.root.as_os_str()]);
    serve.wait_for("serving");
    serve.signal(Signal::TERM);
    assert_eq!(serve.end().0, Some(0));

    let runs = resting.bench.lines(["runs", "--json"]);
    let of = |run: &str| {
        runs.iter()
            .find(|row| row["run"] == run)
            .expect("a row")
            .clone()
    };
    assert_eq!(of(&other)["outcome"], "done");
    assert_ne!(of(&resting.run)["outcome"], "done");
    assert_eq!(
        fs::read(&journal).expect("a journal"),
        damaged,
        "it is kept as it is"
    );
    let branches = git(&resting.root, &["branch", "--list", "ronde/*"]);
    assert!(!branches.contains(&resting.run), "{branches}");
}

#[test]
fn damage_in_the_home_stops_all_and_overwrites_nothing() {
    let resting = Resting::new();
    let journal = resting.home_journal();
    let offset = damage(&journal);
    let damaged = fs::read(&journal).expect("a journal");
    let at = format!("{} is damaged at byte {offset}", journal.display());
    let file = resting
        .root
        .join(".ronde/loops/it.toml")
        .display()
        .to_string();
    let root = resting.root.display().to_string();
    for args in [
        vec!["run", &file],
        vec!["continue", &resting.run],
        vec!["serve", &root],
        vec!["runs"],
        vec!["inbox"],
        vec!["status"],
        vec!["show", &resting.run],
    ] {
        let ended = resting.bench.ronde(&args);
        assert_eq!(ended.code, Some(1), "{args:?}: {ended:?}");
        assert!(
            ended.stderr.contains(&at),
            "no {at:?} in {args:?}: {ended:?}"
        );
    }
    assert_eq!(
        fs::read(&journal).expect("a journal"),
        damaged,
        "it is kept as it is"
    );
}

/// A run that was killed at work and cannot be read any more does not stand in the way of its loop.
#[test]
fn damage_in_a_run_that_was_killed_at_work_blocks_nobody() {
    let rest = Resting::new();
    let file = rest.root.join(".ronde/loops/it.toml");
    let mut running = rest
        .bench
        .start(["run".as_ref(), file.as_os_str(), "--json".as_ref()]);
    let line = running.wait_for("\"progress\"");
    let event: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    let killed = event["run"].as_str().expect("a run").to_owned();
    running.kill();
    rest.bench.wait_until_nothing_is_left();
    damage(&rest.journal(&killed));
    rest.go();
    let ended = rest
        .bench
        .ronde(["run".as_ref(), file.as_os_str(), "--json".as_ref()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let rows = rest.bench.lines(["runs", "--json"]);
    let row = rows.iter().find(|row| row["run"] == killed.as_str());
    let row = row.expect("the run is known");
    assert_eq!(row["outcome"], "failed");
    let reason = row["reason"].as_str().expect("a reason");
    assert!(reason.contains("damaged at byte"), "{reason}");
}
