//! The verifier against real git, real processes and a real sandbox.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use ronde_protocol::{
    ArtefactId, Digest, TreeId, WorkerName,
    outcome::Exit,
    verdict::{Check, Finding, Repeat, Verdict},
};
use ronde_sandbox::{Spawner, test_spawner};
use ronde_verifier::{Artefacts, Config, Error, Request, spawn};
use ronde_workspace::{Base, Git, Seed, Source, Workspace};

struct Kept(PathBuf);

#[async_trait]
impl Artefacts for Kept {
    async fn put_file(&self, file: &Path) -> Result<ArtefactId, String> {
        let bytes = fs::read(file).map_err(|error| error.to_string())?;
        let id = ArtefactId::of(&bytes);
        fs::write(self.0.join(id.as_str()), bytes).map_err(|error| error.to_string())?;
        Ok(id)
    }
}

/// A home with one run: a base of some files, and a tree a worker left.
struct Bench {
    dir: tempfile::TempDir,
    workspace: Workspace,
    spawner: Spawner,
    base: Base,
    tree: TreeId,
}

impl Bench {
    async fn new(base: &[(&str, &str)], work: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let project = dir.path().join("project");
        for (path, content) in base {
            let file = project.join(path);
            fs::create_dir_all(file.parent().expect("a file has a folder")).expect("a folder");
            fs::write(file, content).expect("a file");
        }
        let home = dir.path().join("home");
        fs::create_dir_all(home.join("kept")).expect("a folder");
        fs::write(home.join("secret"), "the home is out of reach").expect("a file");
        let spawner = test_spawner();
        let workspace = Workspace::at(Git::new(spawner.clone()), home.join("runs/r"));
        let seed = Seed {
            folder: project.clone(),
            repo: home.join("seed.git"),
        };
        let source = Source {
            repo: project,
            base: None,
            fetch: false,
            seed: Some(seed),
        };
        let base = workspace.prepare(&source).await.expect("a workspace");
        let worker = WorkerName::main();
        let folder = workspace
            .reset(&worker, &base.tree, &base)
            .await
            .expect("a folder");
        work(&folder);
        let tree = workspace
            .snapshot(&worker, &base)
            .await
            .expect("a snapshot")
            .tree;
        Self {
            dir,
            workspace,
            spawner,
            base,
            tree,
        }
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    fn config(&self, checks: Vec<Check>) -> Config {
        Config {
            request: Request {
                name: "verify-1".to_owned(),
                tree: self.tree.clone(),
                base: self.base.clone(),
                definition: Digest::of("definition"),
                checks,
                protect: vec!["tests/**".to_owned()],
                setup: None,
            },
            workspace: self.workspace.clone(),
            spawner: self.spawner.clone(),
            scratch: self.home().join("runs/r/tmp/verify-1"),
            hidden: vec![self.home()],
            artefacts: Arc::new(Kept(self.home().join("kept"))),
            progress: Arc::new(|_, _| {}),
        }
    }

    async fn judge(&self, checks: Vec<Check>) -> Verdict {
        verdict(self.config(checks)).await.expect("a verdict")
    }

    /// Neither the checkout nor the folder of the verification is there.
    fn is_clean(&self) -> bool {
        let run = self.home().join("runs/r");
        !run.join("check/verify-1").exists() && !run.join("tmp/verify-1").exists()
    }

    async fn finding(&self, run: &str) -> Finding {
        self.judge(vec![check(run)]).await.finding
    }
}

async fn verdict(config: Config) -> Result<Verdict, Error> {
    spawn(config, None).await.expect("an actor").verdict().await
}

fn check(run: &str) -> Check {
    Check {
        name: "c".into(),
        run: run.to_owned(),
        env: vec![],
        timeout_ms: 60_000,
        repeat: Repeat::default(),
    }
}

/// A check that only a stop ends.
fn endless() -> Check {
    Check {
        timeout_ms: 24 * 60 * 60 * 1000,
        ..check("sleep 100000")
    }
}

#[tokio::test]
async fn pass_fail_and_unknown() {
    let bench = Bench::new(&[("a", "1\n")], |folder| {
        fs::write(folder.join("a"), "2\n").expect("a file")
    })
    .await;
    assert_eq!(
        bench.finding("grep -q 2 a").await,
        Finding::Pass,
        "it is the tree the worker left"
    );
    let failed = bench
        .judge(vec![check("echo seen here; echo error: no >&2; exit 3")])
        .await;
    assert_eq!(failed.finding, Finding::Fail);
    assert_eq!(failed.checks[0].exit, Exit::Code { code: 3 });
    assert_eq!(failed.checks[0].tail, "seen here\nerror: no");
    let output = failed.checks[0]
        .output
        .as_ref()
        .expect("the whole output is kept");
    assert_eq!(
        fs::read(bench.home().join("kept").join(output.as_str())).expect("a file"),
        b"seen here\nerror: no\n"
    );
    assert_eq!(bench.finding("no-such-program").await, Finding::Unknown);
    assert_eq!(bench.finding("kill -9 $$").await, Finding::Unknown);
    assert_eq!(
        bench.judge(vec![]).await.finding,
        Finding::Unknown,
        "no check is no pass"
    );
    assert!(bench.is_clean());
}

#[tokio::test]
async fn a_check_that_hangs_is_unknown_and_leaves_nothing() {
    let bench = Bench::new(&[("a", "1\n")], |_| {}).await;
    let hang = Check {
        timeout_ms: 2_000,
        ..check(
            "setsid sh -c 'echo $$ > pid; exec sleep 1000' & while [ ! -s pid ]; do :; done; cat pid; sleep 1000",
        )
    };
    let verdict = bench.judge(vec![hang]).await;
    assert_eq!(verdict.checks[0].exit, Exit::TimedOut);
    assert_eq!(verdict.finding, Finding::Unknown);
    let child = verdict.checks[0].tail.trim().to_owned();
    assert!(
        !child.is_empty(),
        "the child told its pid before the time was up"
    );
    assert!(
        !Path::new("/proc").join(&child).exists(),
        "process {child} outlived its check"
    );
}

#[tokio::test]
async fn a_stop_kills_the_check() {
    let bench = Bench::new(&[("a", "1\n")], |_| {}).await;
    let (began, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let config = Config {
        progress: Arc::new(move |_, _| began.send(()).expect("the test listens")),
        ..bench.config(vec![endless()])
    };
    let mut handle = spawn(config, None).await.expect("an actor");
    begins.recv().await.expect("it begins");
    handle.stop();
    assert_eq!(handle.verdict().await, Err(Error::Stopped));
    assert_eq!(handle.verdict().await, Err(Error::Stopped), "it stays so");
    assert!(bench.is_clean());
}

#[tokio::test]
async fn a_protected_change_fails_and_is_not_what_is_run() {
    let base = [
        ("tests/t", "exit 1\n"),
        ("check.sh", "exit 1\n"),
        ("a", "1\n"),
    ];
    let bench = Bench::new(&base, |folder| {
        fs::write(folder.join("tests/t"), "exit 0\n").expect("a file");
    })
    .await;
    let verdict = bench.judge(vec![check("true")]).await;
    assert_eq!(
        verdict.finding,
        Finding::Fail,
        "every check passed, but a protected path changed"
    );
    assert_eq!(verdict.protected, ["tests/t"]);
    let bench = Bench::new(&base, |folder| {
        fs::write(folder.join("check.sh"), "exit 0\n").expect("a file");
    })
    .await;
    let verdict = bench.judge(vec![check("sh ./check.sh")]).await;
    assert_eq!(
        verdict.checks[0].finding,
        Finding::Fail,
        "the base's script ran"
    );
    assert_eq!(verdict.protected, ["check.sh"]);
}

#[tokio::test]
async fn nothing_of_the_worker_or_the_home_arrives() {
    let bench = Bench::new(&[("a", "1\n")], |_| {}).await;
    let secret = bench.home().join("secret");
    assert_eq!(
        bench.finding(&format!("cat {}", secret.display())).await,
        Finding::Fail
    );
    let seen = bench.judge(vec![check("env; exit 1")]).await.checks[0]
        .tail
        .clone();
    for line in seen.lines() {
        let name = line.split('=').next().expect("a name");
        let known = [
            "PATH",
            "LANG",
            "LC_ALL",
            "TZ",
            "TERM",
            "HOME",
            "TMPDIR",
            "CI",
            "CARGO_HOME",
            "RUSTUP_HOME",
            "PWD",
            "SHLVL",
            "_",
            "OLDPWD",
        ];
        assert!(known.contains(&name), "{line}");
    }
    assert_eq!(bench.finding("touch ~/x $TMPDIR/x x").await, Finding::Pass);
    let outside = bench.dir.path().join("project/x");
    assert_eq!(
        bench.finding(&format!("touch {}", outside.display())).await,
        Finding::Fail
    );
    assert!(
        !bench
            .workspace
            .folder(&WorkerName::main())
            .join("x")
            .exists()
    );
}

#[tokio::test]
async fn a_flaky_check_needs_its_passes() {
    let bench = Bench::new(&[("a", "1\n")], |_| {}).await;
    // Fails the first time it runs in a checkout.
    let flaky = |pass| Check {
        repeat: Repeat { times: 3, pass },
        ..check("test -e seen || { touch seen; exit 1; }")
    };
    let verdict = bench.judge(vec![flaky(2)]).await;
    assert_eq!(
        (verdict.finding, verdict.checks[0].passes),
        (Finding::Pass, Some((2, 3)))
    );
    let verdict = bench.judge(vec![flaky(3)]).await;
    assert_eq!(
        (verdict.finding, verdict.checks[0].passes),
        (Finding::Fail, Some((0, 1)))
    );
    let once = Check {
        repeat: Repeat { times: 3, pass: 2 },
        ..check("test ! -e seen && touch seen")
    };
    let verdict = bench.judge(vec![once]).await;
    assert_eq!(
        (verdict.finding, verdict.checks[0].passes),
        (Finding::Fail, Some((1, 3)))
    );
    let unknown = Check {
        repeat: Repeat { times: 2, pass: 1 },
        ..check("test -e seen || { touch seen; kill -9 $$; }")
    };
    let verdict = bench.judge(vec![unknown]).await;
    assert_eq!(
        (verdict.finding, verdict.checks[0].passes),
        (Finding::Unknown, Some((0, 1)))
    );
}

#[tokio::test]
async fn a_setup_that_fails_leaves_every_check_unknown() {
    let bench = Bench::new(&[("a", "1\n")], |_| {}).await;
    let mut config = bench.config(vec![check("true")]);
    config.request.setup = Some("echo no network >&2; exit 7".to_owned());
    let judged = verdict(config).await.expect("a verdict");
    assert_eq!(judged.finding, Finding::Unknown);
    assert_eq!(judged.checks[0].tail, "no network");
    let mut config = bench.config(vec![check("cat made")]);
    config.request.setup = Some("echo x > made".to_owned());
    assert_eq!(
        verdict(config).await.expect("a verdict").finding,
        Finding::Pass
    );
}

#[tokio::test]
async fn a_tree_that_is_not_there_is_an_error_and_no_verdict() {
    let bench = Bench::new(&[("a", "1\n")], |_| {}).await;
    let mut config = bench.config(vec![check("true")]);
    config.request.tree = TreeId::new("0".repeat(40));
    assert!(matches!(verdict(config).await, Err(Error::Checkout(_))));
}

#[tokio::test]
async fn a_panic_is_an_error_and_no_verdict() {
    let bench = Bench::new(&[("a", "1\n")], |_| {}).await;
    let config = Config {
        progress: Arc::new(|_, _| panic!("a broken screen")),
        ..bench.config(vec![check("true")])
    };
    assert!(matches!(verdict(config).await, Err(Error::Broken(_))));
    assert!(bench.is_clean());
}

/// Says when nothing of a verification is left: it goes with its config.
struct Gone {
    _until: tokio::sync::mpsc::UnboundedSender<()>,
}

#[async_trait]
impl Artefacts for Gone {
    async fn put_file(&self, _: &Path) -> Result<ArtefactId, String> {
        Err("nothing is kept".to_owned())
    }
}

struct Supervisor;

impl ractor::Actor for Supervisor {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(
        &self,
        _: ractor::ActorRef<()>,
        (): (),
    ) -> Result<(), ractor::ActorProcessingErr> {
        Ok(())
    }
}

#[tokio::test]
async fn an_actor_that_is_killed_leaves_nothing() {
    let bench = Bench::new(&[("a", "1\n")], |_| {}).await;
    let (supervisor, _) = ractor::Actor::spawn(None, Supervisor, ())
        .await
        .expect("an actor");
    let (began, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let (gone, mut is_gone) = tokio::sync::mpsc::unbounded_channel();
    let config = Config {
        progress: Arc::new(move |_, _| began.send(()).expect("the test listens")),
        artefacts: Arc::new(Gone { _until: gone }),
        ..bench.config(vec![endless()])
    };
    let mut handle = spawn(config, Some(supervisor.get_cell()))
        .await
        .expect("an actor");
    begins.recv().await.expect("it begins");
    supervisor.kill();
    assert!(matches!(handle.verdict().await, Err(Error::Broken(_))));
    assert_eq!(is_gone.recv().await, None);
    assert!(bench.is_clean());
}

#[tokio::test]
async fn a_handle_that_is_dropped_stops_the_check() {
    let bench = Bench::new(&[("a", "1\n")], |_| {}).await;
    let (began, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let (gone, mut is_gone) = tokio::sync::mpsc::unbounded_channel();
    let config = Config {
        progress: Arc::new(move |_, _| began.send(()).expect("the test listens")),
        artefacts: Arc::new(Gone { _until: gone }),
        ..bench.config(vec![endless()])
    };
    let handle = spawn(config, None).await.expect("an actor");
    begins.recv().await.expect("it begins");
    drop(handle);
    assert_eq!(is_gone.recv().await, None);
    assert!(bench.is_clean());
}

#[tokio::test]
async fn evidence_far_before_the_end_is_found() {
    let bench = Bench::new(&[("a", "1\n")], |_| {}).await;
    for lines in [3_000, 7_000] {
        let run = format!(
            "echo 'error: the one'; i=0; while [ $i -lt {lines} ]; do echo nothing $i; i=$((i+1)); done; exit 1"
        );
        let tail = bench.judge(vec![check(&run)]).await.checks[0].tail.clone();
        assert!(tail.contains("error: the one\nnothing 0\n"), "{tail}");
        assert!(tail.ends_with(&format!("nothing {}", lines - 1)), "{tail}");
        assert!(tail.len() <= 6_000, "{}", tail.len());
    }
}

#[tokio::test]
async fn what_would_run_in_the_place_of_a_program_is_taken_away() {
    let bench = Bench::new(&[("Makefile", "all:\n\tfalse\n")], |folder| {
        fs::write(folder.join("GNUmakefile"), "all:\n\ttrue\n").expect("a file");
    })
    .await;
    let verdict = bench
        .judge(vec![check("make --version; test ! -e GNUmakefile")])
        .await;
    assert_eq!(verdict.protected, ["GNUmakefile"]);
    assert_eq!(verdict.checks[0].finding, Finding::Pass);
    assert_eq!(verdict.finding, Finding::Fail);
}

#[tokio::test]
async fn a_check_cannot_change_what_a_later_one_goes_by() {
    let base = [("check.sh", "exit 1\n"), ("tests/t", "exit 1\n")];
    let bench = Bench::new(&base, |_| {}).await;
    let cheat =
        "echo exit 0 > check.sh; echo exit 0 > tests/t; echo exit 0 > GNUmakefile; touch seen";
    let checks = |runs: &[&str]| -> Vec<Check> { runs.iter().map(|run| check(run)).collect() };
    let findings = |verdict: &Verdict| -> Vec<Finding> {
        verdict.checks.iter().map(|check| check.finding).collect()
    };
    let runs = [cheat, "test -e seen", "sh ./check.sh", "sh tests/t"];
    let verdict_of = bench.judge(checks(&runs)).await;
    use Finding::{Fail, Pass};
    assert_eq!(findings(&verdict_of), [Pass, Pass, Fail, Fail]);
    assert!(
        verdict_of.protected.is_empty(),
        "the worker changed nothing"
    );
    let mut config = bench.config(checks(&["sh tests/t"]));
    config.request.setup = Some(cheat.to_owned());
    assert_eq!(findings(&verdict(config).await.expect("a verdict")), [Fail]);
    // The repeats of one check, too.
    let again = Check {
        repeat: Repeat { times: 2, pass: 1 },
        ..check("sh tests/t || { echo exit 0 > tests/t; exit 1; }")
    };
    assert_eq!(findings(&bench.judge(vec![again]).await), [Fail]);
}

#[tokio::test]
async fn what_is_kept_of_a_verification_is_out_of_its_checks_reach() {
    let base = [("tests/t", "exit 1\n")];
    let bench = Bench::new(&base, |_| {}).await;
    let copy = bench.home().join("runs/r/tmp/verify-1/protected/0");
    let copy = copy.display();
    let verdict = bench
        .judge(vec![
            check("find $TMPDIR $HOME -mindepth 1 | grep ."),
            check(&format!("cat {copy}")),
            check(&format!("echo exit 0 > {copy}")),
            check("sh tests/t"),
        ])
        .await;
    let findings: Vec<Finding> = verdict.checks.iter().map(|check| check.finding).collect();
    assert_eq!(findings, [Finding::Fail; 4]);
}

#[tokio::test]
async fn nothing_a_check_started_meets_the_next_one() {
    let bench = Bench::new(&[("a", "1\n")], |_| {}).await;
    let daemon = "setsid sh -c 'echo $$ > pid; exec sleep 1000' > /dev/null 2>&1 & while [ ! -s pid ]; do :; done";
    let verdict = bench
        .judge(vec![
            check(daemon),
            check("cat pid && test ! -e /proc/$(cat pid)"),
        ])
        .await;
    assert_eq!(verdict.finding, Finding::Pass, "{:?}", verdict.checks);
}

#[tokio::test]
async fn a_panic_hurts_no_other_verification() {
    let bench = Bench::new(&[("a", "1\n")], |_| {}).await;
    let other = Bench::new(&[("a", "1\n")], |_| {}).await;
    let broken = Config {
        progress: Arc::new(|_, _| panic!("a broken screen")),
        ..bench.config(vec![check("true")])
    };
    let (broken, other) = tokio::join!(verdict(broken), other.judge(vec![check("true")]));
    assert!(matches!(broken, Err(Error::Broken(_))));
    assert_eq!(other.finding, Finding::Pass);
}

#[tokio::test]
async fn the_network_is_for_the_setup_alone() {
    let bench = Bench::new(&[("a", "1\n")], |_| {}).await;
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = server.local_addr().expect("an address").port();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    let mut config = bench.config(vec![check(&connect)]);
    config.request.setup = Some(connect);
    let verdict = verdict(config).await.expect("a verdict");
    assert_eq!(verdict.checks[0].finding, Finding::Fail, "{verdict:?}");
}

#[tokio::test]
async fn what_the_setup_runs_is_the_bases_too() {
    let base = [("setup.sh", "echo base > made\n"), ("a", "1\n")];
    let bench = Bench::new(&base, |folder| {
        fs::write(folder.join("setup.sh"), "echo worker > made\n").expect("a file");
    })
    .await;
    let mut config = bench.config(vec![check("grep -q base made")]);
    config.request.setup = Some("sh ./setup.sh".to_owned());
    let judged = verdict(config).await.expect("a verdict");
    assert_eq!(judged.checks[0].finding, Finding::Pass, "{judged:?}");
    assert_eq!(judged.protected, ["setup.sh"]);
    assert_eq!(judged.finding, Finding::Fail);
}
