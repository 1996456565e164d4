//! The verification step: asks the verifier for a verdict on the tree the journal names, and tells it
//! nothing of the worker.

use std::{path::Path, sync::Arc};

use async_trait::async_trait;
use ronde_protocol::ArtefactId;
use ronde_state::{event::RunEvent, run::RunState, store::Store};
use ronde_verifier::{Artefacts, Config, Request, spawn};
use tokio::sync::watch;

use super::act::{Run, prepared};
use crate::{event::What, wiring};

/// Where the verifier's whole outputs go.
struct Kept(Arc<dyn Store>);

#[async_trait]
impl Artefacts for Kept {
    async fn put_file(&self, file: &Path) -> Result<ArtefactId, String> {
        self.0
            .put_artefact_file(file)
            .await
            .map_err(|error| error.to_string())
    }
}

/// Judges what attempt `attempt` left; 0 judges the base.
pub(crate) async fn verify(
    run: &Arc<Run>,
    state: &RunState,
    attempt: u32,
    mut stop: watch::Receiver<bool>,
) -> Result<Vec<RunEvent>, String> {
    let prepared = prepared(state)?;
    let tree = match attempt {
        0 => Some(&prepared.tree),
        _ => state
            .attempts
            .iter()
            .find(|known| known.number == attempt)
            .and_then(|known| known.snapshot.as_ref().map(|(tree, _)| tree)),
    };
    let tree = tree.ok_or("there is no tree to judge")?;
    let definition = &run.frozen.definition;
    let name = format!("verify-{attempt}");
    let news = Arc::clone(run);
    let config = Config {
        request: Request {
            name: name.clone(),
            tree: tree.clone(),
            base: run.base(prepared),
            definition: run.definition.clone(),
            checks: definition.checks.clone(),
            protect: definition.workspace.protect.clone(),
            setup: definition.workspace.setup.clone(),
        },
        workspace: run.workspace.clone(),
        spawner: run.shared.spawner.clone(),
        scratch: run.scratch(&name),
        hidden: wiring::hidden(&run.shared.home),
        artefacts: Arc::new(Kept(Arc::clone(&run.store))),
        progress: Arc::new(move |name, finding| {
            news.news(What::Check {
                attempt,
                name: name.to_string(),
                finding,
            });
        }),
    };
    let mut verification = spawn(config, None)
        .await
        .map_err(|error| error.to_string())?;
    let verdict = tokio::select! {
        verdict = verification.verdict() => verdict,
        () = stopped(&mut stop) => {
            verification.stop();
            verification.verdict().await
        }
    };
    let verdict = verdict.map_err(|error| error.to_string())?;
    Ok(vec![RunEvent::VerdictGiven { attempt, verdict }])
}

/// Resolves when a step is to stop. A coordinator that is gone wants nothing more.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _gone = stop.wait_for(|stop| *stop).await.is_err();
}
