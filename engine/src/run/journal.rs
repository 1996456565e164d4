//! A run's journal in the hands of its owner: how it is opened and why, how it grows, and what the home
//! hears of it. The coordinator does the rest; nothing here decides what comes next or does a step.

use std::{path::Path, sync::Arc};

use ronde_protocol::{Clock, firing::Firing};
use ronde_state::{
    event::{HomeEvent, RunEvent, WakeReason},
    journal::Record,
    run::{Illegal, RunState},
    store::{Error as StoreError, Lease, Store},
};

use super::actor::Wake;
use crate::event::rest_reason;

/// Why a journal cannot be opened or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The store refuses.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What is to be written cannot follow.
    #[error(transparent)]
    Illegal(#[from] Illegal),
}

/// The journal of one run, open for writing.
pub(crate) struct RunJournal {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    lease: Lease,
    state: RunState,
}

impl RunJournal {
    /// Rebuilds a run from its journal, or begins it.
    ///
    /// # Errors
    /// As the store says, or where the journal says something that cannot be.
    pub(crate) async fn open(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        firing: &Firing,
        root: &Path,
        wake: Wake,
    ) -> Result<Self, Error> {
        let now = clock.now();
        // The home has one owner, and the owner one coordinator a run: the lease only has to outlive
        // any pause of this process. A later owner takes it over by its higher epoch.
        let until = now + jiff::SignedDuration::from_hours(24 * 365);
        let lease = store.lease(&firing.run, "engine", now, until).await?;
        let records = match store.read_run(&firing.run, 1).await {
            Ok(records) => records,
            Err(StoreError::Missing { .. }) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let fired = RunEvent::Fired {
            firing: firing.clone(),
            root: root.to_owned(),
        };
        let (state, begun) = match RunState::fold(&records)? {
            Some(state) => (state, true),
            None => {
                store.append(&lease, 1, now, &fired).await?;
                let first = Record::new(1, lease.epoch, now, fired);
                (RunState::begin(&first)?, false)
            }
        };
        let mut this = Self {
            store,
            clock,
            lease,
            state,
        };
        if wake == Wake::Park {
            if this.state.outcome().is_none() {
                this.append(RunEvent::Interrupted).await?;
            }
        } else if begun && this.goes_on(&wake) {
            this.wake(wake).await?;
        }
        Ok(this)
    }

    /// Says in the journal that the run has a new owner, and why.
    async fn wake(&mut self, wake: Wake) -> Result<(), Error> {
        // Calls of a process that is gone are paid in full: nobody knows what they used.
        self.store.settle_lost(&self.state.firing.run).await?;
        let stop = wake == Wake::Stop;
        let reason = match &wake {
            Wake::Recover | Wake::Stop | Wake::Park => WakeReason::Recovered,
            Wake::Continue => WakeReason::Continued,
            Wake::Answer(..) => WakeReason::Answered,
        };
        // A run that has not heard yet that it asked finds the answer once it has.
        if let Wake::Answer(item, answer) = wake
            && self.state.waiting.is_some()
        {
            self.append(RunEvent::Answered { item, answer }).await?;
        } else if stop {
            self.append(RunEvent::StopRequested).await?;
        }
        let epoch = self.lease.epoch;
        self.append(RunEvent::Woken { epoch, reason }).await?;
        // By the home, a run whose process died at work is at work still.
        let run = self.state.firing.run.clone();
        let home = self.store.home();
        if home.run(&run).is_some_and(|run| !run.at_work()) {
            self.store.record(vec![HomeEvent::RunWoken { run }]).await?;
        }
        Ok(())
    }

    /// Whether there is something to wake for: not for a run that has ended, and not for one that waits
    /// for an answer this is not.
    fn goes_on(&self, wake: &Wake) -> bool {
        let waits_on = self
            .state
            .waiting
            .as_ref()
            .is_some_and(|waiting| match wake {
                Wake::Answer(item, _) => *item != waiting.item,
                Wake::Stop => false,
                Wake::Recover | Wake::Continue | Wake::Park => true,
            });
        // A coordinator that was still at work then may have heard it by itself.
        let heard = |item| self.state.answers.iter().any(|had| had.item == item);
        let again = matches!(wake, Wake::Answer(item, _) if heard(*item));
        self.state.ended.is_none() && !waits_on && !again
    }

    /// The run as its journal has it.
    pub(crate) fn state(&self) -> &RunState {
        &self.state
    }

    /// Writes one event, then folds it in. Nothing that follows from it happens before.
    ///
    /// # Errors
    /// As the store says, or where the event cannot follow.
    pub(crate) async fn append(&mut self, event: RunEvent) -> Result<(), Error> {
        let at = self.clock.now();
        let record = Record::new(self.state.seq + 1, self.lease.epoch, at, event);
        let mut after = self.state.clone();
        after.apply(&record)?;
        self.store
            .append(&self.lease, record.seq, at, &record.event)
            .await?;
        self.state = after;
        Ok(())
    }

    /// Writes down the answer to what the run has just begun to wait for, where there is one already: a
    /// person may answer before the run rests, and a process may die in between. Says whether there was.
    ///
    /// # Errors
    /// As [`RunJournal::append`].
    pub(crate) async fn hear(&mut self) -> Result<bool, Error> {
        let Some(item) = self.state.waiting.as_ref().map(|waiting| waiting.item) else {
            return Ok(false);
        };
        let home = self.store.home();
        let given = home
            .inbox()
            .get(item)
            .and_then(|entry| entry.answer.clone());
        let Some(answer) = given else {
            return Ok(false);
        };
        self.append(RunEvent::Answered { item, answer }).await?;
        Ok(true)
    }

    /// Tells the home how the run stands, if it rests or has ended, and gives the run up.
    ///
    /// # Errors
    /// As the store says.
    pub(crate) async fn rest(&self) -> Result<(), Error> {
        let Some(rested) = rested(&self.state) else {
            return Ok(());
        };
        // A run that is looked at after its end has told the home before.
        let home = self.store.home();
        let known = home.run(&self.state.firing.run).and_then(|run| run.outcome);
        if known != self.state.outcome() {
            self.store.record(vec![rested]).await?;
        }
        self.store.release(&self.lease).await?;
        Ok(())
    }
}

/// What the home journal says of a run that rests or has ended.
pub(crate) fn rested(state: &RunState) -> Option<HomeEvent> {
    let delivered = state
        .delivered
        .as_ref()
        .and_then(|delivered| delivered.branch.clone());
    Some(HomeEvent::RunRested {
        run: state.firing.run.clone(),
        outcome: state.outcome()?,
        changed: state
            .ended
            .as_ref()
            .map_or_else(|| state.changed(), |end| end.changed),
        reason: rest_reason(state),
        branch: delivered.or_else(|| state.branch.clone()),
        item: state.waiting.as_ref().map(|waiting| waiting.item),
    })
}
