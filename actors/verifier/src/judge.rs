//! The verification itself, from a tree to a verdict. No actor here.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ronde_protocol::verdict::{Check, CheckResult, Repeat, Verdict};
use ronde_sandbox::{Capture, Command, gate::Purpose};
use ronde_workspace::{Checkout, Rules};
use tokio::{sync::watch, task::JoinSet};

use crate::{
    Config, Error, Request, check, environment, evidence::useful_end, guard::Guard, programs,
    scratch,
};

/// How long a setup may take.
const SETUP: Duration = Duration::from_secs(30 * 60);
/// Bytes of evidence of a setup that failed.
const EVIDENCE: usize = 4_000;

/// Judges a tree. The checks run one after the other in one fresh checkout, in the file's order: a
/// later one sees what an earlier one left there, but for protected files and the programs of checks,
/// which are put back. The checkout is gone when this returns, and every process with it.
///
/// # Errors
/// See [`Error`]: the verification did not take place, which says nothing about the tree.
pub async fn judge(config: Config, stop: watch::Receiver<bool>) -> Result<Verdict, Error> {
    let config = Arc::new(config);
    make_scratch(&config).await?;
    let judged = judge_in(&config, stop).await;
    let folder = config.scratch.clone();
    let removed = tokio::task::spawn_blocking(move || scratch::remove(&folder)).await;
    if let Ok(Err(error)) = removed {
        tracing::warn!(folder = %config.scratch.display(), %error, "a folder of checks could not be removed");
    }
    judged
}

async fn make_scratch(config: &Config) -> Result<(), Error> {
    let folder = config.scratch.clone();
    let made = tokio::task::spawn_blocking(move || scratch::make(&folder)).await;
    let failed = |error: String| Error::Scratch {
        folder: config.scratch.clone(),
        error,
    };
    made.map_err(|error| failed(error.to_string()))?
        .map_err(|error| failed(error.to_string()))
}

async fn judge_in(config: &Arc<Config>, stop: watch::Receiver<bool>) -> Result<Verdict, Error> {
    let request = &config.request;
    let paths = Paths::of(config).await?;
    let rules = Rules {
        protect: request.protect.clone(),
        programs: paths.programs.clone(),
    };
    let checkout = config
        .workspace
        .checkout(&request.name, &request.tree, &request.base, &rules)
        .await
        .map_err(|error| Error::Checkout(error.to_string()))?;
    // In a task of its own: a panic there leaves the checkout to be removed all the same.
    let mut work = JoinSet::new();
    work.spawn(run_all(
        Arc::clone(config),
        checkout.folder.clone(),
        paths,
        stop,
    ));
    let checks = match work.join_next().await {
        Some(Ok(checks)) => checks,
        Some(Err(error)) => Err(Error::Broken(error.to_string())),
        None => Err(Error::Broken("nothing was checked".to_owned())),
    };
    // Whatever came of it, nothing of it stays.
    if let Err(error) = config.workspace.remove_checkout(&request.name).await {
        tracing::warn!(%error, "a checkout could not be removed");
    }
    Ok(verdict(config, checkout, checks?))
}

fn verdict(config: &Config, checkout: Checkout, checks: Vec<CheckResult>) -> Verdict {
    let request = &config.request;
    Verdict {
        finding: Verdict::decide(&checks, &checkout.protected),
        tree: request.tree.clone(),
        base: request.base.commit.clone(),
        definition: request.definition.clone(),
        environment: environment::digest(&request.checks),
        checks,
        protected: checkout.protected,
    }
}

/// Paths of the repository that matter to a verification; empty where nothing asks for them.
#[derive(Debug, Default)]
struct Paths {
    /// The files of the base.
    base: Vec<String>,
    /// The programs of the checks.
    programs: Vec<String>,
}

impl Paths {
    async fn of(config: &Config) -> Result<Self, Error> {
        let request = &config.request;
        // What the setup runs is as little the worker's to choose as what a check runs.
        let checks = commands(request);
        let named = programs::are_named(&checks);
        if !named && request.protect.is_empty() {
            return Ok(Self::default());
        }
        let failed = |error: ronde_workspace::Error| Error::Checkout(error.to_string());
        let base = config
            .workspace
            .paths(&request.base.tree)
            .await
            .map_err(failed)?;
        let tree = match named && request.tree != request.base.tree {
            true => config
                .workspace
                .paths(&request.tree)
                .await
                .map_err(failed)?,
            false => Vec::new(),
        };
        let added: std::collections::BTreeSet<&str> = tree.iter().map(String::as_str).collect();
        let programs = programs::of(&checks, &base, |path| added.contains(path));
        Ok(Self { base, programs })
    }
}

/// The checks, and the setup as if it were one.
fn commands(request: &Request) -> Vec<Check> {
    let setup = request.setup.iter().map(|setup| Check {
        name: "setup".into(),
        run: setup.clone(),
        env: Vec::new(),
        timeout_ms: 0,
        repeat: Repeat::default(),
    });
    setup.chain(request.checks.iter().cloned()).collect()
}

async fn run_all(
    config: Arc<Config>,
    folder: PathBuf,
    paths: Paths,
    mut stop: watch::Receiver<bool>,
) -> Result<Vec<CheckResult>, Error> {
    let request = &config.request;
    let guard = guard(&config, &folder, paths).await?;
    if let Some(untried) = set_up(&config, &folder, &mut stop).await? {
        return Ok(untried);
    }
    let mut results = Vec::with_capacity(request.checks.len());
    for one in &request.checks {
        check::news(&config, &one.name, None);
        let result = check::run(&config, one, &folder, &guard, &mut stop).await?;
        check::news(&config, &one.name, Some(result.finding));
        results.push(result);
    }
    Ok(results)
}

/// Runs the setup, if there is one. If it fails, the checks are not tried.
async fn set_up(
    config: &Config,
    folder: &Path,
    stop: &mut watch::Receiver<bool>,
) -> Result<Option<Vec<CheckResult>>, Error> {
    let Some(setup) = &config.request.setup else {
        return Ok(None);
    };
    let env = environment::of_setup(&config.scratch);
    let command = Command {
        time: Some(SETUP),
        capture: Capture {
            merge: true,
            ..Capture::default()
        },
        policy: check::policy(config, folder, true),
        ..Command::new([check::shell(&env), "-c", setup], folder)
    };
    let done = check::process(config, Purpose::Setup, Command { env, ..command }, stop).await?;
    if done.exit.success() {
        return Ok(None);
    }
    let tail = useful_end(done.stdout.text().as_bytes(), EVIDENCE);
    let checks = config.request.checks.iter();
    Ok(Some(
        checks
            .map(|one| check::untried(one, &done.exit, &tail))
            .collect(),
    ))
}

/// What is put back between one process and the next; nothing, where only one runs.
async fn guard(config: &Config, folder: &Path, paths: Paths) -> Result<Arc<Guard>, Error> {
    let request = &config.request;
    let runs: u64 = request
        .checks
        .iter()
        .map(|check| u64::from(check.repeat.times))
        .sum();
    if runs < 2 && request.setup.is_none() {
        return Ok(Arc::default());
    }
    let (folder, protect) = (folder.to_owned(), request.protect.clone());
    let copies = config.scratch.join("protected");
    let kept = tokio::task::spawn_blocking(move || {
        Guard::new(&folder, paths.base, &protect, &paths.programs, &copies)
    });
    let failed = |error: String| Error::Scratch {
        folder: config.scratch.clone(),
        error,
    };
    let kept = kept.await.map_err(|error| failed(error.to_string()))?;
    kept.map(Arc::new)
        .map_err(|error| failed(error.to_string()))
}
