//! The one door behind the command line, the socket and whatever comes later: what may be asked of a
//! process that owns a home.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use futures_util::{Stream, StreamExt as _, stream};
use ractor::ActorRef;
use ronde_protocol::{
    ArtefactId, Clock, ItemNumber, RunId, Seq, SlotId,
    firing::{Cause, Firing},
    handoff::Answer,
    outcome::Outcome,
};
use ronde_sandbox::Spawner;
use ronde_state::{
    event::{HomeEvent, RunEvent},
    home::Home,
    run::RunState,
    store::{Fired, Store},
};
use ronde_workspace::Git;
use tokio::sync::{Mutex, broadcast, oneshot, watch};

use crate::{
    event::{Event, What, project},
    frozen::Frozen,
    run::actor::Wake,
    supervisor,
};

/// What every part of the process shares: none of it changes.
pub(crate) struct Shared {
    /// Everything durable.
    pub(crate) store: Arc<dyn Store>,
    /// The clock.
    pub(crate) clock: Arc<dyn Clock>,
    /// The only starter of processes.
    pub(crate) spawner: Spawner,
    /// git, through it.
    pub(crate) git: Git,
    /// The home folder.
    pub(crate) home: PathBuf,
    /// Short-lived news for whoever listens.
    pub(crate) live: broadcast::Sender<Event>,
    /// Why this process is of no use any more, once it is: what is durable cannot be written.
    pub(crate) fatal: watch::Sender<Option<String>>,
    /// Whether this process leaves off: nothing fires any more.
    pub(crate) leaving: AtomicBool,
    /// Held while it is decided whether something fires: two at once would not see each other.
    pub(crate) firing: Mutex<()>,
    /// Pays for model calls.
    pub(crate) budget: ronde_budget::Handle,
    /// Asks people.
    pub(crate) handoff: ronde_handoff::Handle,
}

/// A refusal, in words for a person.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Refusal {
    /// What kind it is.
    pub(crate) kind: RefusalKind,
    /// What is wrong.
    pub(crate) message: String,
    /// The way out, where there is one.
    pub(crate) hint: Option<String>,
}

/// What kind of refusal: an exit code and a status follow from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RefusalKind {
    /// The file or the request is wrong.
    Invalid,
    /// There is no such thing.
    Missing,
    /// It does not fit what is going on.
    Conflict,
    /// ronde cannot, though it may be right.
    Failed,
}

impl Refusal {
    /// A refusal without a hint.
    pub(crate) fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    /// With the way out.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<ronde_state::store::Error> for Refusal {
    fn from(error: ronde_state::store::Error) -> Self {
        let kind = match error {
            ronde_state::store::Error::Missing { .. } => RefusalKind::Missing,
            _ => RefusalKind::Failed,
        };
        Self::new(kind, error.to_string())
    }
}

/// The door.
#[derive(Clone)]
pub(crate) struct Handle {
    shared: Arc<Shared>,
    supervisor: ActorRef<supervisor::Message>,
    clockwork: ronde_trigger::actor::Handle,
}

impl Handle {
    /// Puts the door before its parts.
    pub(crate) fn new(
        shared: Arc<Shared>,
        supervisor: ActorRef<supervisor::Message>,
        clockwork: ronde_trigger::actor::Handle,
    ) -> Self {
        Self {
            shared,
            supervisor,
            clockwork,
        }
    }

    /// What watches the clock for the loops that are served.
    pub(crate) fn clockwork(&self) -> &ronde_trigger::actor::Handle {
        &self.clockwork
    }

    /// What the parts share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Starts a run of a loop by hand. The same nonce twice is the same run.
    pub(crate) async fn start(&self, file: &Path, nonce: &str) -> Result<RunId, Refusal> {
        let frozen = Frozen::read(file)?;
        frozen.preflight(&self.shared).await?;
        let definition = self.keep(&frozen).await?;
        let (project, loop_name) = (frozen.project(), frozen.definition.name.clone());
        let slot = SlotId::manual(&project, &loop_name, nonce);
        let run = RunId::of(&loop_name, &slot);
        let fired = {
            let _alone = self.shared.firing.lock().await;
            let store = &self.shared.store;
            if let Some(busy) = store.home().active_run(&project, &loop_name)
                && busy.run != run
            {
                let run = &busy.run;
                return Err(Refusal::new(
                    RefusalKind::Conflict,
                    format!("run {run} of loop {loop_name} is at work"),
                )
                .hint(format!(
                    "look on with `ronde logs {run} --follow`, or end it with `ronde stop {run}`"
                )));
            }
            let firing = Firing {
                run,
                slot,
                project,
                loop_name,
                cause: Cause::Person,
                due: self.shared.clock.now(),
                definition,
            };
            store.fire_once(firing, &frozen.root, None).await?
        };
        match fired {
            Fired::Won(run) => {
                self.take(&run, Wake::Recover).await?;
                Ok(run)
            }
            Fired::Already(run) => Ok(run),
        }
    }

    /// Stores a frozen definition, and makes its project known.
    pub(crate) async fn keep(&self, frozen: &Frozen) -> Result<ArtefactId, Refusal> {
        let definition = self.shared.store.put_artefact(&frozen.bytes()).await?;
        let project = frozen.project();
        if self.shared.store.home().project(&project).is_none() {
            let root = frozen.root.clone();
            self.shared
                .store
                .record(vec![HomeEvent::ProjectOpened { project, root }])
                .await?;
        }
        Ok(definition)
    }

    /// Takes a resting run up again. Gives the record after which its new life begins.
    pub(crate) async fn resume(&self, run: &RunId) -> Result<Seq, Refusal> {
        let state = self.state(run).await?;
        match state.outcome() {
            Some(Outcome::Interrupted) => {}
            Some(Outcome::HandedOff) if self.answered(&state).is_some() => {
                // It was answered, and the process died before the run heard of it.
                if let Some((item, answer)) = self.answered(&state) {
                    self.take(run, Wake::Answer(item, answer)).await?;
                }
                return Ok(state.seq);
            }
            Some(Outcome::HandedOff) => {
                let item = state.waiting.as_ref().map_or(0, |waiting| waiting.item);
                return Err(Refusal::new(
                    RefusalKind::Conflict,
                    format!("run {run} waits for item {item} of the inbox"),
                )
                .hint(format!(
                    "see it with `ronde inbox show {item}`, then `ronde answer {item} \"…\"`"
                )));
            }
            Some(outcome) => {
                return Err(Refusal::new(
                    RefusalKind::Conflict,
                    format!("run {run} has ended: {outcome}"),
                )
                .hint("start a new one with `ronde run FILE`"));
            }
            None if self
                .shared
                .store
                .home()
                .run(run)
                .is_some_and(|known| known.outcome.is_none()) =>
            {
                return Err(
                    Refusal::new(RefusalKind::Conflict, format!("run {run} is at work"))
                        .hint(format!("look on with `ronde logs {run} --follow`")),
                );
            }
            None => {}
        }
        self.take(run, Wake::Continue).await?;
        Ok(state.seq)
    }

    /// The answer to the item a run waits for, where there is one already.
    pub(crate) fn answered(&self, state: &RunState) -> Option<(ItemNumber, Answer)> {
        let item = state.waiting.as_ref()?.item;
        let answer = self.shared.store.home().inbox().get(item)?.answer.clone()?;
        Some((item, answer))
    }

    /// Ends a run for good, at work or at rest.
    pub(crate) async fn stop(&self, run: &RunId) -> Result<Seq, Refusal> {
        let state = self.state(run).await?;
        if let Some(end) = &state.ended {
            return Err(Refusal::new(
                RefusalKind::Conflict,
                format!("run {run} has ended: {}", end.outcome),
            ));
        }
        self.take(run, Wake::Stop).await?;
        if let Some(waiting) = &state.waiting {
            // Its item asks nothing any more. The run's journal has said so already.
            self.shared
                .store
                .resolve(waiting.item, Answer::Close)
                .await?;
        }
        Ok(state.seq)
    }

    /// Lets a run rest, so that `continue` goes on.
    pub(crate) async fn interrupt(&self, run: &RunId) -> Result<(), Refusal> {
        self.ask(|reply| supervisor::Message::Interrupt(run.clone(), reply))
            .await
    }

    /// Answers an item. Gives its run and the record after which its new life begins; no record where
    /// nothing waits for the answer.
    pub(crate) async fn answer(
        &self,
        number: ItemNumber,
        answer: Answer,
    ) -> Result<(RunId, Option<Seq>), Refusal> {
        let home = self.shared.store.home();
        let entry = home.inbox().get(number).cloned().ok_or_else(|| {
            Refusal::new(
                RefusalKind::Missing,
                format!("there is no item {number} in the inbox"),
            )
            .hint("list them with `ronde inbox`")
        })?;
        let run = entry.item.run.clone();
        self.shared
            .handoff
            .answer(number, answer.clone())
            .await
            .map_err(|error| Refusal {
                hint: error.hint().map(str::to_owned),
                ..Refusal::new(RefusalKind::Conflict, error.to_string())
            })?;
        if !entry.item.blocks {
            return Ok((run, None));
        }
        let before = self.state(&run).await?.seq;
        // A run that was only about to wait hears of it by itself, and is taken up by nobody.
        tokio::select! {
            taken = self.take(&run, Wake::Answer(number, answer)) => taken?,
            () = self.heard(&run, before, number) => {}
        }
        Ok((run, Some(before)))
    }

    /// Resolves when a run has heard the answer to an item.
    async fn heard(&self, run: &RunId, after: Seq, number: ItemNumber) {
        let mut records = self.shared.store.follow(run, after);
        while let Some(Ok(record)) = records.next().await {
            if matches!(record.event, RunEvent::Answered { item, .. } if item == number) {
                return;
            }
        }
        // Its journal tells nothing more.
        std::future::pending().await
    }

    /// A run's state, from its journal.
    pub(crate) async fn state(&self, run: &RunId) -> Result<RunState, Refusal> {
        let records = self.shared.store.read_run(run, 1).await?;
        RunState::fold(&records)
            .map_err(|error| Refusal::new(RefusalKind::Failed, format!("run {run}: {error}")))?
            .ok_or_else(|| Refusal::new(RefusalKind::Missing, format!("run {run} has no journal")))
    }

    /// What happens in a run after a record, then live.
    pub(crate) fn events(
        &self,
        run: &RunId,
        after: Seq,
    ) -> impl Stream<Item = Event> + Send + use<> {
        let live = self.shared.live.subscribe();
        let of = run.clone();
        let news = stream::unfold(live, move |mut live| {
            let of = of.clone();
            async move {
                loop {
                    match live.recv().await {
                        Ok(event) if event.run == of => return Some((event, live)),
                        // A slow screen misses news, never records.
                        Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                        Err(broadcast::error::RecvError::Closed) => return None,
                    }
                }
            }
        });
        let (run, store) = (run.clone(), Arc::clone(&self.shared.store));
        let mut state: Option<RunState> = None;
        let recorded = self.shared.store.follow(&run, 0).flat_map(move |record| {
            let events = match record
                .map_err(|error| error.to_string())
                .and_then(|record| fold(&mut state, &record).map(|state| project(state, &record)))
            {
                Ok(events) => events,
                Err(reason) => vec![unreadable(&run, Outcome::Failed, reason)],
            };
            let home = store.home();
            stream::iter(
                events
                    .into_iter()
                    .filter(move |event| event.cursor.is_none_or(|at| at > after))
                    // A rest for an item that is answered is none: the run goes on.
                    .filter(move |event| !waits_no_more(&home, &event.what)),
            )
        });
        stream::select(recorded, news)
    }

    /// Resolves when no run is at work.
    pub(crate) async fn idle(&self) -> Result<(), Refusal> {
        self.ask(supervisor::Message::Idle).await
    }

    /// Lets every run rest.
    pub(crate) async fn interrupt_all(&self) -> Result<(), Refusal> {
        self.ask(supervisor::Message::InterruptAll).await
    }

    /// Takes a run up.
    pub(crate) async fn take(&self, run: &RunId, wake: Wake) -> Result<(), Refusal> {
        self.ask(|reply| supervisor::Message::Take(run.clone(), wake, Some(reply)))
            .await?
            .map_err(|error| Refusal::new(RefusalKind::Failed, format!("run {run}: {error}")))
    }

    async fn ask<T>(
        &self,
        message: impl FnOnce(oneshot::Sender<T>) -> supervisor::Message,
    ) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        let stopped = || Refusal::new(RefusalKind::Failed, "ronde is shutting down");
        self.supervisor
            .cast(message(reply))
            .map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())
    }
}

fn fold<'a>(
    state: &'a mut Option<RunState>,
    record: &ronde_state::journal::Record<ronde_state::event::RunEvent>,
) -> Result<&'a RunState, String> {
    match state {
        None => *state = Some(RunState::begin(record).map_err(|error| error.to_string())?),
        Some(state) => state.apply(record).map_err(|error| error.to_string())?,
    }
    state
        .as_ref()
        .ok_or_else(|| "a run without a beginning".to_owned())
}

/// Whether this tells of a rest for an item that has its answer already.
fn waits_no_more(home: &Home, what: &What) -> bool {
    let What::RunEnded {
        outcome: Outcome::HandedOff,
        item: Some(item),
        ..
    } = what
    else {
        return false;
    };
    home.inbox()
        .get(*item)
        .is_some_and(|entry| entry.answer.is_some())
}

/// The last line of a run whose journal cannot say it.
pub(crate) fn unreadable(run: &RunId, outcome: Outcome, reason: String) -> Event {
    let what = What::RunEnded {
        outcome,
        changed: false,
        reason,
        r#loop: String::new(),
        attempts: 0,
        iterations: 0,
        usage: ronde_protocol::Usage::default(),
        branch: None,
        item: None,
    };
    Event {
        what,
        run: run.clone(),
        at: None,
        cursor: None,
    }
}
