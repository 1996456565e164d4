//! Killed anywhere: the real binary dies by SIGKILL after any record of its journals, is started again,
//! and everything ends as it would have. `RONDE_TEST_KILL_AFTER` names the record (debug builds only).

mod anywhere;
mod asked;
mod orphans;
mod served;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use ronde_protocol::{RunId, outcome::Outcome};
use ronde_state::{home::Home, local::LocalReader, run::RunState};
use ronde_tests::{Bench, Ended, end_of, git};
use rustix::process::Signal;

use crate::bench;

/// Sweeps at the same time: a run mostly waits for git and for the disk.
const THREADS: u64 = 3;

/// How a run that a dead process left is taken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Continue,
    Serve,
}

impl By {
    fn of(number: u64) -> Self {
        if number.is_multiple_of(2) {
            Self::Continue
        } else {
            Self::Serve
        }
    }
}

/// A project with one loop, `.ronde/loops/it.toml`, and how its repository looked at first.
struct Project {
    bench: Bench,
    root: PathBuf,
    before: String,
}

impl Project {
    fn new(files: &[(&str, &str)]) -> Self {
        let bench = bench();
        let root = bench.project("project", files);
        let before = face(&root);
        Self {
            bench,
            root,
            before,
        }
    }

    fn file(&self) -> String {
        self.root
            .join(".ronde/loops/it.toml")
            .to_string_lossy()
            .into_owned()
    }

    /// Starts its loop by hand.
    fn run(&self) -> Ended {
        self.bench.ronde(["run", &self.file(), "--json"])
    }

    /// Runs `ronde` until it dies after a number of records.
    #[track_caller]
    fn killed(&self, after: u64, args: &[&str]) {
        let ended = self.maybe_killed(after, args);
        assert_eq!(ended.code, None, "it was to die: {ended:?}");
    }

    /// Runs `ronde` until it dies after a number of records, if it writes that many.
    fn maybe_killed(&self, after: u64, args: &[&str]) -> Ended {
        let mut command = self.bench.command(args);
        end_of(command.env("RONDE_TEST_KILL_AFTER", after.to_string()))
    }

    /// The home, read from its journal.
    fn home(&self) -> Arc<Home> {
        let reader = LocalReader::open(&self.bench.home()).expect("the home journal folds");
        reader.home()
    }

    /// The only run there is, if there is one.
    fn the_run(&self) -> Option<RunId> {
        let home = self.home();
        let runs: Vec<_> = home.runs().map(|run| run.run.clone()).collect();
        assert!(runs.len() <= 1, "one start is one firing: {runs:?}");
        runs.into_iter().next()
    }

    /// How a run stands by its own journal; none where it has not begun.
    fn state(&self, run: &RunId) -> Option<RunState> {
        let reader = LocalReader::open(&self.bench.home()).expect("the home journal folds");
        let records = reader.read_run(run, 1).expect("the run's journal reads");
        RunState::fold(&records).expect("the run's journal folds")
    }

    /// How many records both journals hold.
    fn records(&self, run: &RunId) -> u64 {
        self.home().seq() + self.state(run).map_or(0, |state| state.seq)
    }

    /// Takes a run up that is not at its end, until it ends or rests.
    #[track_caller]
    fn take_up(&self, run: &RunId, by: By) -> Outcome {
        match by {
            By::Continue => {
                let ended = self.bench.ronde(["continue", run.as_str(), "--json"]);
                let last = ended.run_ended();
                serde_json::from_value(last["outcome"].clone()).expect("an outcome")
            }
            By::Serve => {
                let mut serve = self.bench.start(["serve", &self.root.to_string_lossy()]);
                serve.wait_for("serving");
                let logs = self
                    .bench
                    .ronde(["logs", run.as_str(), "--follow", "--json"]);
                assert!(logs.stdout.contains("run_ended"), "{logs:?}");
                serve.signal(Signal::TERM);
                assert_eq!(serve.end().0, Some(0));
                let state = self.state(run).expect("the run has begun");
                state.outcome().expect("the run rests")
            }
        }
    }

    /// Lets a `serve` look at the home once.
    #[track_caller]
    fn serve_once(&self) {
        let mut serve = self.bench.start(["serve", &self.root.to_string_lossy()]);
        serve.wait_for("serving");
        serve.signal(Signal::TERM);
        assert_eq!(serve.end().0, Some(0));
    }

    /// Holds what is true after every run that ended `done` with a change: nothing is alive, nothing is
    /// left, and the repository has the result on the branches named and is otherwise as it was.
    #[track_caller]
    fn assert_done(&self, run: &RunId, tree: &str, branches: &[String]) -> RunState {
        self.bench.wait_until_nothing_is_left();
        assert_eq!(self.the_run().as_ref(), Some(run));
        let home = self.home();
        let summary = home.run(run).expect("the home knows the run");
        assert_eq!(
            (summary.outcome, summary.changed),
            (Some(Outcome::Done), true),
            "{summary:?}"
        );
        let state = self.state(run).expect("the run has begun");
        let end = state.ended.as_ref().expect("the run has ended");
        assert_eq!((end.outcome, end.changed), (Outcome::Done, true));
        let result = format!("ronde/{run}");
        assert_eq!(summary.branch.as_ref(), Some(&result));
        assert_eq!(tree_of(&self.root, &result), tree);
        let mut expected = vec!["refs/heads/main".to_owned()];
        expected.extend(branches.iter().map(|branch| format!("refs/heads/{branch}")));
        expected.push(format!("refs/heads/{result}"));
        expected.sort();
        assert_eq!(refs(&self.root), expected);
        assert_eq!(face(&self.root), self.before, "the repository is touched");
        let folder = self.bench.home().join("runs").join(run.as_str());
        for left in ["work", "check", "index", "tmp"] {
            assert!(!folder.join(left).exists(), "{left} of {run} is left");
        }
        assert_paid(&self.bench);
        state
    }
}

/// Every call that was reserved is settled.
#[track_caller]
fn assert_paid(bench: &Bench) {
    let calls = |kind: &str| {
        let events = bench.home_journal().into_iter();
        let of = events.filter(|record| record["event"]["type"] == kind);
        let mut calls: Vec<_> = of
            .map(|record| record["event"]["call"].to_string())
            .collect();
        calls.sort();
        calls
    };
    assert_eq!(calls("reserved"), calls("settled"));
}

/// All there is to see of a repository but its branches below `ronde/` and its objects.
fn face(root: &Path) -> String {
    let config = std::fs::read_to_string(root.join(".git/config")).expect("a configuration");
    let mut folder: Vec<_> = std::fs::read_dir(root.join(".git"))
        .expect("a repository")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    folder.sort();
    [
        git(root, &["symbolic-ref", "HEAD"]),
        git(root, &["rev-parse", "main"]),
        git(root, &["status", "--porcelain", "--ignored"]),
        git(root, &["worktree", "list"]),
        git(root, &["ls-files", "--stage"]),
        config,
        format!("{folder:?}"),
    ]
    .join("\n")
}

fn tree_of(root: &Path, branch: &str) -> String {
    git(root, &["rev-parse", &format!("{branch}^{{tree}}")])
}

fn refs(root: &Path) -> Vec<String> {
    let refs = git(root, &["for-each-ref", "--format=%(refname)"]);
    let mut refs: Vec<_> = refs.lines().map(str::to_owned).collect();
    refs.sort();
    refs
}

/// Does something for every number from 1 to `last`, several at a time. A failure names its number.
fn sweep(last: u64, each: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(1);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number > last {
                        return;
                    }
                    let _named = Named(number);
                    each(number);
                }
            });
        }
    });
}

/// Says at which number a sweep broke.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("killed after record {}", self.0);
        }
    }
}
