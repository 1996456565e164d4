//! The whole engine as a state machine: schedule, firing, `next`, the journals, the ledger and the inbox
//! on a real home, driven by any sequence of operations with a clock that is set by hand, and killed at
//! any of its writes. What must hold is asserted by [`watcher`], after every operation.
//!
//! One process at a time and one thing after another: what two threads could do to each other is not
//! tried here.

mod fuse;
mod process;
mod watcher;
mod world;

use std::{path::PathBuf, sync::Arc};

use proptest::prelude::*;
use ronde_protocol::{Clock, RunId, Timestamp, handoff::Answer, verdict::Finding};
use ronde_state::{local::LocalStore, store::Store as _};

use self::{
    fuse::{Fuse, Mortal, SetClock},
    process::{Alive, Died, Outside, Process},
    watcher::{OF_LOOP, OF_PROJECT, OF_RUN, Watcher},
    world::{End, Reply},
};
use crate::daemon::Leftovers;

/// The loops of the project: what the worker of the second does reaches beyond its workspace.
const LOOPS: [&str; 2] = ["tight", "loose"];

/// Triggers that a loop file may have.
const TRIGGERS: [&str; 4] = [
    "[[trigger]]\ncron = \"*/20 * * * *\"\ntimezone = \"UTC\"\njitter = \"90s\"\ncatch_up = \"45m\"\n",
    "[[trigger]]\nevery = \"7m\"\ncatch_up = \"10m\"\n",
    "[[trigger]]\ncron = \"0 3 * * *\"\ntimezone = \"Europe/Paris\"\n",
    "[[trigger]]\nevery = \"1h\"\ncatch_up = \"30s\"\njitter = \"5m\"\n",
];

/// Something that happens. Runs and items are chosen among those there are.
#[derive(Debug, Clone)]
enum Op {
    Tick(u16),
    Jump(i32),
    Start(usize, u8),
    Step(prop::sample::Index, Reply),
    Call(prop::sample::Index, u64),
    Settle(prop::sample::Index, Option<u8>),
    Answer(prop::sample::Index, Answer),
    Stop(prop::sample::Index),
    Continue(prop::sample::Index),
    TakeOver(prop::sample::Index),
    Steal(prop::sample::Index, bool),
    Edit(usize, Edit),
    Able(bool),
    Light(Fuse),
    Die(Leftovers),
    Leave(Leftovers),
}

/// What stands in a loop file.
#[derive(Debug, Clone)]
struct Edit {
    triggers: Vec<usize>,
    skip_if_green: bool,
    asks: bool,
    attempts: u8,
    minutes: u16,
}

impl Default for Edit {
    fn default() -> Self {
        Self {
            triggers: vec![0, 1],
            skip_if_green: false,
            asks: true,
            attempts: 2,
            minutes: 600,
        }
    }
}

fn op() -> impl Strategy<Value = Op> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        8 => (1_u16..2000).prop_map(Op::Tick),
        2 => (-200_000_i32..300_000).prop_map(Op::Jump),
        3 => (0_usize..2, 0_u8..6).prop_map(|(of, nonce)| Op::Start(of, nonce)),
        60 => (index(), reply()).prop_map(|(run, reply)| Op::Step(run, reply)),
        16 => (index(), 1_u64..700).prop_map(|(run, tokens)| Op::Call(run, tokens)),
        10 => (index(), prop::option::of(0_u8..=100)).prop_map(|(run, used)| Op::Settle(run, used)),
        14 => (index(), answer()).prop_map(|(item, answer)| Op::Answer(item, answer)),
        2 => index().prop_map(Op::Stop),
        2 => index().prop_map(Op::Continue),
        2 => index().prop_map(Op::TakeOver),
        2 => (index(), any::<bool>()).prop_map(|(run, lapse)| Op::Steal(run, lapse)),
        2 => (0_usize..2, edit()).prop_map(|(of, edit)| Op::Edit(of, edit)),
        2 => any::<bool>().prop_map(Op::Able),
        8 => (0_u8..8, any::<bool>()).prop_map(|(after, written)| Op::Light(Fuse { after, written })),
        3 => leftovers().prop_map(Op::Die),
        2 => leftovers().prop_map(Op::Leave),
    ]
}

fn leftovers() -> impl Strategy<Value = Leftovers> {
    prop_oneof![3 => Just(Leftovers::TakeUp), 1 => Just(Leftovers::Park)]
}

fn reply() -> impl Strategy<Value = Reply> {
    let end = prop_oneof![
        8 => Just(End::Finished),
        1 => Just(End::Failed),
        2 => Just(End::Question),
        1 => Just(End::Approval),
        1 => Just(End::Limit),
        2 => Just(End::Unknown),
        1 => Just(End::Unstartable),
    ];
    let finding = prop_oneof![
        4 => Just(Finding::Fail),
        1 => Just(Finding::Pass),
        1 => Just(Finding::Unknown)
    ];
    let broken = prop::bool::weighted(0.08);
    (end, 0_u8..6, finding, broken).prop_map(|(end, tree, finding, broken)| Reply {
        end,
        tree,
        finding,
        broken,
    })
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        4 => Just(Answer::Text { text: "go on".to_owned() }),
        4 => Just(Answer::Approve),
        1 => Just(Answer::Deny),
        1 => Just(Answer::Close),
        1 => Just(Answer::Expired),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    (
        prop::sample::subsequence(vec![0, 1, 2, 3], 0..=4).prop_shuffle(),
        any::<bool>(),
        prop::bool::weighted(0.8),
        1_u8..4,
        1_u16..1200,
    )
        .prop_map(|(triggers, skip_if_green, asks, attempts, minutes)| Edit {
            triggers,
            skip_if_green,
            asks,
            attempts,
            minutes,
        })
}

/// A home, a project, and the process that owns the home at present.
struct Machine {
    _dir: tempfile::TempDir,
    home: PathBuf,
    files: [PathBuf; 2],
    clock: Arc<SetClock>,
    outside: Outside,
    watcher: Watcher,
    process: Option<Process>,
}

impl Machine {
    async fn new() -> Self {
        // In memory where there is such a folder: processes die here, the machine does not.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let dir = dir.expect("a folder");
        let loops = dir.path().join("project/.ronde/loops");
        std::fs::create_dir_all(&loops).expect("a folder");
        let config = format!("[budget.day]\ntokens = {OF_PROJECT}\n");
        std::fs::write(dir.path().join("project/.ronde/config.toml"), config).expect("a file");
        let start: Timestamp = "2026-12-01T00:00:00.7Z".parse().expect("an instant");
        let mut machine = Self {
            home: dir.path().join("home"),
            files: LOOPS.map(|name| loops.join(format!("{name}.toml"))),
            _dir: dir,
            clock: Arc::new(SetClock::new(start)),
            outside: Outside::default(),
            watcher: Watcher::default(),
            process: None,
        };
        for of in 0..LOOPS.len() {
            machine.write(of, &Edit::default());
        }
        machine.begin(Leftovers::TakeUp).await;
        machine
    }

    fn write(&self, of: usize, edit: &Edit) {
        let name = LOOPS[of];
        let network = name == "loose";
        let asks = match edit.asks {
            true => {
                "[\"stuck\", \"budget\", \"question\", \"approval\", \"unknown-effect\", \"check-broken\"]"
            }
            false => "[]",
        };
        let triggers: String = edit.triggers.iter().map(|at| TRIGGERS[*at]).collect();
        let text = format!(
            "name = \"{name}\"\ngoal = \"g\"\nskip_if_green = {}\n{triggers}\
             [worker]\nagent = \"ronde\"\nmodel = \"scripted/s.json\"\nnetwork = {network}\n\
             [[check]]\nrun = \"true\"\n\
             [budget]\nattempts = {}\ntokens = {OF_RUN}\ntime = \"{}m\"\n\
             [budget.day]\ntokens = {OF_LOOP}\n[handoff]\non = {asks}\n",
            edit.skip_if_green, edit.attempts, edit.minutes
        );
        std::fs::write(&self.files[of], text).expect("a file");
    }

    /// A process takes the home over, as the daemon does.
    async fn begin(&mut self, leftovers: Leftovers) {
        let clock: Arc<dyn Clock> = self.clock.clone();
        let store = LocalStore::open(&self.home, 1, clock).expect("a home");
        self.watcher.reopened(&store, &self.outside).await;
        let mut process = Process::new(Mortal::new(store), Arc::clone(&self.clock));
        let outside = &mut self.outside;
        process
            .recover(leftovers, outside)
            .await
            .expect("nobody kills it");
        for file in &self.files {
            process.serve(file).await.expect("nobody kills it");
        }
        process.look(outside).await.expect("nobody kills it");
        self.watcher
            .look(&process, &self.clock, &self.outside)
            .await;
        self.process = Some(process);
    }

    /// The process dies, and another begins.
    async fn again(&mut self, leftovers: Leftovers) {
        self.process = None;
        self.begin(leftovers).await;
    }

    async fn perform(&mut self, op: &Op) {
        match op {
            Op::Tick(seconds) => self.clock.turn(i64::from(*seconds)),
            Op::Jump(seconds) => self.clock.turn(i64::from(*seconds)),
            Op::Edit(of, edit) => self.write(*of, edit),
            Op::Die(leftovers) => return self.again(*leftovers).await,
            _ => {}
        }
        let process = self.process.as_mut().expect("a process");
        let done = act(process, op, &self.files, &mut self.outside).await;
        match (done, op) {
            (Err(Died), _) => self.again(Leftovers::TakeUp).await,
            (Ok(()), Op::Leave(leftovers)) => self.again(*leftovers).await,
            (Ok(()), _) => {
                self.watcher.look(process, &self.clock, &self.outside).await;
            }
        }
    }

    /// Lets everything come to rest, and looks once more after a restart.
    async fn finish(&mut self) {
        self.again(Leftovers::TakeUp).await;
        let reply = Reply {
            end: End::Finished,
            tree: 1,
            finding: Finding::Fail,
            broken: false,
        };
        for _ in 0..500 {
            let process = self.process.as_mut().expect("a process");
            let Some(run) = process.runs.keys().next().cloned() else {
                break;
            };
            let stepped = process.step(&run, &reply, &mut self.outside).await;
            stepped.expect("nobody kills it");
            self.watcher.look(process, &self.clock, &self.outside).await;
        }
        let process = self.process.as_mut().expect("a process");
        self.watcher.rested(process, &self.outside).await;
        let poked = process.poke(&mut self.outside).await;
        poked.expect("nobody kills it");
        self.again(Leftovers::TakeUp).await;
        let process = self.process.as_ref().expect("a process");
        self.watcher.rested(process, &self.outside).await;
    }
}

/// Does what an operation asks of the process.
async fn act(
    process: &mut Process,
    op: &Op,
    files: &[PathBuf; 2],
    outside: &mut Outside,
) -> Alive<()> {
    let home = process.store.home();
    let at_work: Vec<RunId> = process.runs.keys().cloned().collect();
    let all: Vec<RunId> = home.runs().map(|run| run.run.clone()).collect();
    let among = |index: &prop::sample::Index, runs: &[RunId]| match runs {
        [] => None,
        runs => Some(index.get(runs).clone()),
    };
    match op {
        Op::Start(of, nonce) => process.start(&files[*of], *nonce, outside).await?,
        Op::Step(index, reply) => {
            if let Some(run) = among(index, &at_work) {
                process.step(&run, reply, outside).await?;
            }
        }
        Op::Call(index, tokens) => {
            if let Some(run) = among(index, &process.attempting()) {
                process.call(&run, *tokens).await?;
            }
        }
        Op::Settle(index, used) => {
            if let Some(run) = among(index, &process.attempting()) {
                process.settle(&run, *used, outside).await?;
            }
        }
        Op::TakeOver(index) => {
            if let Some(run) = among(index, &at_work) {
                process.take_over(&run, outside).await?;
            }
        }
        Op::Steal(index, lapse) => {
            if let Some(run) = among(index, &at_work) {
                process.steal(&run, *lapse, outside).await?;
            }
        }
        Op::Stop(index) => {
            if let Some(run) = among(index, &all) {
                process.stop(&run, outside).await?;
            }
        }
        Op::Continue(index) => {
            if let Some(run) = among(index, &all) {
                process.resume(&run, outside).await?;
            }
        }
        Op::Answer(index, answer) => {
            // Mostly what is open; sometimes what was answered before.
            let open: Vec<_> = home.inbox().open().map(|entry| entry.number).collect();
            let any: Vec<_> = home.inbox().entries().map(|entry| entry.number).collect();
            let twice: Vec<_> = any.iter().chain(open.repeat(3).iter()).copied().collect();
            if !twice.is_empty() {
                let number = *index.get(&twice);
                process.answer(number, answer.clone(), outside).await?;
            }
        }
        Op::Edit(of, _) => process.serve(&files[*of]).await?,
        Op::Able(able) => process.able = *able,
        Op::Light(fuse) => {
            process.store.light(*fuse);
            return Ok(());
        }
        Op::Leave(_) => return process.leave(outside).await,
        Op::Tick(_) | Op::Jump(_) | Op::Die(_) => {}
    }
    process.look(outside).await
}

fn run(ops: &[Op]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut machine = Machine::new().await;
        for op in ops {
            machine.perform(op).await;
        }
        machine.finish().await;
    });
}

fn cases() -> ProptestConfig {
    ProptestConfig {
        cases: std::env::var("PROPTEST_CASES")
            .ok()
            .and_then(|cases| cases.parse().ok())
            .unwrap_or(64),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn whatever_happens_the_invariants_hold(ops in prop::collection::vec(op(), 20..80)) {
        run(&ops);
    }
}
