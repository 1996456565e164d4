//! Does what a run's coordinator has journaled: one function a step, each giving the events that are to
//! be journaled of it. Nothing here decides what comes next, and nothing writes the journal.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use ractor::ActorRef;
use ronde_protocol::{
    Clock, Digest, RunId, WorkerName,
    firing::Firing,
    handoff::Answer,
    work::{AttemptEnd, EndReason},
};
use ronde_sandbox::{Command, Policy, env_allow, gate};
use ronde_state::{
    event::{RunEvent, Step},
    run::{Prepared, RunState},
    store::Store,
};
use ronde_workspace::{Base, STATE_FOLDER, Workspace, remove_tree};
use tokio::sync::watch;

use super::{
    actor::Message,
    ask,
    next::Rules,
    notes,
    prompt::{self, Brief},
    work,
};
use crate::{
    event::{Event, What},
    frozen::Frozen,
    handle::Shared,
    wiring,
};

/// A run and all it needs: nothing in it changes while the run lives.
pub(crate) struct Run {
    /// The run.
    pub(crate) id: RunId,
    /// What started it.
    pub(crate) firing: Firing,
    /// The root folder of its project.
    pub(crate) root: PathBuf,
    /// What `next` goes by.
    pub(crate) rules: Rules,
    /// Its definition.
    pub(crate) frozen: Frozen,
    /// Its hash: verdicts are keyed by it.
    pub(crate) definition: Digest,
    /// Everything durable.
    pub(crate) store: Arc<dyn Store>,
    /// The clock.
    pub(crate) clock: Arc<dyn Clock>,
    /// What the parts of the process share.
    pub(crate) shared: Arc<Shared>,
    /// Its files.
    pub(crate) workspace: Workspace,
}

impl Run {
    /// Puts a run together from what the home knows of it.
    pub(crate) async fn load(shared: &Arc<Shared>, id: &RunId) -> Result<Self, String> {
        let home = shared.store.home();
        let known = home.run(id).ok_or("the run is not known")?;
        let firing = Firing {
            slot: known.slot.clone(),
            run: known.run.clone(),
            project: known.project.clone(),
            loop_name: known.loop_name.clone(),
            cause: known.cause.clone(),
            due: known.due,
            definition: known.definition.clone(),
        };
        let bytes = shared
            .store
            .get_artefact(&firing.definition)
            .await
            .map_err(|error| format!("its definition: {error}"))?;
        let frozen = Frozen::load(&bytes).map_err(|error| error.to_string())?;
        let folder = wiring::run_folder(&shared.home, id);
        Ok(Self {
            id: id.clone(),
            firing,
            root: known.root.clone(),
            rules: wiring::rules(&frozen),
            definition: Digest::of(&bytes),
            frozen,
            store: Arc::clone(&shared.store),
            clock: Arc::clone(&shared.clock),
            workspace: Workspace::at(shared.git.clone(), folder),
            shared: Arc::clone(shared),
        })
    }

    /// Removes the files a run that has ended needs no more. Its journal and its git objects stay.
    pub(crate) async fn clean(&self) {
        if let Err(error) = self.workspace.remove().await {
            tracing::warn!(run = %self.id, %error, "the run's files could not be removed");
        }
    }

    /// The folder of what one attempt keeps outside its workspace.
    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        wiring::run_folder(&self.shared.home, &self.id)
            .join("tmp")
            .join(name)
    }

    /// The base as the workspace wants it.
    pub(crate) fn base(&self, prepared: &Prepared) -> Base {
        Base {
            commit: prepared.base.clone(),
            tree: prepared.tree.clone(),
            branch: prepared.branch.clone(),
            repo: wiring::repository(&self.frozen, &self.shared.home),
        }
    }

    /// Sends short-lived news.
    pub(crate) fn news(&self, what: What) {
        let event = Event {
            what,
            run: self.id.clone(),
            at: None,
            cursor: None,
        };
        // Nobody looks on.
        let _unseen = self.shared.live.send(event);
    }
}

/// Takes a step. What cannot be done is an event too.
pub(crate) async fn perform(
    run: Arc<Run>,
    state: RunState,
    step: Step,
    stop: watch::Receiver<bool>,
    coordinator: ActorRef<Message>,
) -> Vec<RunEvent> {
    let taken = match &step {
        Step::Prepare => prepare(&run).await,
        Step::Attempt { attempt, worker } => {
            attempt_step(&run, &state, *attempt, worker, stop, coordinator).await
        }
        Step::Snapshot { attempt, worker } => snapshot(&run, &state, *attempt, worker).await,
        Step::Verify { attempt } => super::judge::verify(&run, &state, *attempt, stop).await,
        Step::Deliver => deliver(&run, &state).await,
        Step::Ask { question, reason } => ask::ask(&run, &state, *question, *reason).await,
    };
    taken.unwrap_or_else(|error| vec![RunEvent::StepFailed { step, error }])
}

/// The workspace of a run at work.
pub(crate) fn prepared(state: &RunState) -> Result<&Prepared, String> {
    state
        .prepared
        .as_ref()
        .ok_or_else(|| "the workspace is not prepared".to_owned())
}

/// An error of the workspace with its way out.
pub(crate) fn words(error: &ronde_workspace::Error) -> String {
    match error.hint() {
        Some(hint) => format!("{error} ({hint})"),
        None => error.to_string(),
    }
}

async fn prepare(run: &Run) -> Result<Vec<RunEvent>, String> {
    let source = wiring::source(&run.frozen, &run.shared.home);
    let base = run
        .workspace
        .prepare(&source)
        .await
        .map_err(|error| words(&error))?;
    Ok(vec![RunEvent::Prepared {
        base: base.commit,
        tree: base.tree,
        branch: base.branch,
    }])
}

async fn attempt_step(
    run: &Arc<Run>,
    state: &RunState,
    attempt: u32,
    worker: &WorkerName,
    stop: watch::Receiver<bool>,
    coordinator: ActorRef<Message>,
) -> Result<Vec<RunEvent>, String> {
    let ended = |reason| {
        let end = AttemptEnd {
            reason,
            claim: String::new(),
            iterations: 0,
            usage: ronde_protocol::Usage::default(),
            metered: true,
            exit: None,
            output: None,
        };
        Ok(vec![RunEvent::AttemptEnded {
            attempt,
            worker: worker.clone(),
            end,
        }])
    };
    let prepared = prepared(state)?;
    let tree = state
        .start_tree(attempt)
        .ok_or("there is no tree to start from")?;
    let base = run.base(prepared);
    let folder = run
        .workspace
        .reset(worker, tree, &base)
        .await
        .map_err(|error| words(&error))?;
    let scratch = run.scratch(&format!("attempt-{attempt}"));
    let fresh = scratch.clone();
    tokio::task::spawn_blocking(move || fresh_folder(&fresh))
        .await
        .map_err(|error| error.to_string())?
        .map_err(|error| format!("cannot make {}: {error}", scratch.display()))?;
    if let Some(setup) = &run.frozen.definition.workspace.setup {
        let set_up = set_up(run, setup, &folder, &scratch);
        let mut asked = stop.clone();
        let done = tokio::select! {
            done = set_up => done,
            // Dropped, it is stopped with its whole tree.
            () = super::judge::stopped(&mut asked) => return ended(EndReason::Stopped),
        };
        if let Err(error) = done {
            let error = format!("setup: {error}");
            return ended(EndReason::Unstartable { error });
        }
    }
    let files = notes::put(run, &folder).await?;
    let brief = Brief {
        goal: &run.frozen.goal,
        checks: &run.frozen.definition.checks,
        state_files: &files,
        state_folder: STATE_FOLDER,
        protect: &run.frozen.definition.workspace.protect,
        attempts: run.rules.attempts,
    };
    let prompt = prompt::compose(&brief, state, attempt);
    let place = work::Place {
        attempt,
        worker: worker.clone(),
        folder: folder.clone(),
        scratch,
    };
    let end = work::attempt(run, state, &place, prompt, stop, coordinator).await;
    notes::keep(run, &folder).await?;
    Ok(vec![RunEvent::AttemptEnded {
        attempt,
        worker: worker.clone(),
        end,
    }])
}

fn fresh_folder(folder: &std::path::Path) -> std::io::Result<()> {
    remove_tree(folder)?;
    std::fs::create_dir_all(folder)
}

/// Runs the loop's setup in a fresh checkout: with network, and nothing but the checkout to write.
async fn set_up(
    run: &Run,
    setup: &str,
    folder: &std::path::Path,
    scratch: &std::path::Path,
) -> Result<(), String> {
    let tmp = scratch.join("setup");
    std::fs::create_dir_all(&tmp).map_err(|error| format!("{}: {error}", tmp.display()))?;
    let own = [("TMPDIR".to_owned(), tmp.display().to_string())];
    let command = Command {
        env: env_allow(&wiring::base_env(), &own),
        time: Some(run.frozen.definition.limits.time),
        policy: Policy {
            level: ronde_protocol::access::Level::WorkspaceWrite,
            network: true,
            writable: vec![folder.to_owned(), tmp],
            hidden: wiring::hidden(&run.shared.home),
            ..Policy::unconfined()
        },
        ..Command::new(["sh", "-c", setup], folder)
    };
    let done = run
        .shared
        .spawner
        .output(gate::engine(gate::Purpose::Setup), command)
        .await
        .map_err(|error| error.to_string())?;
    if done.exit.success() {
        return Ok(());
    }
    Err(format!(
        "`{setup}`: {}\n{}",
        done.exit,
        done.stderr.tail_text(2000)
    ))
}

async fn snapshot(
    run: &Run,
    state: &RunState,
    attempt: u32,
    worker: &WorkerName,
) -> Result<Vec<RunEvent>, String> {
    let base = run.base(prepared(state)?);
    let shot = run
        .workspace
        .snapshot(worker, &base)
        .await
        .map_err(|error| words(&error))?;
    Ok(vec![RunEvent::Snapshot {
        attempt,
        worker: worker.clone(),
        tree: shot.tree,
        changed: shot.changed,
    }])
}

async fn deliver(run: &Run, state: &RunState) -> Result<Vec<RunEvent>, String> {
    let branch = wiring::branch::result(&run.id);
    let subject = format!("ronde: {}", run.firing.loop_name);
    let commit = put_branch(run, state, &branch, &subject).await?;
    Ok(vec![RunEvent::Delivered {
        branch: Some(branch),
        commit: Some(commit),
    }])
}

/// Puts the tree as it stands on a branch. Repeating it gives the same commit.
pub(super) async fn put_branch(
    run: &Run,
    state: &RunState,
    branch: &str,
    subject: &str,
) -> Result<ronde_protocol::CommitId, String> {
    let base = run.base(prepared(state)?);
    let tree = state.tree().ok_or("there is no tree to deliver")?;
    let checks: Vec<String> = state
        .attempt()
        .and_then(|attempt| attempt.verdict.as_ref())
        .iter()
        .flat_map(|verdict| &verdict.checks)
        .map(|check| format!("{:?}: {} ({})", check.finding, check.name, check.exit).to_lowercase())
        .collect();
    let message = format!(
        "{subject}\n\n{}\n\nRonde-Run: {}\n",
        checks.join("\n"),
        run.id
    );
    run.workspace
        .deliver(&base, tree, branch, &message, state.began)
        .await
        .map_err(|error| words(&error))
}

/// The actions a person said yes to, each by its hash.
pub(crate) fn approved(state: &RunState) -> BTreeSet<Digest> {
    state
        .attempts
        .iter()
        .filter_map(|attempt| {
            let answered = state.answers.get(attempt.answers_before)?;
            let EndReason::Approval { action, .. } = &attempt.end.as_ref()?.reason else {
                return None;
            };
            (answered.answer == Answer::Approve).then(|| action.clone())
        })
        .collect()
}
