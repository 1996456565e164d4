//! The attempt step: puts a worker together, lets it work, and gives how it ended. What the built-in
//! agent does is journaled through the coordinator before it is done, and paid for before it is asked.

use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use ractor::ActorRef;
use ronde_loops::Agent as Named;
use ronde_model::{Grant, Purse, Refusal, Want, scripted::Scripted};
use ronde_protocol::{
    ArtefactId, CallId, Usage, WorkerName,
    work::{AttemptEnd, EndReason, TurnEvent},
};
use ronde_sandbox::env_allow;
use ronde_state::run::RunState;
use ronde_turn::{Recorder, Stop, Tool};
use ronde_worker::{Agent, BuiltIn, Config, Request, TimeLimit, spawn};
use tokio::sync::{oneshot, watch};

use super::{
    act::{Run, approved, prepared},
    actor::Message,
    judge::stopped,
};
use crate::{event::What, ports::RunLedger, wiring};

/// Where an attempt takes place.
pub(crate) struct Place {
    /// The attempt, from 1.
    pub(crate) attempt: u32,
    /// The worker.
    pub(crate) worker: WorkerName,
    /// Its workspace.
    pub(crate) folder: PathBuf,
    /// A folder outside of it, made anew for the attempt.
    pub(crate) scratch: PathBuf,
}

/// Lets a worker work, to its end.
pub(crate) async fn attempt(
    run: &Arc<Run>,
    state: &RunState,
    place: &Place,
    prompt: String,
    mut stop: watch::Receiver<bool>,
    coordinator: ActorRef<Message>,
) -> AttemptEnd {
    let ended = |reason| AttemptEnd {
        reason,
        claim: String::new(),
        iterations: 0,
        usage: Usage::default(),
        metered: true,
        exit: None,
        output: None,
    };
    let agent = match agent(run, place, coordinator) {
        Ok(agent) => agent,
        Err(error) => return ended(EndReason::Unstartable { error }),
    };
    let output = place.scratch.join("output");
    let request = match request(run, state, place, prompt).await {
        Ok(request) => request,
        Err(error) => return ended(EndReason::Unstartable { error }),
    };
    let (outcome, mut end) = oneshot::channel();
    let (news, attempt, worker) = (Arc::clone(run), place.attempt, place.worker.to_string());
    let config = Config {
        request,
        agent,
        spawner: run.shared.spawner.clone(),
        outcome,
        progress: Arc::new(move |progress| {
            news.news(What::Progress {
                attempt,
                worker: worker.clone(),
                progress,
            });
        }),
    };
    let working = match spawn(config, None).await {
        Ok(working) => working,
        Err(error) => {
            return ended(EndReason::Unknown {
                error: error.to_string(),
            });
        }
    };
    let end = tokio::select! {
        end = &mut end => end,
        () = stopped(&mut stop) => {
            working.stop();
            end.await
        }
    };
    let mut end = end.unwrap_or_else(|_| {
        ended(EndReason::Unknown {
            error: "the worker's actor ended without a word".to_owned(),
        })
    });
    // An external agent's output lies in a file; the built-in one's conversation is stored already.
    if end.output.is_none() && output.is_file() {
        match run.store.put_artefact_file(&output).await {
            Ok(id) => end.output = Some(id),
            Err(error) => tracing::warn!(run = %run.id, %error, "a worker's output is not kept"),
        }
    }
    end
}

async fn request(
    run: &Run,
    state: &RunState,
    place: &Place,
    prompt: String,
) -> Result<Request, String> {
    let definition = &run.frozen.definition;
    let access = definition.worker.access.clone();
    let tmp = place.scratch.join("tmp");
    std::fs::create_dir_all(&tmp).map_err(|error| format!("{}: {error}", tmp.display()))?;
    // The rules a run works by come from its base, never from what an attempt left.
    let agents_md = run
        .workspace
        .file(&prepared(state)?.tree, "AGENTS.md")
        .await
        .map_err(|error| error.to_string())?
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let mut names = wiring::base_env();
    names.extend(access.env.iter().cloned());
    Ok(Request {
        run: run.id.clone(),
        attempt: place.attempt,
        worker: place.worker.clone(),
        epoch: state.epoch,
        prompt,
        folder: place.folder.clone(),
        tmp,
        hidden: wiring::hidden_from(&run.shared.home, &definition.worker.agent),
        env: env_allow(&names, &[]),
        output: place.scratch.join("output"),
        time: Some(TimeLimit::Run(time_left(run, state))),
        iterations: run.rules.iterations.saturating_sub(state.iterations),
        agents_md,
        approved: approved(state),
        access,
    })
}

/// What is left of the run's time at work. The keeper holds the worker to it, should ronde hang.
fn time_left(run: &Run, state: &RunState) -> Duration {
    let since = state.active_since.unwrap_or(state.last);
    let lately = run.clock.now().duration_since(since);
    let spent = state.active + Duration::try_from(lately).unwrap_or(Duration::ZERO);
    // A second more than the run's own deadline, so that the journal hears of that first.
    run.rules.time.saturating_sub(spent) + Duration::from_secs(1)
}

fn agent(run: &Arc<Run>, place: &Place, coordinator: ActorRef<Message>) -> Result<Agent, String> {
    Ok(match &run.frozen.definition.worker.agent {
        Named::Command { argv } => Agent::Command { argv: argv.clone() },
        Named::Claude { model } => Agent::Claude {
            model: model.clone(),
        },
        Named::Codex { model } => Agent::Codex {
            model: model.clone(),
        },
        Named::OpenCode { model } => Agent::OpenCode {
            model: model.clone(),
        },
        Named::Ronde { model } => {
            let script = model
                .strip_prefix("scripted/")
                .ok_or_else(|| format!("there is no adapter for model {model}"))?;
            let script = run.frozen.file.with_file_name(script);
            let scripted = Scripted::load(&script).map_err(|error| error.to_string())?;
            Agent::Ronde(BuiltIn {
                name: model.clone(),
                model: Arc::new(scripted),
                purse: Arc::new(RunPurse {
                    run: Arc::clone(run),
                    ledger: ledger(run),
                }),
                recorder: Arc::new(Journal {
                    run: Arc::clone(run),
                    coordinator,
                    attempt: place.attempt,
                    worker: place.worker.clone(),
                }),
                tools: Tool::ALL.to_vec(),
                max_output: ronde_turn::MAX_OUTPUT,
            })
        }
    })
}

fn ledger(run: &Arc<Run>) -> Arc<RunLedger> {
    let of = Arc::clone(run);
    Arc::new(RunLedger {
        store: Arc::clone(&run.store),
        // The day is that of the call, not that of the run's beginning.
        scopes: Box::new(move || wiring::scopes(&of.frozen, &of.id, of.clock.now())),
    })
}

/// Pays for the calls of one attempt.
struct RunPurse {
    run: Arc<Run>,
    ledger: Arc<RunLedger>,
}

/// Below this many output tokens a call is not worth its input.
const FLOOR: u64 = 256;

#[async_trait]
impl Purse for RunPurse {
    async fn reserve(&self, want: Want) -> Result<Grant, Refusal> {
        let asked = ronde_budget::Want {
            call: want.call.clone(),
            ledger: self.ledger.clone(),
            input: want.input_estimate,
            max_output: want.max_output,
            floor: FLOOR.min(want.max_output),
            rates: ronde_budget::Rates {
                input: want.prices.dearest_input(),
                output: want.prices.output,
            },
        };
        match self.run.shared.budget.reserve(asked).await {
            Ok(granted) => Ok(Grant {
                max_output: granted.max_output,
                reserved: granted.amount,
            }),
            Err(ronde_budget::Refusal::Limit(limit)) => Err(Refusal::Limit(limit)),
            Err(ronde_budget::Refusal::Broken(error)) => Err(Refusal::Broken(error)),
        }
    }

    async fn settle(&self, call: &CallId, usage: Option<Usage>) {
        let used = usage.map(|usage| usage.amount());
        if let Err(error) = self.run.shared.budget.settle(call.clone(), used).await {
            // It stays reserved as a whole, which errs on the safe side.
            tracing::error!(%call, %error, "a call could not be settled");
        }
    }
}

/// Writes what a turn does into the run's journal, through its only writer.
struct Journal {
    run: Arc<Run>,
    coordinator: ActorRef<Message>,
    attempt: u32,
    worker: WorkerName,
}

#[async_trait]
impl Recorder for Journal {
    async fn record(&self, event: TurnEvent) -> Result<(), Stop> {
        let (reply, written) = oneshot::channel();
        let (attempt, worker) = (self.attempt, self.worker.clone());
        let turn = Message::Turn {
            attempt,
            worker,
            event,
            reply,
        };
        self.coordinator.cast(turn).map_err(|_| Stop)?;
        match written.await {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(Stop),
        }
    }

    async fn artefact(&self, bytes: &[u8]) -> Result<ArtefactId, Stop> {
        self.run.store.put_artefact(bytes).await.map_err(|error| {
            tracing::error!(run = %self.run.id, %error, "an artefact could not be stored");
            Stop
        })
    }
}
