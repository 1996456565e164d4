//! The verification itself, from a tree to a verdict. No actor here.

use std::{path::Path, time::Duration};

use ronde_protocol::verdict::{CheckResult, Verdict};
use ronde_sandbox::{Capture, Command};
use ronde_workspace::{Rules, programs_in};
use tokio::sync::watch;

use crate::{Config, Error, check, environment, evidence::useful_end};

/// How long a setup may take.
const SETUP: Duration = Duration::from_secs(30 * 60);

/// Judges a tree. The checks run one after the other in one fresh checkout, in the file's order: a
/// later one sees what an earlier one left there. The checkout is gone when this returns.
///
/// # Errors
/// See [`Error`]: the verification did not take place, which says nothing about the tree.
pub async fn judge(config: Config, mut stop: watch::Receiver<bool>) -> Result<Verdict, Error> {
    let scratch = config.scratch.clone();
    let made = tokio::task::spawn_blocking(move || fresh(&scratch)).await;
    let failed = |error: String| Error::Scratch {
        folder: config.scratch.clone(),
        error,
    };
    made.map_err(|error| failed(error.to_string()))?
        .map_err(|error| failed(error.to_string()))?;
    let request = &config.request;
    let paths = config.workspace.paths(&request.base.tree).await;
    let paths = paths.map_err(|error| Error::Checkout(error.to_string()))?;
    let there = |path: &str| {
        paths
            .binary_search_by(|known| known.as_str().cmp(path))
            .is_ok()
    };
    let mut programs: Vec<String> = request
        .checks
        .iter()
        .flat_map(|check| programs_in(&check.run, there))
        .collect();
    programs.sort();
    programs.dedup();
    let rules = Rules {
        protect: request.protect.clone(),
        programs,
    };
    let checkout = config
        .workspace
        .checkout(&request.name, &request.tree, &request.base, &rules)
        .await
        .map_err(|error| Error::Checkout(error.to_string()))?;
    let checks = run_all(&config, &checkout.folder, &mut stop).await;
    // Whatever came of it, nothing of it stays.
    if let Err(error) = config.workspace.remove_checkout(&request.name).await {
        tracing::warn!(%error, "a checkout could not be removed");
    }
    let checks = checks?;
    Ok(Verdict {
        finding: Verdict::decide(&checks, &checkout.protected),
        tree: request.tree.clone(),
        base: request.base.commit.clone(),
        definition: request.definition.clone(),
        environment: environment::digest(&request.checks),
        checks,
        protected: checkout.protected,
    })
}

async fn run_all(
    config: &Config,
    folder: &Path,
    stop: &mut watch::Receiver<bool>,
) -> Result<Vec<CheckResult>, Error> {
    let checks = &config.request.checks;
    if let Some(setup) = &config.request.setup {
        let env = environment::of_setup(&config.scratch);
        let path = env
            .iter()
            .find(|(name, _)| name == "PATH")
            .map(|(_, value)| value.as_os_str());
        let command = Command {
            time: Some(SETUP),
            capture: Capture {
                merge: true,
                ..Capture::default()
            },
            policy: check::policy(config, folder, true),
            ..Command::new([check::shell(path), "-c", setup], folder)
        };
        let done = check::process(config, Command { env, ..command }, stop).await?;
        if !done.exit.success() {
            let tail = useful_end(done.stdout.text().as_bytes(), 4_000);
            return Ok(checks
                .iter()
                .map(|one| check::untried(one, &done.exit, &tail))
                .collect());
        }
    }
    let mut results = Vec::with_capacity(checks.len());
    for one in checks {
        check::news(config, &one.name, None);
        let result = check::run(config, one, folder, stop).await?;
        check::news(config, &one.name, Some(result.finding));
        results.push(result);
    }
    Ok(results)
}

fn fresh(folder: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    std::fs::create_dir_all(folder.join("home"))?;
    std::fs::create_dir_all(folder.join("tmp"))
}
