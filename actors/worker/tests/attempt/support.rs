//! A request in a temporary home, and a way to run it.

use std::{
    ffi::OsString,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use ronde_protocol::{
    WorkerName,
    access::{Access, Level, OnAsk, Rules},
    work::{AttemptEnd, EndReason, Progress},
};
use ronde_worker::{Agent, Config, Handle, Request, spawn};
use tokio::sync::oneshot;

/// A variable of this very process: the test runner sets it, and nobody allows it through.
pub(crate) const CANARY: &str = "CARGO_PKG_DESCRIPTION";

/// Its value.
pub(crate) fn canary() -> String {
    std::env::var(CANARY).expect("cargo sets it for every test")
}

pub(crate) struct Bed {
    dir: tempfile::TempDir,
    pub(crate) request: Request,
    pub(crate) news: Arc<Mutex<Vec<Progress>>>,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        for folder in ["work", "tmp", "out", "home", "bin"] {
            std::fs::create_dir(at(folder)).expect("a folder");
        }
        let path = std::env::var_os("PATH").expect("a PATH");
        let path =
            std::env::join_paths(std::iter::once(at("bin")).chain(std::env::split_paths(&path)));
        let request = Request {
            run: "r".into(),
            attempt: 1,
            worker: WorkerName::main(),
            epoch: 1,
            prompt: "The prompt, é.".into(),
            folder: at("work"),
            tmp: at("tmp"),
            access: Access {
                level: Level::WorkspaceWrite,
                network: false,
                env: vec![],
                rules: Rules::default(),
                on_ask: OnAsk::Refuse,
            },
            hidden: vec![],
            env: vec![
                ("PATH".into(), path.expect("a PATH")),
                ("HOME".into(), at("home").into()),
            ],
            output: at("out").join("output"),
            time: None,
            iterations: 9,
            agents_md: None,
            approved: Default::default(),
        };
        Self {
            dir,
            request,
            news: Arc::default(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Puts a program on the `PATH`.
    pub(crate) fn program(&self, name: &str, script: &str) {
        let path = self.path("bin").join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    }

    pub(crate) fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.request.env.push((name.into(), value.into()));
    }

    pub(crate) async fn start(&self, agent: Agent) -> (Handle, oneshot::Receiver<AttemptEnd>) {
        let (outcome, end) = oneshot::channel();
        let news = Arc::clone(&self.news);
        let config = Config {
            request: self.request.clone(),
            agent,
            spawner: ronde_sandbox::test_spawner(),
            outcome,
            progress: Arc::new(move |progress| news.lock().expect("lock").push(progress)),
        };
        (spawn(config, None).await.expect("an actor"), end)
    }

    pub(crate) async fn run(&self, agent: Agent) -> AttemptEnd {
        let (_handle, end) = self.start(agent).await;
        end.await.expect("an end")
    }

    /// Runs a shell script as the worker.
    pub(crate) async fn sh(&self, script: &str) -> AttemptEnd {
        self.run(sh(script)).await
    }

    pub(crate) fn output(&self) -> Vec<u8> {
        std::fs::read(&self.request.output).expect("an output")
    }
}

/// A command that is a shell script.
pub(crate) fn sh(script: &str) -> Agent {
    Agent::Command {
        argv: vec!["sh".into(), "-c".into(), script.into()],
    }
}

/// What went wrong.
pub(crate) fn failed(end: &AttemptEnd) -> &str {
    match &end.reason {
        EndReason::Failed { error } => error,
        other => panic!("{other:?}"),
    }
}
