//! The runs of a home in the order they were fired, one line each, and which of them are at work. Pure.
//! What happened within a run is in its own journal.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::PathBuf,
    sync::Arc,
};

use jiff::Timestamp;
use ronde_protocol::{
    ArtefactId, ItemNumber, LoopName, ProjectId, RunId, Seq, SlotId, firing::Cause,
    outcome::Outcome,
};
use serde::{Deserialize, Serialize};

/// What a list of runs shows of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The run.
    pub run: RunId,
    /// Its project.
    pub project: ProjectId,
    /// Its loop.
    #[serde(rename = "loop")]
    pub loop_name: LoopName,
    /// The slot it came from.
    pub slot: SlotId,
    /// Why it was started.
    pub cause: Cause,
    /// The instant it was due.
    pub due: Timestamp,
    /// The instant it was fired.
    pub fired_at: Timestamp,
    /// The definition it runs by.
    pub definition: ArtefactId,
    /// The root folder of its project.
    pub root: PathBuf,
    /// How it ended or rests; none while it is at work.
    pub outcome: Option<Outcome>,
    /// Whether the delivered tree differs from the base.
    pub changed: bool,
    /// Why it rests or ended, in one line.
    pub reason: String,
    /// The branch with its result or the work so far.
    pub branch: Option<String>,
    /// The inbox item it waits for.
    pub item: Option<ItemNumber>,
    /// When it came to rest or ended, the last time.
    pub rested_at: Option<Timestamp>,
    /// The last home record that speaks of it.
    pub seq: Seq,
}

impl RunSummary {
    /// Whether it is neither at rest nor at its end.
    pub fn at_work(&self) -> bool {
        self.outcome.is_none()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Row>", into = "Vec<Row>")]
pub(crate) struct Runs {
    /// Oldest first; nothing is ever taken out.
    list: Vec<Arc<RunSummary>>,
    by_id: HashMap<RunId, usize>,
    by_slot: HashMap<SlotId, usize>,
    at_work: BTreeMap<(ProjectId, LoopName), BTreeSet<usize>>,
}

/// A summary as it stands in a snapshot.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Row(RunSummary);

impl From<Vec<Row>> for Runs {
    fn from(list: Vec<Row>) -> Self {
        let mut runs = Self::default();
        for Row(summary) in list {
            runs.add(summary);
        }
        runs
    }
}

impl From<Runs> for Vec<Row> {
    fn from(runs: Runs) -> Self {
        runs.list
            .into_iter()
            .map(|run| Row(Arc::unwrap_or_clone(run)))
            .collect()
    }
}

impl Runs {
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &RunSummary> + ExactSizeIterator {
        self.list.iter().map(|run| &**run)
    }

    pub(crate) fn get(&self, run: &RunId) -> Option<&RunSummary> {
        Some(&self.list[*self.by_id.get(run)?])
    }

    pub(crate) fn of_slot(&self, slot: &SlotId) -> Option<&RunSummary> {
        Some(&self.list[*self.by_slot.get(slot)?])
    }

    pub(crate) fn at_work(
        &self,
        project: &ProjectId,
        loop_name: &LoopName,
    ) -> impl Iterator<Item = &RunSummary> {
        self.at_work
            .get(&(project.clone(), loop_name.clone()))
            .into_iter()
            .flatten()
            .map(|place| &*self.list[*place])
    }

    pub(crate) fn fire(&mut self, summary: RunSummary) -> Result<(), String> {
        if let Some(run) = self.of_slot(&summary.slot) {
            return Err(format!("slot {} is run {} already", summary.slot, run.run));
        }
        if let Some(run) = self.get(&summary.run) {
            return Err(format!("run {} is of slot {}", summary.run, run.slot));
        }
        self.add(summary);
        Ok(())
    }

    fn add(&mut self, summary: RunSummary) {
        let place = self.list.len();
        self.by_id.insert(summary.run.clone(), place);
        self.by_slot.insert(summary.slot.clone(), place);
        if summary.at_work() {
            self.mark(&summary.project, &summary.loop_name, place, true);
        }
        self.list.push(Arc::new(summary));
    }

    /// Changes a run by `change`, which says why if it cannot.
    pub(crate) fn change(
        &mut self,
        run: &RunId,
        change: impl FnOnce(&mut RunSummary) -> Result<(), String>,
    ) -> Result<&RunSummary, String> {
        let place = *self
            .by_id
            .get(run)
            .ok_or_else(|| format!("there is no run {run}"))?;
        change(Arc::make_mut(&mut self.list[place]))?;
        let summary = Arc::clone(&self.list[place]);
        self.mark(
            &summary.project,
            &summary.loop_name,
            place,
            summary.at_work(),
        );
        Ok(&self.list[place])
    }

    fn mark(&mut self, project: &ProjectId, loop_name: &LoopName, place: usize, at_work: bool) {
        let key = (project.clone(), loop_name.clone());
        if at_work {
            self.at_work.entry(key).or_default().insert(place);
        } else if let Some(places) = self.at_work.get_mut(&key) {
            places.remove(&place);
            if places.is_empty() {
                self.at_work.remove(&key);
            }
        }
    }
}
