//! The built-in agent: a turn of `ronde-turn`, with the time limit held from outside.

use std::{ffi::OsString, sync::Arc};

use ronde_protocol::{
    outcome::Limit,
    work::{AttemptEnd, EndReason, Progress},
};
use ronde_sandbox::{Spawner, gate::Gate};
use ronde_turn::{Ports, Turn};
use tokio::sync::watch;

use crate::{
    BuiltIn, Request, TimeLimit,
    actor::{end, stopped},
};

pub(crate) async fn run(
    request: Request,
    agent: BuiltIn,
    spawner: Spawner,
    mut stop: watch::Receiver<bool>,
    progress: Arc<dyn Fn(Progress) + Send + Sync>,
) -> AttemptEnd {
    let gate = match Gate::new(&request.access.rules, request.access.level) {
        Ok(gate) => gate,
        Err(errors) => {
            let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
            return end(EndReason::Unstartable {
                error: errors.join("; "),
            });
        }
    };
    let (halt, halted) = watch::channel(false);
    let ports = Ports {
        model: agent.model,
        purse: agent.purse,
        recorder: agent.recorder,
        spawner,
        gate,
        approved: request.approved,
        stop: halted,
        progress,
    };
    let mut spool: OsString = request.output.into_os_string();
    spool.push(".shell");
    let turn = Turn {
        run: request.run,
        attempt: request.attempt,
        worker: request.worker,
        epoch: request.epoch,
        model: agent.name,
        max_output: agent.max_output,
        prompt: request.prompt,
        agents_md: request.agents_md,
        tools: agent.tools,
        access: request.access,
        folder: request.folder,
        tmp: request.tmp,
        spool: spool.into(),
        hidden: request.hidden,
        env: request.env,
        iterations: request.iterations,
    };
    let work = ronde_turn::run(turn, ports);
    tokio::pin!(work);
    let time_up = async {
        match request.time {
            Some(limit) => tokio::time::sleep(limit.duration()).await,
            None => std::future::pending().await,
        }
    };
    let late = tokio::select! {
        ended = &mut work => return ended,
        () = stopped(&mut stop) => None,
        () = time_up => request.time,
    };
    halt.send_replace(true);
    let ended = work.await;
    match (late, &ended.reason) {
        (Some(TimeLimit::Run(_)), EndReason::Stopped) => AttemptEnd {
            reason: EndReason::Limit { limit: Limit::Time },
            ..ended
        },
        (Some(TimeLimit::Attempt(limit)), EndReason::Stopped) => {
            let error = format!("it took longer than {} seconds", limit.as_secs());
            AttemptEnd {
                reason: EndReason::Failed { error },
                ..ended
            }
        }
        _ => ended,
    }
}
