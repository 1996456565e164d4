//! Does what a run's coordinator has journaled: one function a step, each giving the events that are to
//! be journaled of it. Nothing here decides what comes next, and nothing writes the journal.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use ractor::ActorRef;
use ronde_loops::Deliver;
use ronde_protocol::{
    Clock, Digest, RunId, Timestamp, WorkerName,
    firing::Firing,
    handoff::{Answer, Item, Reason},
    work::{AttemptEnd, EndReason},
};
use ronde_sandbox::{Command, Policy, env_allow, gate};
use ronde_state::{
    event::{RunEvent, Step},
    run::{Prepared, RunState},
    store::Store,
};
use ronde_workspace::{Base, STATE_FOLDER, Workspace};
use tokio::sync::watch;

use super::{
    actor::Message,
    next::Rules,
    prompt::{self, Brief},
    work,
};
use crate::{
    event::{Event, What},
    frozen::Frozen,
    handle::Shared,
    wiring,
};

/// A state file is at most this large; more is cut off when it is kept.
const STATE_FILE: usize = 1 << 20;

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
        Step::Ask { question, reason } => ask(&run, &state, *question, *reason).await,
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
    let files = put_state_files(run, &folder).await?;
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
    keep_state_files(run, &folder).await?;
    Ok(vec![RunEvent::AttemptEnded {
        attempt,
        worker: worker.clone(),
        end,
    }])
}

fn fresh_folder(folder: &std::path::Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
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

/// Lays the state files into the worker's folder, and gives their texts.
async fn put_state_files(
    run: &Run,
    folder: &std::path::Path,
) -> Result<BTreeMap<String, String>, String> {
    let mut texts = BTreeMap::new();
    let names = &run.frozen.definition.state_files;
    if names.is_empty() {
        return Ok(texts);
    }
    let to = folder.join(STATE_FOLDER);
    std::fs::create_dir_all(&to).map_err(|error| format!("{}: {error}", to.display()))?;
    for name in names {
        let bytes = run
            .store
            .state_file(&run.firing.project, run.firing.loop_name.as_str(), name)
            .await
            .map_err(|error| error.to_string())?
            .unwrap_or_default();
        std::fs::write(to.join(name), &bytes).map_err(|error| format!("{name}: {error}"))?;
        texts.insert(name.clone(), String::from_utf8_lossy(&bytes).into_owned());
    }
    Ok(texts)
}

/// Keeps the state files as the worker left them. A link is not followed; a file that is gone stays as
/// it was.
async fn keep_state_files(run: &Run, folder: &std::path::Path) -> Result<(), String> {
    for name in &run.frozen.definition.state_files {
        let file = folder.join(STATE_FOLDER).join(name);
        if !file.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
            continue;
        }
        let mut bytes =
            std::fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        bytes.truncate(STATE_FILE);
        run.store
            .set_state_file(
                &run.firing.project,
                run.firing.loop_name.as_str(),
                name,
                &bytes,
            )
            .await
            .map_err(|error| error.to_string())?;
    }
    Ok(())
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
async fn put_branch(
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

/// Opens an item, with the work so far on a branch where there is any.
async fn ask(
    run: &Run,
    state: &RunState,
    question: u32,
    reason: Reason,
) -> Result<Vec<RunEvent>, String> {
    let handoff = &run.frozen.definition.handoff;
    let branch = if state.changed() && run.frozen.definition.workspace.deliver == Deliver::Branch {
        let branch = wiring::branch::so_far(&run.id, question);
        put_branch(
            run,
            state,
            &branch,
            &format!("ronde: {} (unverified)", run.firing.loop_name),
        )
        .await?;
        Some(branch)
    } else {
        None
    };
    // The same question after a crash is the same item: its time is that of the run's last record.
    let opened = state.last;
    let expires = handoff
        .timeout
        .and_then(|timeout| jiff::SignedDuration::try_from(timeout).ok())
        .and_then(|timeout| opened.checked_add(timeout).ok());
    let item = item(
        run,
        state,
        question,
        reason,
        branch.clone(),
        opened,
        expires,
    );
    let item = run.shared.handoff.ask(item, handoff.notify.clone()).await?;
    Ok(vec![match reason {
        Reason::Budget => RunEvent::Noticed {
            item,
            reason,
            branch,
        },
        _ => RunEvent::Waiting {
            item,
            reason,
            branch,
        },
    }])
}

fn item(
    run: &Run,
    state: &RunState,
    question: u32,
    reason: Reason,
    branch: Option<String>,
    opened: Timestamp,
    expires: Option<Timestamp>,
) -> Item {
    let last = state.attempt();
    let end = last.and_then(|attempt| attempt.end.as_ref());
    let verdict = last
        .and_then(|attempt| attempt.verdict.as_ref())
        .or(state.baseline.as_ref());
    let seen = verdict.map(prompt::evidence).unwrap_or_default();
    let failure = state
        .failure
        .as_ref()
        .map(|(step, error)| format!("{}: {error}\n", step.id()));
    let (title, evidence, action) = match (reason, end.map(|end| &end.reason)) {
        (Reason::Question, Some(EndReason::Question { text })) => {
            (first_line(text), text.clone(), None)
        }
        (Reason::Approval, Some(EndReason::Approval { text, action })) => {
            (format!("may it? {}", first_line(text)), text.clone(), Some(action.clone()))
        }
        (Reason::UnknownEffect, Some(EndReason::Unknown { error })) => {
            ("nobody saw how the worker ended".to_owned(), error.clone(), None)
        }
        (Reason::UnknownEffect, _) => (
            "nobody saw how the worker ended".to_owned(),
            "ronde died while the worker was at work, and the worker can reach beyond its workspace: \
             what it did there is not known. Look, then approve to let it work again."
                .to_owned(),
            None,
        ),
        (Reason::CheckBroken, _) => {
            ("a check could not be run".to_owned(), failure.unwrap_or_default() + &seen, None)
        }
        (Reason::Budget, Some(EndReason::Limit { limit })) => {
            (format!("the limit of {limit} is reached"), seen, None)
        }
        (Reason::Budget, _) => ("a limit is reached".to_owned(), seen, None),
        _ => ("the checks still fail".to_owned(), seen, None),
    };
    Item {
        key: format!("{}/{question}", run.id),
        run: run.id.clone(),
        project: run.firing.project.clone(),
        loop_name: run.firing.loop_name.clone(),
        reason,
        title,
        evidence,
        branch,
        tried: tried(state),
        action,
        opened,
        expires,
        blocks: reason != Reason::Budget,
    }
}

fn first_line(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(120)
        .collect()
}

/// One line an attempt: how it ended, what it touched, what the verdict was.
fn tried(state: &RunState) -> Vec<String> {
    state
        .attempts
        .iter()
        .map(|attempt| {
            let paths = attempt
                .snapshot
                .as_ref()
                .map_or(0, |(_, paths)| paths.len());
            let verdict = attempt
                .verdict
                .as_ref()
                .map_or("not judged".to_owned(), |verdict| {
                    let failed: Vec<_> = verdict
                        .checks
                        .iter()
                        .filter(|check| check.finding != ronde_protocol::verdict::Finding::Pass)
                        .map(|check| format!("{} {}", check.name, check.exit))
                        .collect();
                    if failed.is_empty() {
                        "passed".to_owned()
                    } else {
                        failed.join(", ")
                    }
                });
            let claim = attempt
                .end
                .as_ref()
                .map(|end| first_line(end.claim.trim()))
                .unwrap_or_default();
            format!(
                "attempt {}: {paths} paths changed; {verdict}; claimed: {claim}",
                attempt.number
            )
        })
        .collect()
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
