//! The actor that asks the ledgers: one question at a time for each ledger, in the order they came, each
//! in a task of its own. A ledger that is slow or panics delays no other, and a panic refuses one call.

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    sync::Arc,
};

use ractor::{Actor, ActorProcessingErr, ActorRef, SpawnErr};
use ronde_protocol::{Amount, CallId, outcome::Limit};
use tokio::sync::oneshot;

use crate::{Rates, amount, fit};

/// How often a call shrinks before it is refused. A ledger names one limit at a time, and has few.
const SHRINKS: usize = 16;

/// Who keeps the book: the budgets of one run. Implemented by the engine.
#[async_trait::async_trait]
pub trait Ledger: Send + Sync + 'static {
    /// Sets an amount aside for a call, in every budget or in none.
    ///
    /// # Errors
    /// In words. The amount may be set aside all the same.
    async fn reserve(&self, call: &CallId, amount: Amount) -> Result<Reserve, String>;

    /// Books what a call used and frees the rest; `None` books all that was set aside.
    ///
    /// # Errors
    /// In words.
    async fn settle(&self, call: &CallId, used: Option<Amount>) -> Result<(), String>;
}

/// What a ledger answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserve {
    /// The amount is set aside.
    Granted,
    /// Something was set aside for this call before.
    Already,
    /// A limit leaves too little.
    Refused {
        /// The limit.
        limit: Limit,
        /// What it leaves; a currency it does not limit is the largest number.
        left: Amount,
    },
}

/// What a call asks for.
#[derive(Clone)]
pub struct Want {
    /// The call, the key of its reservation.
    pub call: CallId,
    /// The budgets it is paid from.
    pub ledger: Arc<dyn Ledger>,
    /// Tokens it can use at most, but for its output.
    pub input: u64,
    /// Output tokens it would like.
    pub max_output: u64,
    /// With fewer output tokens than this it is not worth making, unless it would like even fewer.
    pub floor: u64,
    /// What its tokens cost.
    pub rates: Rates,
}

/// What is set aside for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Output tokens it may have, at most what it would like.
    pub max_output: u64,
    /// The amount set aside.
    pub amount: Amount,
}

/// Why a call must not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A limit leaves too little.
    #[error("the limit of {0} leaves too little for a model call")]
    Limit(Limit),
    /// The ledger failed, or the call was reserved before and may have been made.
    #[error("cannot reserve for a model call: {0}")]
    Broken(String),
}

/// The door to the actor.
#[derive(Debug, Clone)]
pub struct Handle(ActorRef<Message>);

impl Handle {
    /// Sets aside what a call can cost at most; its output shrinks to what is left. If nobody waits for
    /// the answer any more, what was set aside is freed.
    ///
    /// # Errors
    /// [`Refusal`]: the call must not be made.
    pub async fn reserve(&self, want: Want) -> Result<Grant, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.0
            .cast(Message::Reserve(want, reply))
            .map_err(|_| Refusal::Broken(STOPPED.to_owned()))?;
        answer
            .await
            .unwrap_or_else(|_| Err(Refusal::Broken(STOPPED.to_owned())))
    }

    /// Books what a call used and frees the rest; `None`, where nobody knows, books all that was set
    /// aside. It is booked even if nobody waits for the answer.
    ///
    /// # Errors
    /// In words: the ledger failed, and this may be tried again; or the call has nothing set aside here
    /// that is not settled yet.
    pub async fn settle(&self, call: CallId, used: Option<Amount>) -> Result<(), String> {
        let (reply, answer) = oneshot::channel();
        self.0
            .cast(Message::Settle(call, used, reply))
            .map_err(|_| STOPPED.to_owned())?;
        answer.await.unwrap_or_else(|_| Err(STOPPED.to_owned()))
    }
}

const STOPPED: &str = "the budget has stopped";

/// Starts the actor.
///
/// # Errors
/// Where the actor runtime cannot start one.
pub async fn spawn() -> Result<Handle, SpawnErr> {
    let (actor, _task) = Actor::spawn(None, Budget, ()).await?;
    Ok(Handle(actor))
}

enum Message {
    Reserve(Want, oneshot::Sender<Result<Grant, Refusal>>),
    Settle(CallId, Option<Amount>, oneshot::Sender<Result<(), String>>),
    Reserved(
        Want,
        oneshot::Sender<Result<Grant, Refusal>>,
        Result<Grant, Refusal>,
    ),
    Settled(
        Arc<dyn Ledger>,
        CallId,
        oneshot::Sender<Result<(), String>>,
        Result<(), String>,
    ),
}

/// A question that waits for its turn.
enum Question {
    Reserve(Want, oneshot::Sender<Result<Grant, Refusal>>),
    Settle(
        Arc<dyn Ledger>,
        CallId,
        Option<Amount>,
        oneshot::Sender<Result<(), String>>,
    ),
}

/// One ledger at work. It is held as long as it is, so that its address means no other.
struct Line {
    _ledger: Arc<dyn Ledger>,
    waiting: VecDeque<Question>,
}

/// Calls granted and not settled, and the ledgers at work by their address.
#[derive(Default)]
struct State {
    granted: HashMap<CallId, Arc<dyn Ledger>>,
    lines: HashMap<usize, Line>,
}

struct Budget;

impl Actor for Budget {
    type Msg = Message;
    type State = State;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Message>, (): ()) -> Result<State, ActorProcessingErr> {
        Ok(State::default())
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Reserve(want, reply) => {
                let ledger = Arc::clone(&want.ledger);
                state.ask(&myself, &ledger, Question::Reserve(want, reply));
            }
            Message::Settle(call, used, reply) => state.settle(&myself, call, used, reply),
            Message::Reserved(want, reply, answer) => {
                if answer.is_ok() {
                    state
                        .granted
                        .insert(want.call.clone(), Arc::clone(&want.ledger));
                }
                if let Err(Ok(_)) = reply.send(answer) {
                    // Who never heard of the grant made no call.
                    let (unheard, _) = oneshot::channel();
                    state.settle(&myself, want.call, Some(Amount::ZERO), unheard);
                }
                state.next(&myself, &want.ledger);
            }
            Message::Settled(ledger, call, reply, answer) => {
                if let Err(error) = &answer {
                    tracing::error!(%call, %error, "a model call could not be settled");
                    state.granted.insert(call, Arc::clone(&ledger));
                }
                // Settled is settled, whether or not somebody still listens.
                let _unheard = reply.send(answer);
                state.next(&myself, &ledger);
            }
        }
        Ok(())
    }
}

impl State {
    fn settle(
        &mut self,
        myself: &ActorRef<Message>,
        call: CallId,
        used: Option<Amount>,
        reply: oneshot::Sender<Result<(), String>>,
    ) {
        // Taken out at once, so that a second settlement finds nothing.
        match self.granted.remove(&call) {
            Some(ledger) => {
                let question = Question::Settle(Arc::clone(&ledger), call, used, reply);
                self.ask(myself, &ledger, question);
            }
            None => {
                // Nobody is left to be told where this fails.
                let _unheard = reply.send(Err(format!(
                    "model call {call} has nothing set aside, or is settled already"
                )));
            }
        }
    }

    /// Asks now, or in its turn.
    fn ask(&mut self, myself: &ActorRef<Message>, ledger: &Arc<dyn Ledger>, question: Question) {
        if let Some(line) = self.lines.get_mut(&address(ledger)) {
            line.waiting.push_back(question);
            return;
        }
        let line = Line {
            _ledger: Arc::clone(ledger),
            waiting: VecDeque::from([question]),
        };
        self.lines.insert(address(ledger), line);
        self.next(myself, ledger);
    }

    /// The ledger has answered: the next question.
    fn next(&mut self, myself: &ActorRef<Message>, ledger: &Arc<dyn Ledger>) {
        let Some(line) = self.lines.get_mut(&address(ledger)) else {
            return;
        };
        while let Some(question) = line.waiting.pop_front() {
            match question {
                // Nobody waits for it any more, and nothing is set aside yet.
                Question::Reserve(_, reply) if reply.is_closed() => {}
                question => return put(question, myself.clone()),
            }
        }
        self.lines.remove(&address(ledger));
    }
}

fn address(ledger: &Arc<dyn Ledger>) -> usize {
    Arc::as_ptr(ledger).cast::<()>() as usize
}

/// Puts a question to its ledger, in a task; the answer comes back as a message.
fn put(question: Question, myself: ActorRef<Message>) {
    tokio::spawn(async move {
        let answer = match question {
            Question::Reserve(want, reply) => {
                let asked = want.clone();
                let answer = unharmed(async move { shrink(&asked).await }).await;
                let answer = answer.unwrap_or_else(|error| Err(Refusal::Broken(error)));
                Message::Reserved(want, reply, answer)
            }
            Question::Settle(ledger, call, used, reply) => {
                let (asked, of) = (Arc::clone(&ledger), call.clone());
                let answer = unharmed(async move { asked.settle(&of, used).await }).await;
                Message::Settled(ledger, call, reply, answer.and_then(|answer| answer))
            }
        };
        // An actor that has stopped answers nobody: the senders go with the message.
        let _stopped = myself.cast(answer);
    });
}

/// A panic, as words.
async fn unharmed<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, String> {
    tokio::spawn(work)
        .await
        .map_err(|error| format!("the ledger broke: {error}"))
}

/// Reserves with as much output as the ledger lets it have.
async fn shrink(want: &Want) -> Result<Grant, Refusal> {
    let mut max_output = want.max_output;
    let mut refused = None;
    for _ in 0..SHRINKS {
        let amount = amount(want.input, max_output, want.rates);
        match want.ledger.reserve(&want.call, amount).await {
            Ok(Reserve::Granted) => return Ok(Grant { max_output, amount }),
            Ok(Reserve::Already) => {
                let call = &want.call;
                return Err(Refusal::Broken(format!(
                    "call {call} was reserved before, and may have been made"
                )));
            }
            Ok(Reserve::Refused { limit, left }) => {
                match fit(
                    want.input,
                    max_output,
                    want.floor.min(want.max_output),
                    want.rates,
                    left,
                ) {
                    Some(less) if less < max_output => max_output = less,
                    // It leaves enough and refuses all the same: asking again would change nothing.
                    _ => return Err(Refusal::Limit(limit)),
                }
                refused = Some(limit);
            }
            Err(error) => return Err(Refusal::Broken(error)),
        }
    }
    Err(refused.map_or_else(
        || Refusal::Broken("nobody was asked".to_owned()),
        Refusal::Limit,
    ))
}

#[cfg(test)]
mod tests;
