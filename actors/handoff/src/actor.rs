//! The actor that opens items, takes answers and watches for items that run out. Every call of a port is
//! made in a task: a slow or panicking one harms its own question alone. The inbox decides who came
//! first; this decides nothing twice.

use std::{collections::BTreeSet, future::Future, sync::Arc, time::Duration};

use ractor::{Actor, ActorProcessingErr, ActorRef, SpawnErr};
use ronde_protocol::{
    Clock, ItemNumber, Timestamp,
    handoff::{Answer, Entry, Item, Reason},
};
use tokio::{
    sync::{RwLock, oneshot},
    task::AbortHandle,
};

use crate::{
    rule::{expiry, takes},
    show::{minute, said},
};

/// How long items that have run out are left alone after the inbox failed.
const RETRY: Duration = Duration::from_secs(5);

/// The queue of the home. Implemented by the engine, over its journal.
#[async_trait::async_trait]
pub trait Inbox: Send + Sync + 'static {
    /// Puts an item into the queue; the same key twice is one item.
    ///
    /// # Errors
    /// In words.
    async fn open(&self, item: Item) -> Result<ItemNumber, String>;

    /// One item.
    fn entry(&self, number: ItemNumber) -> Option<Entry>;

    /// All items, answered ones too.
    fn entries(&self) -> Vec<Entry>;

    /// Answers an item. False if it was answered before; the first answer stands.
    ///
    /// # Errors
    /// In words.
    async fn resolve(&self, number: ItemNumber, answer: Answer) -> Result<bool, String>;
}

/// What follows outside the inbox. Implemented by the engine.
#[async_trait::async_trait]
pub trait Outside: Send + Sync + 'static {
    /// Tells people of an item over a channel. Asked again after a restart; who was told already is
    /// known outside.
    async fn notify(&self, entry: Entry, channel: String);

    /// An item ran out, and its answer is written: its run is to hear of it.
    async fn expired(&self, number: ItemNumber);
}

/// What the actor is started with.
pub struct Config {
    /// The queue.
    pub inbox: Arc<dyn Inbox>,
    /// What follows outside of it.
    pub outside: Arc<dyn Outside>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

/// Why an answer is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// There is no such item.
    #[error("there is no item {number} in the inbox")]
    NoSuchItem {
        /// The number that was given.
        number: ItemNumber,
    },
    /// It was answered before; that answer stands.
    #[error("item {number} was answered before: {}{}", said(answer), when(*answered))]
    AlreadyAnswered {
        /// The item.
        number: ItemNumber,
        /// What was answered.
        answer: Answer,
        /// When, in UTC.
        answered: Option<Timestamp>,
    },
    /// Such an answer means nothing to it.
    #[error("item {number} ({reason}) does not take this answer")]
    WrongKind {
        /// The item.
        number: ItemNumber,
        /// What kind of question it is.
        reason: Reason,
        /// What to do instead.
        hint: &'static str,
    },
    /// The inbox failed; nobody knows whether the answer is written.
    #[error("the inbox failed: {0}")]
    Broken(String),
}

impl AnswerError {
    /// What to do instead, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoSuchItem { .. } => Some("list them with `ronde inbox`"),
            Self::WrongKind { hint, .. } => Some(hint),
            Self::AlreadyAnswered { .. } | Self::Broken(_) => None,
        }
    }
}

fn when(answered: Option<Timestamp>) -> String {
    answered.map_or(String::new(), |at| format!(", {}", minute(at)))
}

/// The door to the actor.
#[derive(Debug, Clone)]
pub struct Handle {
    actor: ActorRef<Message>,
    telling: Telling,
}

/// Held for reading by each notification under way.
type Telling = Arc<RwLock<()>>;

const STOPPED: &str = "the handoff has stopped";

impl Handle {
    /// Puts an item into the inbox and has people told of it over each channel. Returns once the item is
    /// in; the same key twice is one item.
    ///
    /// # Errors
    /// In words: the inbox failed.
    pub async fn ask(&self, item: Item, channels: Vec<String>) -> Result<ItemNumber, String> {
        let (reply, number) = oneshot::channel();
        let ask = Message::Ask(Box::new(item), channels, reply);
        self.actor.cast(ask).map_err(|_| STOPPED.to_owned())?;
        number.await.unwrap_or_else(|_| Err(STOPPED.to_owned()))
    }

    /// Resolves once nobody is being told of anything any more: a process that ends before would leave
    /// people untold.
    pub async fn told(&self) {
        drop(self.telling.write().await);
    }

    /// Answers an item. The first answer stands.
    ///
    /// # Errors
    /// See [`AnswerError`].
    pub async fn answer(&self, number: ItemNumber, answer: Answer) -> Result<(), AnswerError> {
        let stopped = || AnswerError::Broken(STOPPED.to_owned());
        let (reply, taken) = oneshot::channel();
        let message = Message::Answer(number, answer, reply);
        self.actor.cast(message).map_err(|_| stopped())?;
        taken.await.unwrap_or_else(|_| Err(stopped()))
    }
}

/// Starts the actor. Items that ran out while nobody watched run out now.
///
/// # Errors
/// Where the actor runtime cannot start one.
pub async fn spawn(config: Config) -> Result<Handle, SpawnErr> {
    let telling = Telling::default();
    let start = (config, Arc::clone(&telling));
    let (actor, _task) = Actor::spawn(None, Handoff, start).await?;
    Ok(Handle { actor, telling })
}

enum Message {
    Ask(
        Box<Item>,
        Vec<String>,
        oneshot::Sender<Result<ItemNumber, String>>,
    ),
    Answer(ItemNumber, Answer, oneshot::Sender<Result<(), AnswerError>>),
    /// Look for items that have run out.
    Look,
    /// What was seen, or why the inbox could not be read.
    Seen(Result<Seen, String>),
    /// Leave an item alone no more.
    Again(ItemNumber),
    /// An item that ran out is written, or could not be.
    Written(ItemNumber, Result<bool, String>),
}

/// The open items that have run out, and when the next one will.
type Seen = (Vec<ItemNumber>, Option<Timestamp>);

struct Handoff;

struct State {
    config: Config,
    telling: Telling,
    /// The inbox is being looked at; `true` if something happened since.
    looking: Option<bool>,
    /// Items whose end is being written, or could not be a moment ago.
    ending: BTreeSet<ItemNumber>,
    alarm: Option<Alarm>,
}

struct Alarm(AbortHandle);

impl Drop for Alarm {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Actor for Handoff {
    type Msg = Message;
    type State = State;
    type Arguments = (Config, Telling);

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        (config, telling): (Config, Telling),
    ) -> Result<State, ActorProcessingErr> {
        let mut state = State {
            config,
            telling,
            looking: None,
            ending: BTreeSet::new(),
            alarm: None,
        };
        state.look(&myself);
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Ask(item, channels, reply) => {
                let (inbox, outside) = state.ports();
                let telling = Arc::clone(&state.telling);
                tokio::spawn(async move {
                    let opened = unharmed(open(inbox, *item)).await.and_then(|opened| opened);
                    let number = opened.map(|entry| {
                        tell(&outside, &telling, &entry, channels);
                        entry.number
                    });
                    // An actor that has stopped watches nothing more, and an item is in whether or not
                    // somebody still waits for its number.
                    let _stopped = myself.cast(Message::Look);
                    let _unheard = reply.send(number);
                });
            }
            Message::Answer(number, answer, reply) => {
                let (inbox, _) = state.ports();
                tokio::spawn(async move {
                    let taken = unharmed(take(inbox, number, answer)).await;
                    // An answer is written whether or not somebody still waits.
                    let _unheard =
                        reply.send(taken.unwrap_or_else(|error| Err(AnswerError::Broken(error))));
                });
            }
            Message::Look => state.look(&myself),
            Message::Seen(seen) => state.seen(&myself, seen),
            Message::Written(number, written) => state.written(&myself, number, written),
            Message::Again(number) => {
                state.ending.remove(&number);
                state.look(&myself);
            }
        }
        Ok(())
    }
}

impl State {
    fn ports(&self) -> (Arc<dyn Inbox>, Arc<dyn Outside>) {
        (
            Arc::clone(&self.config.inbox),
            Arc::clone(&self.config.outside),
        )
    }

    /// Looks for items that have run out; once more afterwards, where it is looking already.
    fn look(&mut self, myself: &ActorRef<Message>) {
        self.alarm = None;
        if let Some(again) = &mut self.looking {
            *again = true;
            return;
        }
        self.looking = Some(false);
        let (inbox, _) = self.ports();
        let (clock, myself) = (Arc::clone(&self.config.clock), myself.clone());
        tokio::spawn(async move {
            let seen = unharmed(async move { expiry(&inbox.entries(), clock.now()) }).await;
            // An actor that has stopped watches nothing more.
            let _stopped = myself.cast(Message::Seen(seen));
        });
    }

    /// Ends what has run out and sets the alarm for what comes next.
    fn seen(&mut self, myself: &ActorRef<Message>, seen: Result<Seen, String>) {
        let again = self.looking.take() == Some(true);
        match seen {
            Ok((over, next)) => {
                for number in over {
                    if self.ending.insert(number) {
                        self.end(myself, number);
                    }
                }
                self.alarm = next.map(|at| self.alarm(myself, at));
            }
            Err(error) => {
                tracing::error!(%error, "the inbox could not be read; trying again");
                myself.send_after(RETRY, || Message::Look);
            }
        }
        if again {
            self.look(myself);
        }
    }

    fn end(&self, myself: &ActorRef<Message>, number: ItemNumber) {
        let (inbox, _) = self.ports();
        let myself = myself.clone();
        tokio::spawn(async move {
            let written =
                unharmed(async move { inbox.resolve(number, Answer::Expired).await }).await;
            // An actor that has stopped watches nothing more.
            let _stopped = myself.cast(Message::Written(
                number,
                written.and_then(|written| written),
            ));
        });
    }

    fn alarm(&self, myself: &ActorRef<Message>, at: Timestamp) -> Alarm {
        let (clock, myself) = (Arc::clone(&self.config.clock), myself.clone());
        let task = tokio::spawn(async move {
            clock.reached(at).await;
            // An actor that has stopped watches nothing more.
            let _stopped = myself.cast(Message::Look);
        });
        Alarm(task.abort_handle())
    }

    fn written(
        &mut self,
        myself: &ActorRef<Message>,
        number: ItemNumber,
        written: Result<bool, String>,
    ) {
        match written {
            Ok(first) => {
                self.ending.remove(&number);
                // Where a person was faster, the run hears of that.
                if first {
                    let (_, outside) = self.ports();
                    aside("the run may not know that its item ran out", async move {
                        outside.expired(number).await;
                    });
                }
            }
            Err(error) => {
                tracing::error!(item = number, %error, "the end of an item could not be written; trying again");
                myself.send_after(RETRY, move || Message::Again(number));
            }
        }
    }
}

async fn open(inbox: Arc<dyn Inbox>, item: Item) -> Result<Entry, String> {
    let number = inbox.open(item.clone()).await?;
    Ok(inbox.entry(number).unwrap_or(Entry {
        number,
        item,
        answer: None,
        answered: None,
    }))
}

/// Has people told of an item, unless one of them answered it before.
fn tell(outside: &Arc<dyn Outside>, telling: &Telling, entry: &Entry, channels: Vec<String>) {
    if entry.answer.is_some() {
        return;
    }
    for channel in channels {
        let (outside, entry) = (Arc::clone(outside), entry.clone());
        // Somebody who waits for the end has come before: the process is leaving.
        let under_way = Arc::clone(telling).try_read_owned();
        aside("a notification broke", async move {
            let _under_way = under_way;
            outside.notify(entry, channel).await;
        });
    }
}

async fn take(
    inbox: Arc<dyn Inbox>,
    number: ItemNumber,
    answer: Answer,
) -> Result<(), AnswerError> {
    let entry = inbox
        .entry(number)
        .ok_or(AnswerError::NoSuchItem { number })?;
    already(&entry)?;
    takes(&entry.item, &answer).map_err(|hint| AnswerError::WrongKind {
        number,
        reason: entry.item.reason,
        hint,
    })?;
    if inbox
        .resolve(number, answer)
        .await
        .map_err(AnswerError::Broken)?
    {
        return Ok(());
    }
    // Somebody else was faster.
    let entry = inbox
        .entry(number)
        .ok_or(AnswerError::NoSuchItem { number })?;
    already(&entry)?;
    Err(AnswerError::Broken(format!(
        "item {number} takes no answer, and has none"
    )))
}

fn already(entry: &Entry) -> Result<(), AnswerError> {
    match &entry.answer {
        None => Ok(()),
        Some(answer) => Err(AnswerError::AlreadyAnswered {
            number: entry.number,
            answer: answer.clone(),
            answered: entry.answered,
        }),
    }
}

/// A panic, as words.
async fn unharmed<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, String> {
    tokio::spawn(work)
        .await
        .map_err(|error| format!("it broke: {error}"))
}

/// Nobody waits for it; a panic is logged.
fn aside(what: &'static str, work: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(async move {
        if let Err(error) = unharmed(work).await {
            tracing::error!(%error, "{what}");
        }
    });
}

#[cfg(test)]
pub(crate) mod tests;
