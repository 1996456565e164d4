//! The one trait behind which every model stands, and how a call can fail. It makes no call itself.

use std::time::Duration;

use ronde_protocol::Usage;

use crate::{
    Prices,
    wire::{Request, Response},
};

/// Something that answers requests.
#[async_trait::async_trait]
pub trait Model: Send + Sync + 'static {
    /// Makes one call. It never retries by itself: each try is a call that is paid for.
    ///
    /// # Errors
    /// See [`ModelError`].
    async fn call(&self, request: &Request, at: CallPlace) -> Result<Response, ModelError>;

    /// What its tokens cost.
    fn prices(&self) -> Prices;
}

/// Where in a run a call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallPlace {
    /// The attempt, from 1.
    pub attempt: u32,
    /// The call within it, from 1; a retry has a number of its own.
    pub n: u32,
}

/// A call that brought no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What follows from it.
    pub kind: ErrorKind,
    /// What happened, in words.
    pub message: String,
    /// How long the provider asks to be left alone.
    pub retry_after: Option<Duration>,
}

/// What follows from a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Nothing was used; the same request may succeed later.
    Retryable,
    /// The request is larger than the model can read.
    ContextOverflow,
    /// The provider refuses this request, or this account.
    Refused,
    /// The same request will never succeed.
    Fatal,
    /// The call may have been answered and paid for, and nobody saw the answer.
    Unknown,
}

impl ModelError {
    /// An error without a wish of the provider's.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retry_after: None,
        }
    }

    /// What the call used: nothing, or `None` where nobody knows.
    pub fn usage(&self) -> Option<Usage> {
        match self.kind {
            ErrorKind::Unknown => None,
            _ => Some(Usage::default()),
        }
    }

    /// Whether another try makes sense. A call has no effect but its price, so one whose outcome is
    /// unknown may be made again.
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind, ErrorKind::Retryable | ErrorKind::Unknown)
    }
}
