//! What a turn reaches the world through. The worker brings the implementations.

use std::{collections::BTreeSet, sync::Arc};

use ronde_model::{Model, Purse};
use ronde_protocol::{
    ArtefactId, Digest,
    work::{Progress, TurnEvent},
};
use ronde_sandbox::{Spawner, gate::Gate};
use tokio::sync::watch;

/// Everything outside a turn.
#[derive(Clone)]
pub struct Ports {
    /// The model.
    pub model: Arc<dyn Model>,
    /// Who pays for its calls.
    pub purse: Arc<dyn Purse>,
    /// Where each step is written down.
    pub recorder: Arc<dyn Recorder>,
    /// What starts shell commands.
    pub spawner: Spawner,
    /// What decides about tools.
    pub gate: Gate,
    /// Actions a person said yes to.
    pub approved: BTreeSet<Digest>,
    /// Becomes true when the attempt is to stop; a sender that is gone says so too.
    pub stop: watch::Receiver<bool>,
    /// Short-lived news, for screens.
    pub progress: Arc<dyn Fn(Progress) + Send + Sync>,
}

/// Writes down what a turn does. Nothing is done before [`Recorder::record`] has said yes to it.
#[async_trait::async_trait]
pub trait Recorder: Send + Sync + 'static {
    /// Writes an event down, durably.
    ///
    /// # Errors
    /// [`Stop`] where the turn is not to go on.
    async fn record(&self, event: TurnEvent) -> Result<(), Stop>;

    /// Stores bytes.
    ///
    /// # Errors
    /// [`Stop`] where the turn is not to go on.
    async fn artefact(&self, bytes: &[u8]) -> Result<ArtefactId, Stop>;
}

/// The turn is not to go on: it was asked to stop, or nothing can be written down any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop;

/// Resolves when the attempt is to stop.
pub(crate) async fn stopped(stop: &watch::Receiver<bool>) {
    // An error means that the sender is gone.
    let mut stop = stop.clone();
    let _gone = stop.wait_for(|stop| *stop).await;
}

/// Whether the attempt is to stop.
pub(crate) fn is_stopped(stop: &watch::Receiver<bool>) -> bool {
    *stop.borrow() || stop.has_changed().is_err()
}
