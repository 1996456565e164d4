//! Who may write to which run. Pure; whether a lease has run out is told by the instant the caller
//! brings.

use std::collections::BTreeMap;

use jiff::Timestamp;
use ronde_protocol::{Epoch, RunId};
use serde::{Deserialize, Serialize};

/// The leases of a home.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leases {
    runs: BTreeMap<RunId, Held>,
}

/// The newest lease of a run. It is kept after its end for its epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Higher than any before it.
    pub epoch: Epoch,
    /// Its holder; none once it was given up.
    pub holder: Option<String>,
    /// Not valid any more at this instant.
    pub until: Timestamp,
    /// The epoch of the process that gave it.
    pub given: Epoch,
}

impl Leases {
    /// The newest lease of a run.
    pub fn get(&self, run: &RunId) -> Option<&Held> {
        self.runs.get(run)
    }

    /// Whether this epoch is the newest of the run and not given up; else the newest.
    ///
    /// # Errors
    /// The newest epoch; 0 where there never was a lease.
    pub fn check(&self, run: &RunId, epoch: Epoch) -> Result<(), Epoch> {
        match self.runs.get(run) {
            Some(held) if held.epoch == epoch && held.holder.is_some() => Ok(()),
            Some(held) => Err(held.epoch),
            None => Err(0),
        }
    }

    /// The epoch of a new lease for `holder`, given by a process of epoch `given` at `now`.
    ///
    /// # Errors
    /// The epoch of a valid lease of another holder.
    pub fn decide(
        &self,
        run: &RunId,
        holder: &str,
        now: Timestamp,
        given: Epoch,
    ) -> Result<Epoch, Epoch> {
        let Some(held) = self.runs.get(run) else {
            return Ok(1);
        };
        let another = held
            .holder
            .as_deref()
            .is_some_and(|before| before != holder);
        if another && now < held.until && held.given >= given {
            return Err(held.epoch);
        }
        Ok(held.epoch + 1)
    }

    pub(crate) fn take(&mut self, run: &RunId, held: Held) -> Result<(), String> {
        if let Some(before) = self.runs.get(run)
            && held.epoch <= before.epoch
        {
            return Err(format!(
                "lease {} of {run} cannot follow {}",
                held.epoch, before.epoch
            ));
        }
        self.runs.insert(run.clone(), held);
        Ok(())
    }

    pub(crate) fn extend(
        &mut self,
        run: &RunId,
        epoch: Epoch,
        until: Timestamp,
    ) -> Result<(), String> {
        self.newest(run, epoch)?.until = until;
        Ok(())
    }

    pub(crate) fn release(&mut self, run: &RunId, epoch: Epoch) -> Result<(), String> {
        self.newest(run, epoch)?.holder = None;
        Ok(())
    }

    fn newest(&mut self, run: &RunId, epoch: Epoch) -> Result<&mut Held, String> {
        self.check(run, epoch).map_err(|newest| {
            format!("lease {epoch} of {run} is not held; the last is {newest}")
        })?;
        Ok(self.runs.get_mut(run).expect("the check found it"))
    }
}
