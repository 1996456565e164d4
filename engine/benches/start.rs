//! What the whole program costs: to start, to take a run that does nothing from end to end, and to
//! serve loops that do not come due for months. It drives the binary as a person does and prints
//! figures; it asserts none, since machines differ and are busy. What is compared takes turns.
//!
//! `cargo bench -p ronde --bench start [-- start | run | idle]`; `idle` looks on for a minute.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use serde_json::Value;

const RONDE: &str = env!("CARGO_BIN_EXE_ronde");

/// How often each program is started.
const STARTS: usize = 51;
/// How often each run is taken.
const RUNS: usize = 15;
/// Loops of the idle `serve`.
const LOOPS: usize = 10;
/// How long it is left alone before it is looked at, so that what starting brings is over.
const SETTLE: Duration = Duration::from_secs(5);
/// How long it is looked at.
const LOOK: Duration = Duration::from_secs(60);

fn main() {
    let asked: Vec<_> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with("--"))
        .collect();
    let parts: [(&str, fn()); 3] = [("start", start), ("run", run), ("idle", idle)];
    for (name, part) in parts {
        if asked.is_empty() || asked.iter().any(|asked| asked == name) {
            part();
        }
    }
}

fn dir() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder on the build's disk")
}

#[expect(
    clippy::disallowed_methods,
    reason = "the program is looked at from outside, as the shell would start it"
)]
fn command(program: impl AsRef<Path>) -> Command {
    Command::new(program.as_ref())
}

#[expect(clippy::disallowed_methods, reason = "to compare with the journal's")]
fn now() -> Timestamp {
    Timestamp::now()
}

/// Runs a command that must succeed and says how long it took.
fn timed(command: &mut Command) -> Duration {
    let began = Instant::now();
    let output = command.output().expect("it starts");
    let took = began.elapsed();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    took
}

fn median(mut of: Vec<Duration>) -> Duration {
    of.sort_unstable();
    of.get(of.len() / 2).copied().unwrap_or_default()
}

fn ms(of: Duration) -> f64 {
    of.as_secs_f64() * 1000.0
}

/// `ronde --version` and `ronde validate` against a program that does nothing.
fn start() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../examples/nightly-green/loop.toml"
    );
    let home = dir();
    let all: [(&str, &str, &[&str]); 4] = [
        ("true", "true", &[]),
        ("git --version", "git", &["--version"]),
        ("ronde --version", RONDE, &["--version"]),
        ("ronde validate", RONDE, &["validate", file]),
    ];
    let mut took = [const { Vec::new() }; 4];
    for _ in 0..STARTS {
        for ((_, program, args), took) in all.iter().zip(&mut took) {
            let mut command = command(program);
            command.args(*args).env("RONDE_HOME", home.path());
            took.push(timed(&mut command));
        }
    }
    let [bare, ..] = took.clone().map(median);
    println!("start, median of {STARTS} (target: under 20 ms)");
    for ((name, ..), took) in all.iter().zip(took) {
        let took = median(took);
        let times = took.as_secs_f64() / bare.as_secs_f64();
        println!("  {name:<16} {:6.2} ms  {times:5.2} times `true`", ms(took));
    }
    println!();
}

/// A repository of one file, with loops beside it.
fn project(root: &Path) {
    fs::create_dir_all(root).expect("a new folder");
    fs::write(root.join("a.txt"), "one line\n").expect("written");
    let git = |args: &[&str]| {
        let mut git = command("git");
        git.args(["-c", "user.name=bench", "-c", "user.email=bench@localhost"]);
        timed(git.args(args).current_dir(root));
    };
    git(&["init", "--quiet", "--initial-branch", "main"]);
    git(&["add", "a.txt"]);
    git(&["commit", "--quiet", "--message", "one file"]);
}

/// A git that notes how long the real one took: nothing but a process and the work it does.
fn shim(folder: &Path, log: &Path) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let real = std::env::split_paths(&path)
        .map(|folder| folder.join("git"))
        .find(|git| git.is_file())
        .expect("git on the PATH");
    fs::create_dir_all(folder).expect("a new folder");
    let script = format!(
        "#!/bin/bash\nbegan=$EPOCHREALTIME\n'{}' \"$@\"\ncode=$?\nended=$EPOCHREALTIME\n\
         printf '%s %s' $((${{ended/./}} - ${{began/./}})) >>'{}'\n\
         while [ \"$1\" = -c ]; do shift 2; done\nprintf '%s\\n' \"$*\" >>'{}'\nexit $code\n",
        real.display(),
        log.display(),
        log.display(),
    );
    let git = folder.join("git");
    fs::write(&git, script).expect("written");
    fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).expect("executable");
}

/// What the journal of the only run below `home` says: the milliseconds before each kind of event, all
/// of a kind together; before the first since `began`, and after the last until `ended`.
fn phases(home: &Path, began: Timestamp, ended: Timestamp) -> Vec<(String, Duration)> {
    let run = fs::read_dir(home.join("runs")).expect("runs").next();
    let run = run.expect("a run").expect("a folder").path();
    let journal = fs::read_to_string(run.join("journal.jsonl")).expect("its journal");
    let mut before = began;
    let mut phases: Vec<(String, Duration)> = Vec::new();
    let mut add = |name: &str, until: Timestamp| {
        let took = Duration::try_from(until.duration_since(before)).unwrap_or_default();
        before = until;
        match phases.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += took,
            None => phases.push((name.to_owned(), took)),
        }
    };
    for line in journal.lines() {
        let record: Value = serde_json::from_str(line).expect("a record");
        let at = record["at"].as_str().expect("an instant");
        let kind = record["event"]["type"].as_str().expect("a kind");
        add(kind, at.parse().expect("an instant"));
    }
    add("(leaving)", ended);
    phases
}

/// A run whose worker and check do nothing, and one that delivers a line, against the git commands they
/// run and two programs that do nothing.
fn run() {
    for (name, deliver, worker) in [
        ("nothing to do", "none", r#"["true"]"#),
        (
            "one line, delivered on a branch",
            "branch",
            r#"["sh", "-c", "echo more >> a.txt"]"#,
        ),
    ] {
        let dir = dir();
        let root = dir.path().join("project");
        let (bin, log) = (dir.path().join("bin"), dir.path().join("git.log"));
        project(&root);
        shim(&bin, &log);
        let file = root.join("loop.toml");
        let text = format!(
            "name = \"noop\"\ngoal = \"Nothing.\"\n[workspace]\ndeliver = \"{deliver}\"\n\
             [worker]\ncommand = {worker}\n[[check]]\nname = \"nothing\"\nrun = \"true\"\n"
        );
        fs::write(&file, text).expect("written");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let with_shim =
            std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&path)))
                .expect("no colon in it");

        let (mut runs, mut trues, mut gits) = (Vec::new(), Vec::new(), Vec::new());
        let mut parts: BTreeMap<(usize, String), Vec<Duration>> = BTreeMap::new();
        let mut commands: Vec<(String, Vec<Duration>)> = Vec::new();
        for n in 0..RUNS {
            let home = dir.path().join(format!("home-{n}"));
            let ronde = |home: &Path| {
                let mut ronde = command(RONDE);
                ronde.arg("run").arg(&file).env("RONDE_HOME", home);
                ronde
            };
            let began = now();
            runs.push(timed(&mut ronde(&home)));
            for (place, (part, took)) in phases(&home, began, now()).into_iter().enumerate() {
                parts.entry((place, part)).or_default().push(took);
            }
            trues.push(timed(&mut command("true")) + timed(&mut command("true")));
            // Again, to see git alone: the same commands, on the same files, one after the other.
            let home = dir.path().join(format!("home-{n}-git"));
            timed(ronde(&home).env("PATH", &with_shim));
            let mut sum = Duration::ZERO;
            let lines = fs::read_to_string(&log).expect("git was run");
            for (place, line) in lines.lines().enumerate() {
                let (micros, args) = line.split_once(' ').unwrap_or((line, ""));
                let took = Duration::from_micros(micros.parse().expect("a number"));
                sum += took;
                if place == commands.len() {
                    commands.push((args.to_owned(), Vec::new()));
                }
                commands[place].1.push(took);
            }
            gits.push(sum);
            fs::remove_file(&log).expect("the log");
        }

        let (all, git, nothing) = (median(runs), median(gits), median(trues));
        let bare = git + nothing;
        println!("run: {name}, median of {RUNS}");
        println!(
            "  {:.1} ms; its {} git commands alone {:.1} ms, `true` twice {:.1} ms: {:.1} ms over them, {:.1} times",
            ms(all),
            commands.len(),
            ms(git),
            ms(nothing),
            ms(all.saturating_sub(bare)),
            all.as_secs_f64() / bare.as_secs_f64(),
        );
        println!("  until each event of its journal, all of a kind together:");
        for ((_, part), took) in parts {
            println!("    {:7.2} ms  {part}", ms(median(took)));
        }
        println!("  its git commands:");
        for (args, took) in commands {
            println!("    {:7.2} ms  git {}", ms(median(took)), short(&args));
        }
        println!();
    }
}

/// A command line without what differs from run to run, cut to the width of a page.
fn short(args: &str) -> String {
    let words = args.split(' ').map(|word| match word {
        id if id.len() == 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) => "ID",
        path if path.starts_with('/') => "PATH",
        word => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

/// An idle `serve`: its memory, and how often its threads wake.
fn idle() {
    let dir = dir();
    let root = dir.path().join("project");
    project(&root);
    let loops = root.join(".ronde/loops");
    fs::create_dir_all(&loops).expect("a new folder");
    // Far away from any day the bench is likely to run on.
    let month = if now().to_string().get(5..7) < Some("07") {
        12
    } else {
        6
    };
    for n in 0..LOOPS {
        let text = format!(
            "name = \"far-{n}\"\ngoal = \"Nothing.\"\n[[trigger]]\ncron = \"{n} 3 15 {month} *\"\n\
             [worker]\ncommand = [\"true\"]\n[[check]]\nname = \"nothing\"\nrun = \"true\"\n"
        );
        fs::write(loops.join(format!("far-{n}.toml")), text).expect("written");
    }
    let mut ronde = command(RONDE);
    ronde
        .arg("serve")
        .arg(&root)
        .env("RONDE_HOME", dir.path().join("home"));
    let mut serve = ronde.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut said = BufReader::new(serve.stdout.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("it says what it serves");
    let process = PathBuf::from(format!("/proc/{}", serve.id()));

    wait(SETTLE);
    let before = switches(&process);
    wait(LOOK);
    let after = switches(&process);
    let children = fs::read_to_string(process.join(format!("task/{}/children", serve.id())));
    println!(
        "idle: serve of {LOOPS} loops, {} s looked at",
        LOOK.as_secs()
    );
    for field in ["Rss", "Pss", "Private_Dirty"] {
        let mib = memory(&process, field) as f64 / 1024.0;
        println!("  {field:<14} {mib:6.1} MiB");
    }
    println!("  threads        {:4}", after.len());
    println!(
        "  children       {:4}",
        children.unwrap_or_default().split_whitespace().count()
    );
    let woken: Vec<_> = after
        .iter()
        .map(|(thread, (name, count))| {
            let known = before.get(thread).map_or(0, |(_, count)| *count);
            (name, count - known)
        })
        .filter(|(_, count)| *count > 0)
        .collect();
    let sum: u64 = woken.iter().map(|(_, count)| count).sum();
    println!("  wake-ups       {sum:4} a minute (target: close to none)");
    for (name, count) in woken {
        println!("    {name}: {count}");
    }

    let pid = rustix::process::Pid::from_child(&serve);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it lives");
    let status = serve.wait().expect("it ends");
    assert!(status.success(), "serve: {status}");
}

#[expect(clippy::disallowed_methods, reason = "what is measured is a minute")]
fn wait(time: Duration) {
    std::thread::sleep(time);
}

/// Of each thread its name, and how often it went to sleep or was interrupted. A thread that sleeps all
/// the time does neither.
fn switches(process: &Path) -> BTreeMap<String, (String, u64)> {
    let mut threads = BTreeMap::new();
    for entry in fs::read_dir(process.join("task")).expect("it lives") {
        let task = entry.expect("a thread").path();
        let Ok(status) = fs::read_to_string(task.join("status")) else {
            continue;
        };
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(str::trim).unwrap_or_default()
        };
        let count = |name| field(name).parse::<u64>().unwrap_or_default();
        let all = count("voluntary_ctxt_switches:") + count("nonvoluntary_ctxt_switches:");
        let id = task.file_name().unwrap_or_default().to_string_lossy();
        threads.insert(id.into_owned(), (field("Name:").to_owned(), all));
    }
    threads
}

/// A field of the sum over its mappings, in KiB.
fn memory(process: &Path, field: &str) -> u64 {
    let rollup = fs::read_to_string(process.join("smaps_rollup")).expect("it lives");
    let line = rollup
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap_or_default()
}
