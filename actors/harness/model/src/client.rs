//! Reserve, send, settle: no call is made that is not paid for. It keeps no ledger, writes no journal
//! and does not retry; the turn loop orders its steps and records between them.

use std::sync::Arc;

use ronde_protocol::{Amount, CallId, MicroUsd, Usage, outcome::Limit};

use crate::{
    CallPlace, Model, ModelError, Prices,
    estimate::{self, Reported},
    wire::{Request, Response, render},
};

/// Who keeps the money. The engine's implementation stands on the ledger.
#[async_trait::async_trait]
pub trait Purse: Send + Sync + 'static {
    /// Sets aside what a call can cost at most. [`Want::fit`] says how much output fits into what is
    /// left. Asked again for the same call, it answers the same.
    ///
    /// # Errors
    /// See [`Refusal`].
    async fn reserve(&self, want: Want) -> Result<Grant, Refusal>;

    /// Books what a call used and frees the rest; `None` books the whole reservation.
    async fn settle(&self, call: &CallId, usage: Option<Usage>);
}

/// What a call asks of the purse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// The call, the key of the reservation.
    pub call: CallId,
    /// Its number within the attempt, from 1.
    pub n: u32,
    /// The model, `provider/name`.
    pub model: String,
    /// The most input tokens it can have.
    pub input_estimate: u64,
    /// Output tokens it would like.
    pub max_output: u64,
    /// What its tokens cost.
    pub prices: Prices,
}

impl Want {
    /// The most this call can come to with so many output tokens.
    pub fn amount(&self, max_output: u64) -> Amount {
        estimate::amount(self.input_estimate, max_output, &self.prices)
    }

    /// The most output tokens with which the call fits into what is left; see [`estimate::fit`].
    pub fn fit(&self, left: Amount) -> Option<u64> {
        estimate::fit(self.input_estimate, self.max_output, &self.prices, left)
    }

    /// The grant of a purse without limits: all that is wanted.
    pub fn whole(&self) -> Grant {
        Grant {
            max_output: self.max_output,
            reserved: self.amount(self.max_output),
        }
    }
}

/// What is set aside for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Output tokens it may have, at most what was wanted.
    pub max_output: u64,
    /// The amount set aside: [`Want::amount`] of that.
    pub reserved: Amount,
}

/// Why nothing was set aside.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A limit leaves too little.
    #[error("the limit of {0} leaves too little for a call")]
    Limit(Limit),
    /// The ledger cannot be written.
    #[error("cannot reserve for a call: {0}")]
    Broken(String),
}

/// Makes the calls of one conversation.
pub struct Client {
    model: Arc<dyn Model>,
    purse: Arc<dyn Purse>,
    before: Option<Before>,
}

/// The last call whose usage is known.
struct Before {
    rendered: Vec<u8>,
    reported: Reported,
}

/// A call that is paid for and has not been made. Dropped unmade and unsettled it stays reserved, and
/// the ledger books it whole.
#[must_use = "a reservation is either sent or released"]
#[derive(Debug)]
pub struct Paid {
    call: CallId,
    request: Request,
    rendered: Vec<u8>,
    grant: Grant,
    place: CallPlace,
    prices: Prices,
}

impl Paid {
    /// The call.
    pub fn call(&self) -> &CallId {
        &self.call
    }

    /// What is set aside for it.
    pub fn reserved(&self) -> Amount {
        self.grant.reserved
    }

    /// The request as it will be sent, its output limit what was granted.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// What is booked if nobody learns what it used: all that was set aside.
    pub fn worst(&self) -> Usage {
        Usage {
            input: self
                .grant
                .reserved
                .tokens
                .saturating_sub(self.grant.max_output),
            output: self.grant.max_output,
            cost: self.grant.reserved.cost,
            ..Usage::default()
        }
    }
}

/// A call that was made and settled.
#[derive(Debug)]
pub struct Sent {
    /// What it used, with its price: the whole reservation where nobody knows.
    pub usage: Usage,
    /// What came of it; `None` where nobody waited for the end.
    pub result: Option<Result<Response, ModelError>>,
}

impl Client {
    /// One that has made no call yet.
    pub fn new(model: Arc<dyn Model>, purse: Arc<dyn Purse>) -> Self {
        Self {
            model,
            purse,
            before: None,
        }
    }

    /// Pays for a call.
    ///
    /// # Errors
    /// What the purse answered.
    pub async fn reserve(
        &self,
        mut request: Request,
        call: CallId,
        place: CallPlace,
    ) -> Result<Paid, Refusal> {
        let rendered = render(&request);
        let before = self
            .before
            .as_ref()
            .filter(|before| rendered.starts_with(&before.rendered));
        let prices = self.model.prices();
        let want = Want {
            call: call.clone(),
            n: place.n,
            model: request.model.clone(),
            input_estimate: estimate::input(
                rendered.len() as u64,
                before.map(|before| before.reported),
            ),
            max_output: u64::from(request.max_output),
            prices,
        };
        let grant = self.purse.reserve(want).await?;
        // A purse never grants more than was wanted; if it did, the request's own limit holds.
        let granted = u32::try_from(grant.max_output).unwrap_or(u32::MAX);
        request.max_output = request.max_output.min(granted);
        Ok(Paid {
            call,
            request,
            rendered,
            grant,
            place,
            prices,
        })
    }

    /// Makes the call and settles it. `stopped` resolves when nobody wants the answer any more: the
    /// call is then left, and as it may have been answered, booked whole.
    pub async fn send(&mut self, paid: Paid, stopped: impl Future<Output = ()>) -> Sent {
        let model = Arc::clone(&self.model);
        let result = tokio::select! {
            biased;
            result = model.call(&paid.request, paid.place) => Some(result),
            () = stopped => None,
        };
        let known = match &result {
            Some(Ok(response)) => Some(response.usage),
            Some(Err(error)) => error.usage(),
            None => None,
        };
        let known = known.map(|usage| Usage {
            cost: paid.prices.cost(&usage),
            ..usage
        });
        self.purse.settle(&paid.call, known).await;
        if let (Some(Ok(_)), Some(usage)) = (&result, &known) {
            let reported = Reported::of(paid.rendered.len() as u64, usage);
            if usage.amount().tokens > paid.grant.reserved.tokens {
                tracing::warn!(call = %paid.call, "the provider reports more tokens than the call could have");
            }
            self.before = Some(Before {
                rendered: paid.rendered.clone(),
                reported,
            });
        }
        let usage = known.unwrap_or_else(|| paid.worst());
        let result = result.map(|made| made.map(|response| Response { usage, ..response }));
        Sent { usage, result }
    }

    /// Gives a reservation back: the call was not made.
    pub async fn release(&self, paid: Paid) {
        self.purse
            .settle(
                &paid.call,
                Some(Usage {
                    cost: MicroUsd(0),
                    ..Usage::default()
                }),
            )
            .await;
    }
}
