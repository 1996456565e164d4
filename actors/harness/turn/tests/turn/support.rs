//! A turn in a temporary folder, everything it does noted in one log.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use ronde_model::{
    CallPlace, Grant, Model, ModelError, Prices, Purse, Refusal, Want,
    scripted::Scripted,
    wire::{Item, Request, Response, render},
};
use ronde_protocol::{
    Amount, ArtefactId, CallId, Digest, MicroUsd, Usage, WorkerName,
    access::{Access, Level, OnAsk, Rules},
    outcome::Limit,
    work::{AttemptEnd, TurnEvent},
};
use ronde_sandbox::gate::Gate;
use ronde_turn::{MAX_OUTPUT, Ports, Recorder, Stop, Tool, Turn};
use serde_json::{Value, json};
use tokio::sync::watch;

/// One thing that happened, in order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Noted {
    /// The purse set something aside for call `n`.
    Reserved(u32),
    /// The model was called.
    Called(u32),
    /// The purse booked.
    Settled(Option<Usage>),
    /// Something was written down.
    Event(TurnEvent),
    /// Bytes were stored.
    Stored(usize),
}

/// Everything a test looks at afterwards.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) noted: Vec<Noted>,
    pub(crate) requests: Vec<Request>,
    pub(crate) artefacts: Vec<Vec<u8>>,
}

impl Log {
    pub(crate) fn events(&self) -> Vec<TurnEvent> {
        let event = |noted: &Noted| match noted {
            Noted::Event(event) => Some(event.clone()),
            _ => None,
        };
        self.noted.iter().filter_map(event).collect()
    }

    /// The results of the tool calls, as the model was given them.
    pub(crate) fn results(&self) -> Vec<(String, bool)> {
        let last = self.requests.last().expect("a request");
        let results = last.items.iter().filter_map(|item| match item {
            Item::ToolResults { results } => Some(results),
            _ => None,
        });
        results
            .flatten()
            .map(|result| (result.content.clone(), result.is_error))
            .collect()
    }
}

/// A look at the world when something is written down.
type Look = Box<dyn Fn(&TurnEvent) + Send + Sync>;

/// A turn to be run.
pub(crate) struct Bed {
    dir: tempfile::TempDir,
    pub(crate) turn: Turn,
    pub(crate) ports: Ports,
    pub(crate) log: Arc<Mutex<Log>>,
    pub(crate) stop: watch::Sender<bool>,
}

/// What is different from the usual bed.
pub(crate) struct Setting {
    pub(crate) level: Level,
    pub(crate) rules: Rules,
    pub(crate) on_ask: OnAsk,
    pub(crate) left: Amount,
    /// The event at which the journal says stop, from 1.
    pub(crate) stop_at: Option<usize>,
    pub(crate) look: Option<Look>,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            level: Level::WorkspaceWrite,
            rules: Rules::default(),
            on_ask: OnAsk::Refuse,
            left: Amount {
                tokens: u64::MAX,
                cost: MicroUsd(u64::MAX),
            },
            stop_at: None,
            look: None,
        }
    }
}

/// A bed with a script of one attempt.
pub(crate) fn bed(script: &Value, setting: Setting) -> Bed {
    priced(&json!({ "attempts": [script] }), setting)
}

/// A bed with a whole script.
pub(crate) fn priced(script: &Value, setting: Setting) -> Bed {
    let scripted =
        Scripted::parse(Path::new("script.json"), &script.to_string()).expect("a script");
    with_model(Arc::new(scripted), setting)
}

/// A bed with any model.
pub(crate) fn with_model(inner: Arc<dyn Model>, setting: Setting) -> Bed {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    for folder in ["work", "tmp"] {
        std::fs::create_dir(at(folder)).expect("a folder");
    }
    let log = Arc::new(Mutex::new(Log::default()));
    let (stop, stopped) = watch::channel(false);
    let access = Access {
        level: setting.level,
        network: false,
        env: vec![],
        rules: setting.rules.clone(),
        on_ask: setting.on_ask,
    };
    let turn = Turn {
        run: "r".into(),
        attempt: 1,
        worker: WorkerName::main(),
        epoch: 1,
        model: "scripted/s".into(),
        max_output: MAX_OUTPUT,
        prompt: "Do it.".into(),
        agents_md: Some("Be brief.".into()),
        tools: Tool::ALL.to_vec(),
        access,
        folder: at("work"),
        tmp: at("tmp"),
        spool: at("spool"),
        hidden: vec![],
        env: vec![("PATH".into(), std::env::var_os("PATH").expect("a PATH"))],
        iterations: 50,
    };
    let notes = Arc::new(Notes {
        log: Arc::clone(&log),
        left: Mutex::new(setting.left),
        stop_at: setting.stop_at,
        look: setting.look,
    });
    let ports = Ports {
        model: Arc::new(Watched {
            inner,
            log: Arc::clone(&log),
        }),
        purse: notes.clone(),
        recorder: notes,
        spawner: ronde_sandbox::test_spawner(),
        gate: Gate::new(&setting.rules, setting.level).expect("good rules"),
        approved: BTreeSet::<Digest>::new(),
        stop: stopped,
        progress: Arc::new(|_| {}),
    };
    Bed {
        dir,
        turn,
        ports,
        log,
        stop,
    }
}

impl Bed {
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("work").join(name)
    }

    pub(crate) fn put(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.file(name), text).expect("a file");
    }

    pub(crate) fn get(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.file(name)).ok()
    }

    pub(crate) async fn run(&self) -> AttemptEnd {
        ronde_turn::run(self.turn.clone(), self.ports.clone()).await
    }

    pub(crate) fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        self.log.lock().expect("no panic under the lock")
    }
}

struct Watched {
    inner: Arc<dyn Model>,
    log: Arc<Mutex<Log>>,
}

#[async_trait::async_trait]
impl Model for Watched {
    async fn call(&self, request: &Request, at: CallPlace) -> Result<Response, ModelError> {
        {
            let mut log = self.log.lock().expect("no panic under the lock");
            log.noted.push(Noted::Called(at.n));
            log.requests.push(request.clone());
        }
        self.inner.call(request, at).await
    }

    fn prices(&self) -> Prices {
        self.inner.prices()
    }
}

struct Notes {
    log: Arc<Mutex<Log>>,
    left: Mutex<Amount>,
    stop_at: Option<usize>,
    look: Option<Look>,
}

impl Notes {
    fn note(&self, noted: Noted) {
        self.log
            .lock()
            .expect("no panic under the lock")
            .noted
            .push(noted);
    }
}

#[async_trait::async_trait]
impl Purse for Notes {
    async fn reserve(&self, want: Want) -> Result<Grant, Refusal> {
        let left = *self.left.lock().expect("no panic under the lock");
        let Some(max_output) = want.fit(left) else {
            return Err(Refusal::Limit(Limit::Tokens));
        };
        self.note(Noted::Reserved(want.n));
        Ok(Grant {
            max_output,
            reserved: want.amount(max_output),
        })
    }

    async fn settle(&self, _call: &CallId, usage: Option<Usage>) {
        if let Some(usage) = usage {
            let mut left = self.left.lock().expect("no panic under the lock");
            *left = left.minus(usage.amount());
        }
        self.note(Noted::Settled(usage));
    }
}

#[async_trait::async_trait]
impl Recorder for Notes {
    async fn record(&self, event: TurnEvent) -> Result<(), Stop> {
        if let Some(look) = &self.look {
            look(&event);
        }
        self.note(Noted::Event(event));
        let events = self
            .log
            .lock()
            .expect("no panic under the lock")
            .events()
            .len();
        if self.stop_at.is_some_and(|at| events >= at) {
            Err(Stop)
        } else {
            Ok(())
        }
    }

    async fn artefact(&self, bytes: &[u8]) -> Result<ArtefactId, Stop> {
        self.note(Noted::Stored(bytes.len()));
        self.log
            .lock()
            .expect("no panic under the lock")
            .artefacts
            .push(bytes.to_vec());
        Ok(ArtefactId::of(bytes))
    }
}

/// Holds everything that is true of every turn against a log.
pub(crate) fn check_laws(log: &Log) -> Result<(), String> {
    check_prefix(log)?;
    check_pairing(log)?;
    check_order(log)
}

/// Invariant 4: each request is a byte prefix of the next.
fn check_prefix(log: &Log) -> Result<(), String> {
    for (n, pair) in log.requests.windows(2).enumerate() {
        let (before, after) = (render(&pair[0]), render(&pair[1]));
        if !after.starts_with(&before) {
            return Err(format!("request {} is not a prefix of the next", n + 1));
        }
    }
    Ok(())
}

/// Every tool call has exactly one result, in the order asked, in the next item.
fn check_pairing(log: &Log) -> Result<(), String> {
    use ronde_model::wire::Block;
    let Some(request) = log.requests.last() else {
        return Ok(());
    };
    let mut all = BTreeSet::new();
    for (at, item) in request.items.iter().enumerate() {
        let asked: Vec<&String> = match item {
            Item::Assistant { blocks } => blocks
                .iter()
                .filter_map(|block| match block {
                    Block::ToolUse { id, .. } => Some(id),
                    _ => None,
                })
                .collect(),
            _ => continue,
        };
        for id in &asked {
            if !all.insert((*id).clone()) {
                return Err(format!("the id {id} is there twice"));
            }
        }
        let given: Vec<&String> = match request.items.get(at + 1) {
            Some(Item::ToolResults { results }) => {
                results.iter().map(|result| &result.id).collect()
            }
            _ => vec![],
        };
        if asked != given {
            return Err(format!("asked {asked:?}, given {given:?}"));
        }
    }
    Ok(())
}

/// Reserve, write down, call, settle, write down; no tool runs while a call is open, and each that
/// starts is written down before and after.
fn check_order(log: &Log) -> Result<(), String> {
    #[derive(Debug, PartialEq)]
    enum At {
        Rest,
        Reserved(u32),
        Started(u32),
        Called,
        Settled,
    }
    let mut at = At::Rest;
    let mut open: Vec<String> = vec![];
    for noted in &log.noted {
        let step = (at, noted);
        at = match step {
            (At::Rest, Noted::Reserved(n)) if open.is_empty() => At::Reserved(*n),
            (At::Reserved(n), Noted::Event(TurnEvent::CallStarted { call, .. }))
                if call.as_str() == format!("r/1/main/{n}/e1") =>
            {
                At::Started(n)
            }
            (At::Started(n), Noted::Called(m)) if n == *m => At::Called,
            // A call that may not be made is given back.
            (At::Started(_), Noted::Settled(Some(usage))) if *usage == Usage::default() => At::Rest,
            (At::Called, Noted::Settled(_)) => At::Settled,
            (At::Settled, Noted::Stored(_)) => At::Settled,
            (At::Settled, Noted::Event(TurnEvent::CallEnded { .. })) => At::Rest,
            (At::Rest, Noted::Event(TurnEvent::ToolStarted { id, .. })) => {
                open.push(id.clone());
                At::Rest
            }
            (At::Rest, Noted::Event(TurnEvent::ToolEnded { id, .. }))
                if open.first() == Some(id) =>
            {
                open.remove(0);
                At::Rest
            }
            (At::Rest, Noted::Stored(_)) => At::Rest,
            (at, noted) => return Err(format!("{noted:?} at {at:?}, open {open:?}")),
        };
    }
    Ok(())
}
