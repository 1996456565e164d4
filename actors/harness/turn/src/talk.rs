//! The turn loop: ask, write down, act, write down, again. Each step is recorded before it is taken;
//! every way out is an [`EndReason`], carried by `?`.

use std::{collections::BTreeSet, time::Duration};

use futures_util::future::join_all;
use ronde_model::{
    CallPlace, Client, ErrorKind, ModelError, Paid, Refusal,
    wire::{Item, Request, Response, StopReason, ToolResult, render},
};
use ronde_protocol::{
    CallId, Usage,
    access::OnAsk,
    outcome::Limit,
    work::{AttemptEnd, EndReason, Progress, ToolOutcome, TurnEvent},
};
use ronde_sandbox::{Permit, gate::Decision};

use crate::{
    Ports, Stop, Turn,
    calls::{self, Call},
    context, cut, port,
    repeat::Repeats,
    tools::{self, Bench, Prepared, Report, Task},
};

/// How often a failed call is made again.
const RETRIES: u32 = 3;
/// The wait before the first retry; it grows fourfold.
const BACKOFF: Duration = Duration::from_secs(1);
/// The longest wish of a provider that is granted.
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// Answers cut off by the output limit, one after the other, that end a turn.
const CUT_OFF: u32 = 3;
/// Bytes of a result's beginning and end that the model reads.
const RESULT_HEAD: usize = 24 * 1024;
const RESULT_TAIL: usize = 32 * 1024;
/// Bytes of the worker's last words that are kept.
const CLAIM: usize = 4 * 1024;

/// A conversation with a model.
pub(crate) struct Talk {
    turn: Turn,
    ports: Ports,
    client: Client,
    request: Request,
    /// Calls made.
    n: u32,
    usage: Usage,
    claim: String,
    ids: BTreeSet<String>,
    repeats: Repeats,
    cut_off: u32,
}

/// What is to be done about one tool call.
enum Plan {
    Run(Task, Permit),
    /// It is not run, and the model reads why.
    Tell(String, ToolOutcome),
    /// The turn ends here.
    End(EndReason),
}

impl Plan {
    /// Whether nothing else may run meanwhile.
    fn is_alone(&self) -> bool {
        matches!(self, Self::Run(task, _) if !task.tool.is_parallel())
    }

    fn summary(&self, call: &Call) -> String {
        match self {
            Self::Run(task, _) => task.summary.clone(),
            Self::Tell(..) | Self::End(_) => cut::line(&call.input.to_string(), 200),
        }
    }

    async fn carry_out(self, bench: &Bench) -> Report {
        match self {
            Self::Run(task, permit) => task.run(bench, permit).await,
            Self::Tell(text, outcome) => Report {
                outcome,
                ..Report::failed(text)
            },
            Self::End(_) => Report::failed("not run: the turn ended before it"),
        }
    }
}

impl From<Stop> for EndReason {
    fn from(_: Stop) -> Self {
        Self::Stopped
    }
}

impl Talk {
    pub(crate) fn begin(turn: Turn, ports: Ports) -> Self {
        let client = Client::new(ports.model.clone(), ports.purse.clone());
        Self {
            request: context::first(&turn),
            turn,
            ports,
            client,
            n: 0,
            usage: Usage::default(),
            claim: String::new(),
            ids: BTreeSet::new(),
            repeats: Repeats::default(),
            cut_off: 0,
        }
    }

    pub(crate) async fn run(mut self) -> AttemptEnd {
        let bench = Bench::new(
            &self.turn,
            self.ports.spawner.clone(),
            self.ports.stop.clone(),
        );
        let reason = match bench {
            Ok(bench) => loop {
                if let Err(reason) = self.round(&bench).await {
                    break reason;
                }
            },
            Err(error) => EndReason::Unstartable { error },
        };
        let transcript = render(&self.request);
        AttemptEnd {
            reason,
            claim: self.claim,
            iterations: self.n,
            usage: self.usage,
            metered: true,
            exit: None,
            // Where nothing can be written any more, the end itself still is.
            output: self.ports.recorder.artefact(&transcript).await.ok(),
        }
    }

    /// One answer of the model and all it asks for.
    async fn round(&mut self, bench: &Bench) -> Result<(), EndReason> {
        let mut response = self.answer().await?;
        let text = response.text();
        if !text.trim().is_empty() {
            self.claim = cut::end(text.trim(), CLAIM);
            (self.ports.progress)(Progress::Text { text });
        }
        let calls = calls::take(&mut response.blocks, self.n, &mut self.ids);
        if !response.blocks.is_empty() {
            self.request.items.push(Item::Assistant {
                blocks: response.blocks,
            });
        }
        match response.stop {
            StopReason::Refusal => {
                self.answer_all(&calls, "not run: the answer was broken off");
                return Err(failed("the model refused to go on"));
            }
            StopReason::MaxTokens => return self.go_on_after_cut(&calls),
            StopReason::EndTurn | StopReason::ToolUse if calls.is_empty() => {
                return Err(EndReason::Finished);
            }
            StopReason::EndTurn | StopReason::ToolUse => self.cut_off = 0,
        }
        let circle = calls
            .iter()
            .find_map(|call| self.repeats.note(&call.name, &call.input));
        if let Some(circle) = circle {
            self.answer_all(&calls, "not run: the turn was ended");
            return Err(failed(format!("the model goes in circles: {circle}")));
        }
        self.act(bench, &calls).await
    }

    /// A response of the model, retries and all.
    async fn answer(&mut self) -> Result<Response, EndReason> {
        for retry in 0.. {
            let error = match self.call().await? {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            if !error.is_retryable() || retry == RETRIES {
                return Err(failed(match error.kind {
                    ErrorKind::ContextOverflow => {
                        format!("the conversation no longer fits the model: {error}")
                    }
                    _ => format!("the model call failed: {error}"),
                }));
            }
            let wait = error.retry_after.unwrap_or(BACKOFF * 4u32.pow(retry));
            if wait > LONGEST_WAIT {
                let seconds = wait.as_secs();
                return Err(failed(format!(
                    "the model call failed: {error} (it asks for {seconds} seconds of patience)"
                )));
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = port::stopped(&self.ports.stop) => return Err(EndReason::Stopped),
            }
        }
        unreachable!("the last retry returns")
    }

    /// One call: paid for, written down, made, settled, written down.
    async fn call(&mut self) -> Result<Result<Response, ModelError>, EndReason> {
        if port::is_stopped(&self.ports.stop) {
            return Err(EndReason::Stopped);
        }
        if self.n >= self.turn.iterations {
            return Err(EndReason::Limit {
                limit: Limit::Iterations,
            });
        }
        let n = self.n + 1;
        let Turn {
            run,
            attempt,
            worker,
            epoch,
            ..
        } = &self.turn;
        let call = CallId::of(run, *attempt, worker, n, *epoch);
        let place = CallPlace {
            attempt: *attempt,
            n,
        };
        let paid = self
            .client
            .reserve(self.request.clone(), call.clone(), place)
            .await;
        let paid: Paid = paid.map_err(|refusal| match refusal {
            Refusal::Limit(limit) => EndReason::Limit { limit },
            broken @ Refusal::Broken(_) => failed(broken.to_string()),
        })?;
        let started = TurnEvent::CallStarted {
            call: call.clone(),
            model: self.turn.model.clone(),
            reserved: paid.reserved(),
        };
        if let Err(stop) = self.ports.recorder.record(started).await {
            self.client.release(paid).await;
            return Err(stop.into());
        }
        self.n = n;
        let sent = self
            .client
            .send(paid, port::stopped(&self.ports.stop))
            .await;
        self.usage = self.usage.plus(sent.usage);
        let (response, error) = match &sent.result {
            Some(Ok(response)) => {
                let bytes = serde_json::to_vec(response)
                    .expect("a response has only text keys, so it is JSON");
                // Where it cannot be stored, the end of the call is written down all the same.
                (self.ports.recorder.artefact(&bytes).await.ok(), None)
            }
            Some(Err(error)) => (None, Some(error.to_string())),
            None => (None, Some("stopped before the answer came".to_owned())),
        };
        let ended = TurnEvent::CallEnded {
            call,
            usage: sent.usage,
            response,
            error,
        };
        self.ports.recorder.record(ended).await?;
        sent.result.ok_or(EndReason::Stopped)
    }

    /// Nothing of an answer that was cut off is run: what is complete may depend on what is not.
    fn go_on_after_cut(&mut self, calls: &[Call]) -> Result<(), EndReason> {
        self.cut_off += 1;
        let words = "your answer was cut off at the limit of output tokens";
        if !calls.is_empty() {
            self.answer_all(calls, &format!("not run: {words}; ask for less at once"));
        }
        if self.cut_off >= CUT_OFF {
            return Err(failed(format!(
                "{CUT_OFF} answers in a row were cut off at the limit of output tokens"
            )));
        }
        if calls.is_empty() {
            let text = format!("Note: {words}. Go on where it ended, in smaller steps.");
            self.request.items.push(Item::User { text });
        }
        Ok(())
    }

    /// Gives every call the same result.
    fn answer_all(&mut self, calls: &[Call], text: &str) {
        if calls.is_empty() {
            return;
        }
        let results = calls.iter().map(|call| untold(call, text)).collect();
        self.request.items.push(Item::ToolResults { results });
    }

    /// Runs the calls of an answer, in their order; reads that stand beside each other run together.
    /// Each gets one result, whatever happens.
    async fn act(&mut self, bench: &Bench, calls: &[Call]) -> Result<(), EndReason> {
        let mut results: Vec<ToolResult> = Vec::with_capacity(calls.len());
        let mut end = Ok(());
        while results.len() < calls.len() && end.is_ok() {
            end = self
                .next_batch(bench, &calls[results.len()..], &mut results)
                .await;
        }
        let untold_of = &calls[results.len()..];
        results.extend(
            untold_of
                .iter()
                .map(|call| untold(call, "not run: the turn ended before it")),
        );
        self.request.items.push(Item::ToolResults { results });
        end
    }

    async fn next_batch(
        &self,
        bench: &Bench,
        calls: &[Call],
        results: &mut Vec<ToolResult>,
    ) -> Result<(), EndReason> {
        if port::is_stopped(&self.ports.stop) {
            return Err(EndReason::Stopped);
        }
        let mut batch: Vec<(&Call, Plan)> = Vec::new();
        let mut end = Ok(());
        for call in calls {
            let plan = self.plan(bench, call);
            if let Plan::End(reason) = plan {
                end = Err(reason);
                break;
            }
            let alone = plan.is_alone();
            if alone && !batch.is_empty() {
                break;
            }
            let started = TurnEvent::ToolStarted {
                id: call.id.clone(),
                tool: call.name.clone(),
                summary: plan.summary(call),
            };
            self.ports.recorder.record(started).await?;
            batch.push((call, plan));
            if alone {
                break;
            }
        }
        let reports = batch
            .into_iter()
            .map(async |(call, plan)| (call, plan.carry_out(bench).await));
        for (call, report) in join_all(reports).await {
            let outcome = report.outcome;
            let result = self.result(call, report).await;
            results.push(result);
            let ended = TurnEvent::ToolEnded {
                id: call.id.clone(),
                outcome,
            };
            self.ports.recorder.record(ended).await?;
        }
        end
    }

    /// Checks a call and asks the gate.
    fn plan(&self, bench: &Bench, call: &Call) -> Plan {
        let task = match tools::prepare(bench, &call.name, &call.input) {
            Ok(Prepared::Task(task)) => task,
            Ok(Prepared::Question(text)) => return Plan::End(EndReason::Question { text }),
            Err(text) => return Plan::Tell(text, ToolOutcome::Failed),
        };
        match self.ports.gate.decide(&task.action(), &self.ports.approved) {
            Decision::Allow(permit) => Plan::Run(task, permit),
            Decision::Deny { text, .. } => {
                Plan::Tell(format!("refused: {text}"), ToolOutcome::Refused)
            }
            Decision::Ask {
                action,
                text,
                change,
                ..
            } => match self.turn.access.on_ask {
                OnAsk::Wait => {
                    let text = match change {
                        Some(change) => format!("{text}\n{change}"),
                        None => text,
                    };
                    Plan::End(EndReason::Approval { action, text })
                }
                OnAsk::Refuse => Plan::Tell(
                    format!("refused, as nobody is there to allow it: {text}"),
                    ToolOutcome::Refused,
                ),
            },
        }
    }

    /// The result the model reads: cut where it is long, and then the whole of it is stored.
    async fn result(&self, call: &Call, report: Report) -> ToolResult {
        let too_long = report.text.len() > RESULT_HEAD + RESULT_TAIL;
        let whole = report
            .whole
            .or_else(|| too_long.then(|| report.text.clone().into_bytes()));
        let mut content = report.text;
        if let Some(whole) = whole {
            // A result is no less true where its long form cannot be stored.
            let stored = self.ports.recorder.artefact(&whole).await.ok();
            let name = stored
                .map(|id| format!("; kept as {id}"))
                .unwrap_or_default();
            content = if too_long {
                cut::middle(&content, RESULT_HEAD, RESULT_TAIL, &name)
            } else {
                format!(
                    "{content}\n[the whole output has {} bytes{name}]",
                    whole.len()
                )
            };
        }
        ToolResult {
            id: call.id.clone(),
            content,
            is_error: report.outcome != ToolOutcome::Done,
        }
    }
}

fn untold(call: &Call, text: &str) -> ToolResult {
    ToolResult {
        id: call.id.clone(),
        content: text.to_owned(),
        is_error: true,
    }
}

fn failed(error: impl Into<String>) -> EndReason {
    EndReason::Failed {
        error: error.into(),
    }
}
