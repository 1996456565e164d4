//! What budget and handoff reach the world through: the store, and the notification commands.

use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use ronde_budget::{Ledger, Reserve};
use ronde_handoff::{Inbox, Outside};
use ronde_protocol::{
    Amount, CallId, ItemNumber,
    handoff::{Answer, Entry, Item},
    outcome::Exit,
};
use ronde_sandbox::{Command, Policy, Stdin, env_allow, gate};
use ronde_state::{
    event::{HomeEvent, ScopeLimit},
    store::{Reserved, Store},
};
use tokio::sync::SetOnce;

use crate::{frozen::Frozen, handle::Handle, run::actor::Wake, wiring};

/// How long a notification command may take.
const NOTIFY_TIME: Duration = Duration::from_secs(30);

/// The budgets of one run, as the ledger of the home keeps them.
pub(crate) struct RunLedger {
    /// The store.
    pub(crate) store: Arc<dyn Store>,
    /// The budgets, with their limits.
    pub(crate) scopes: Box<dyn Fn() -> Vec<ScopeLimit> + Send + Sync>,
}

#[async_trait]
impl Ledger for RunLedger {
    async fn reserve(&self, call: &CallId, amount: Amount) -> Result<Reserve, String> {
        match self.store.reserve(call, amount, &(self.scopes)()).await {
            Ok(Reserved::Granted) => Ok(Reserve::Granted),
            Ok(Reserved::Already) => Ok(Reserve::Already),
            Ok(Reserved::Refused { limit, left }) => Ok(Reserve::Refused { limit, left }),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn settle(&self, call: &CallId, used: Option<Amount>) -> Result<(), String> {
        self.store
            .settle(call, used)
            .await
            .map_err(|error| error.to_string())
    }
}

/// The inbox of the home.
pub(crate) struct HomeInbox(pub(crate) Arc<dyn Store>);

#[async_trait]
impl Inbox for HomeInbox {
    async fn open(&self, item: Item) -> Result<ItemNumber, String> {
        self.0
            .await_answer(item)
            .await
            .map_err(|error| error.to_string())
    }

    fn entry(&self, number: ItemNumber) -> Option<Entry> {
        self.0.home().inbox().get(number).cloned()
    }

    fn entries(&self) -> Vec<Entry> {
        self.0.home().inbox().entries().cloned().collect()
    }

    async fn resolve(&self, number: ItemNumber, answer: Answer) -> Result<bool, String> {
        self.0
            .resolve(number, answer)
            .await
            .map_err(|error| error.to_string())
    }
}

/// What follows from the inbox outside of it. Opened once the door stands.
#[derive(Default)]
pub(crate) struct Messenger {
    handle: SetOnce<Handle>,
}

impl Messenger {
    /// Gives the door.
    pub(crate) fn open(&self, handle: Handle) {
        // Set once, at the start; a second door would be the same one.
        let _set = self.handle.set(handle);
    }
}

#[async_trait]
impl Outside for Messenger {
    async fn notify(&self, entry: Entry, channel: String) {
        let handle = self.handle.wait().await;
        if let Err(error) = notify(handle, &entry, &channel).await {
            tracing::error!(item = entry.number, %channel, %error, "nobody was told");
        }
    }

    async fn expired(&self, number: ItemNumber) {
        let handle = self.handle.wait().await;
        let home = handle.shared().store.home();
        let Some(entry) = home.inbox().get(number) else {
            return;
        };
        if !entry.item.blocks {
            return;
        }
        let wake = Wake::Answer(number, Answer::Expired);
        if let Err(error) = handle.take(&entry.item.run, wake).await {
            tracing::error!(run = %entry.item.run, %error, "the run did not hear that its item expired");
        }
    }
}

/// Tells what nobody has been told: of an item whose process died before it had, or whose telling
/// failed. Where nobody saw how it ended it is sent again: a person who hears of an item twice is better
/// off than one who never does.
pub(crate) async fn tell_again(handle: &Handle) -> Result<(), ronde_state::store::Error> {
    let store = &handle.shared().store;
    let home = store.home();
    for (number, channel) in home.notifying() {
        let lost = "nobody saw whether it was sent".to_owned();
        let (channel, error) = (channel.to_owned(), Some(lost));
        store
            .record(vec![HomeEvent::NotifyEnded {
                number,
                channel,
                error,
            }])
            .await?;
    }
    for entry in home.inbox().open() {
        let Some(run) = home.run(&entry.item.run) else {
            continue;
        };
        let definition = store.get_artefact(&run.definition).await;
        let Some(frozen) = definition.ok().and_then(|bytes| Frozen::load(&bytes).ok()) else {
            continue;
        };
        for channel in frozen.definition.handoff.notify {
            if home.told(entry.number, &channel) {
                continue;
            }
            let (handle, entry) = (handle.clone(), entry.clone());
            tokio::spawn(async move {
                if let Err(error) = notify(&handle, &entry, &channel).await {
                    tracing::error!(item = entry.number, %channel, %error, "nobody was told");
                }
            });
        }
    }
    Ok(())
}

/// Runs a notification command with the item as JSON on its stdin: journaled before and after, so that
/// nobody is told twice by a restart.
async fn notify(handle: &Handle, entry: &Entry, channel: &str) -> Result<(), String> {
    let shared = handle.shared();
    let store = &shared.store;
    let text = |error: ronde_state::store::Error| error.to_string();
    let home = store.home();
    if home.told(entry.number, channel) {
        return Ok(());
    }
    let run = home.run(&entry.item.run).ok_or("the run is not known")?;
    let definition = store.get_artefact(&run.definition).await.map_err(text)?;
    let frozen = Frozen::load(&definition).map_err(|error| error.to_string())?;
    let argv = frozen
        .config
        .notify
        .get(channel)
        .ok_or("the notification is not defined")?;
    let (number, name) = (entry.number, channel.to_owned());
    store
        .record(vec![HomeEvent::NotifyStarted {
            number,
            channel: name.clone(),
        }])
        .await
        .map_err(text)?;
    let mut stdin = serde_json::to_vec(entry).map_err(|error| error.to_string())?;
    stdin.push(b'\n');
    let command = Command {
        env: env_allow(&wiring::base_env(), &[]),
        stdin: Stdin::Bytes(stdin),
        time: Some(NOTIFY_TIME),
        policy: Policy::unconfined(),
        ..Command::new(argv, PathBuf::from(&frozen.root))
    };
    let permit = gate::engine(gate::Purpose::Notify);
    let error = match shared.spawner.output(permit, command).await {
        Ok(done) if done.exit.success() => None,
        Ok(done) => Some(told(&done.exit, &done.stderr.tail_text(500))),
        Err(error) => Some(error.to_string()),
    };
    store
        .record(vec![HomeEvent::NotifyEnded {
            number,
            channel: name,
            error: error.clone(),
        }])
        .await
        .map_err(text)?;
    error.map_or(Ok(()), Err)
}

fn told(exit: &Exit, stderr: &str) -> String {
    match stderr.trim() {
        "" => exit.to_string(),
        stderr => format!("{exit}: {stderr}"),
    }
}
