//! The state of a home: a pure fold over its journal. It says what happened and answers questions; what
//! is to happen next is decided in `decide.rs` and by the engine.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::Timestamp;
use ronde_protocol::{
    ArtefactId, CallId, Digest, Epoch, ItemNumber, LoopName, ProjectId, RunId, Seq, SlotId,
    firing::Firing,
};
use serde::{Deserialize, Serialize};

use crate::{
    event::HomeEvent,
    inbox::Inbox,
    journal::Record,
    leases::{Held, Leases},
    ledger::{self, Ledger},
    pairs,
    queue::Queues,
    runs::Runs,
    slots::Slots,
};
pub use crate::{runs::RunSummary, slots::Skip};

/// An event that cannot follow what happened before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record {seq}: {reason}")]
pub struct Illegal {
    /// The record.
    pub seq: Seq,
    /// Why it cannot stand there.
    pub reason: String,
}

/// Everything known of a home. A clone shares its parts with the original until one of them changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Home {
    seq: Seq,
    epoch: Epoch,
    projects: Arc<BTreeMap<ProjectId, PathBuf>>,
    loops: Arc<BTreeMap<(ProjectId, LoopName), Served>>,
    slots: Arc<Slots>,
    runs: Arc<Runs>,
    ledger: Arc<Ledger>,
    inbox: Arc<Inbox>,
    notifying: Arc<BTreeSet<(ItemNumber, String)>>,
    told: Arc<BTreeSet<(ItemNumber, String)>>,
    leases: Arc<Leases>,
    timers: Arc<BTreeMap<String, Timestamp>>,
    queues: Arc<Queues>,
}

/// A loop that is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// Its project.
    pub project: ProjectId,
    /// The loop.
    #[serde(rename = "loop")]
    pub loop_name: LoopName,
    /// The loop file.
    pub file: PathBuf,
    /// Its frozen definition.
    pub definition: ArtefactId,
    /// Since when it is served with this definition.
    pub since: Timestamp,
}

impl Home {
    /// Folds a whole journal.
    ///
    /// # Errors
    /// [`Illegal`] names the first record that cannot stand where it does.
    pub fn fold<'a>(
        records: impl IntoIterator<Item = &'a Record<HomeEvent>>,
    ) -> Result<Self, Illegal> {
        let mut home = Self::default();
        for record in records {
            home.apply(record)?;
        }
        Ok(home)
    }

    /// Folds one more record in.
    ///
    /// # Errors
    /// [`Illegal`] where the record is out of order, from an older owner, or says something that cannot
    /// follow. The state is then as it was before.
    pub fn apply(&mut self, record: &Record<HomeEvent>) -> Result<(), Illegal> {
        let illegal = |reason: String| Illegal {
            seq: record.seq,
            reason,
        };
        if record.seq != self.seq + 1 {
            return Err(illegal(format!("follows record {}", self.seq)));
        }
        let epoch = match &record.event {
            HomeEvent::Opened { epoch, .. } if *epoch != self.epoch + 1 => {
                return Err(illegal(format!(
                    "epoch {epoch} cannot follow {}",
                    self.epoch
                )));
            }
            HomeEvent::Opened { epoch, .. } => *epoch,
            _ if self.epoch == 0 => return Err(illegal("a home begins with `opened`".to_owned())),
            _ => self.epoch,
        };
        if record.epoch != epoch {
            return Err(illegal(format!(
                "is of epoch {}, not of {epoch}",
                record.epoch
            )));
        }
        self.apply_event(record).map_err(illegal)?;
        self.seq = record.seq;
        self.epoch = epoch;
        Ok(())
    }

    /// The last record that is folded in.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// The epoch of the last process that took the home over; 0 before the first.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Every run, oldest first.
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = &RunSummary> + ExactSizeIterator {
        self.runs.iter()
    }

    /// One run.
    pub fn run(&self, run: &RunId) -> Option<&RunSummary> {
        self.runs.get(run)
    }

    /// The run a slot became.
    pub fn slot(&self, slot: &SlotId) -> Option<RunId> {
        Some(self.runs.of_slot(slot)?.run.clone())
    }

    /// The oldest run of a loop that is neither at rest nor at its end.
    pub fn active_run(&self, project: &ProjectId, loop_name: &LoopName) -> Option<&RunSummary> {
        self.runs.at_work(project, loop_name).next()
    }

    /// Every run of a loop that is neither at rest nor at its end, oldest first.
    pub fn active_runs(
        &self,
        project: &ProjectId,
        loop_name: &LoopName,
    ) -> impl Iterator<Item = &RunSummary> {
        self.runs.at_work(project, loop_name)
    }

    /// The instant a trigger was first registered: an interval is counted from it.
    pub fn anchor(
        &self,
        project: &ProjectId,
        loop_name: &LoopName,
        trigger: &Digest,
    ) -> Option<Timestamp> {
        self.slots.anchor(project, loop_name, trigger)
    }

    /// The instant up to which every slot of a trigger is accounted for; `trigger` is the hash of its
    /// content.
    pub fn watermark(
        &self,
        project: &ProjectId,
        loop_name: &LoopName,
        trigger: &Digest,
    ) -> Option<Timestamp> {
        self.slots.watermark(project, loop_name, trigger)
    }

    /// What was skipped of a loop lately, oldest first.
    pub fn skips(
        &self,
        project: &ProjectId,
        loop_name: &LoopName,
    ) -> impl DoubleEndedIterator<Item = &Skip> {
        self.slots.skips(project, loop_name)
    }

    /// The loops that are served, by project and name.
    pub fn loops(&self) -> impl Iterator<Item = &Served> {
        self.loops.values()
    }

    /// One loop that is served.
    pub fn served(&self, project: &ProjectId, loop_name: &LoopName) -> Option<&Served> {
        self.loops.get(&(project.clone(), loop_name.clone()))
    }

    /// The projects with their root folders.
    pub fn projects(&self) -> impl Iterator<Item = (&ProjectId, &Path)> {
        self.projects
            .iter()
            .map(|(project, root)| (project, root.as_path()))
    }

    /// The root folder of a project.
    pub fn project(&self, project: &ProjectId) -> Option<&Path> {
        self.projects.get(project).map(PathBuf::as_path)
    }

    /// What only a person can decide.
    pub fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// The budgets.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Who may write to which run.
    pub fn leases(&self) -> &Leases {
        &self.leases
    }

    /// The queues of tasks.
    pub fn queues(&self) -> &Queues {
        &self.queues
    }

    /// The timers that are set, by id.
    pub fn timers(&self) -> impl Iterator<Item = (&str, Timestamp)> {
        self.timers.iter().map(|(id, at)| (id.as_str(), *at))
    }

    /// When a timer is set for.
    pub fn timer(&self, id: &str) -> Option<Timestamp> {
        self.timers.get(id).copied()
    }

    /// Notifications that were begun and whose end nobody saw: item and channel.
    pub fn notifying(&self) -> impl Iterator<Item = (ItemNumber, &str)> {
        self.notifying
            .iter()
            .map(|(number, channel)| (*number, channel.as_str()))
    }

    /// Whether a notification about an item was sent.
    pub fn told(&self, number: ItemNumber, channel: &str) -> bool {
        self.told.contains(&(number, channel.to_owned()))
    }

    /// Whether a call's run, where it is known, has not ended.
    pub(crate) fn may_pay(&self, call: &CallId) -> Result<(), String> {
        let run = ledger::run_of(call);
        match self
            .runs
            .get(&run)
            .and_then(|run| run.outcome)
            .filter(|outcome| outcome.is_end())
        {
            Some(outcome) => Err(format!("run {run} has ended as {outcome}")),
            None => Ok(()),
        }
    }

    fn apply_event(&mut self, record: &Record<HomeEvent>) -> Result<(), String> {
        let at = record.at;
        match &record.event {
            HomeEvent::Opened { .. } => {}
            HomeEvent::ProjectOpened { project, root } => self.open_project(project, root)?,
            HomeEvent::LoopRegistered {
                project,
                loop_name,
                file,
                definition,
            } => {
                utf8(file)?;
                if !self.projects.contains_key(project) {
                    return Err(format!("there is no project {project}"));
                }
                let served = Served {
                    project: project.clone(),
                    loop_name: loop_name.clone(),
                    file: file.clone(),
                    definition: definition.clone(),
                    since: at,
                };
                Arc::make_mut(&mut self.loops).insert((project.clone(), loop_name.clone()), served);
            }
            HomeEvent::LoopRemoved { project, loop_name } => {
                let key = (project.clone(), loop_name.clone());
                if !self.loops.contains_key(&key) {
                    return Err(format!(
                        "loop {loop_name} of project {project} is not served"
                    ));
                }
                Arc::make_mut(&mut self.loops).remove(&key);
            }
            HomeEvent::Watermark {
                project,
                loop_name,
                trigger,
                upto,
            } => {
                Arc::make_mut(&mut self.slots).advance(project, loop_name, trigger, *upto);
            }
            HomeEvent::SlotFired {
                firing,
                root,
                trigger,
            } => {
                self.fire(record, firing, root, trigger.as_ref())?;
            }
            HomeEvent::SlotsSkipped {
                project,
                loop_name,
                trigger,
                slot,
                first,
                last,
                count,
                reason,
            } => {
                let skip = Skip {
                    at,
                    trigger: trigger.clone(),
                    slot: slot.clone(),
                    first: *first,
                    last: *last,
                    count: *count,
                    reason: reason.clone(),
                };
                Arc::make_mut(&mut self.slots).skip(project, loop_name, skip)?;
            }
            HomeEvent::RunRested { .. } => self.rest(record)?,
            HomeEvent::RunWoken { run } => {
                Arc::make_mut(&mut self.runs).change(run, |summary| {
                    match summary.outcome {
                        Some(outcome) if !outcome.is_end() => {}
                        Some(outcome) => return Err(format!("run {run} has ended as {outcome}")),
                        None => return Err(format!("run {run} is at work")),
                    }
                    summary.outcome = None;
                    summary.item = None;
                    summary.reason.clear();
                    summary.seq = record.seq;
                    Ok(())
                })?;
            }
            HomeEvent::Reserved {
                call,
                amount,
                scopes,
            } => {
                self.may_pay(call)?;
                Arc::make_mut(&mut self.ledger).reserve(call, *amount, scopes)?;
            }
            HomeEvent::Settled { call, amount } => {
                Arc::make_mut(&mut self.ledger).settle(call, *amount)?;
            }
            HomeEvent::ItemOpened { number, item } => {
                Arc::make_mut(&mut self.inbox).add(*number, item)?;
            }
            HomeEvent::ItemResolved { number, answer } => {
                Arc::make_mut(&mut self.inbox).resolve(*number, answer, at)?;
            }
            HomeEvent::NotifyStarted { number, channel } => {
                if self.inbox.get(*number).is_none() {
                    return Err(format!("there is no item {number}"));
                }
                let key = (*number, channel.clone());
                if !Arc::make_mut(&mut self.notifying).insert(key) {
                    return Err(format!("item {number} is being told to {channel} already"));
                }
            }
            HomeEvent::NotifyEnded {
                number,
                channel,
                error,
            } => {
                let key = (*number, channel.clone());
                if !Arc::make_mut(&mut self.notifying).remove(&key) {
                    return Err(format!("item {number} is not being told to {channel}"));
                }
                if error.is_none() {
                    Arc::make_mut(&mut self.told).insert(key);
                }
            }
            HomeEvent::LeaseTaken {
                run,
                holder,
                epoch,
                until,
            } => {
                if self.runs.get(run).is_none() {
                    return Err(format!("there is no run {run}"));
                }
                let held = Held {
                    epoch: *epoch,
                    holder: Some(holder.clone()),
                    until: *until,
                    given: record.epoch,
                };
                Arc::make_mut(&mut self.leases).take(run, held)?;
            }
            HomeEvent::LeaseExtended { run, epoch, until } => {
                Arc::make_mut(&mut self.leases).extend(run, *epoch, *until)?;
            }
            HomeEvent::LeaseReleased { run, epoch } => {
                Arc::make_mut(&mut self.leases).release(run, *epoch)?;
            }
            HomeEvent::TimerSet { id, at } => {
                Arc::make_mut(&mut self.timers).insert(id.clone(), *at);
            }
            HomeEvent::TimerCleared { id } => {
                if Arc::make_mut(&mut self.timers).remove(id).is_none() {
                    return Err(format!("there is no timer `{id}`"));
                }
            }
            HomeEvent::Pushed { task } => Arc::make_mut(&mut self.queues).push(task)?,
            HomeEvent::Pulled {
                queue,
                id,
                holder,
                until,
            } => {
                Arc::make_mut(&mut self.queues).pull(queue, id, holder, *until)?;
            }
            HomeEvent::Acked { queue, id } => Arc::make_mut(&mut self.queues).ack(queue, id)?,
        }
        Ok(())
    }

    fn open_project(&mut self, project: &ProjectId, root: &Path) -> Result<(), String> {
        utf8(root)?;
        match self.projects.get(project) {
            Some(before) if before == root => {}
            Some(before) => return Err(format!("project {project} is {}", before.display())),
            None => {
                Arc::make_mut(&mut self.projects).insert(project.clone(), root.to_owned());
            }
        }
        Ok(())
    }

    fn fire(
        &mut self,
        record: &Record<HomeEvent>,
        firing: &Firing,
        root: &Path,
        trigger: Option<&Digest>,
    ) -> Result<(), String> {
        utf8(root)?;
        let run = RunId::of(&firing.loop_name, &firing.slot);
        if firing.run != run {
            return Err(format!(
                "the run of slot {} is {run}, not {}",
                firing.slot, firing.run
            ));
        }
        Arc::make_mut(&mut self.runs).fire(RunSummary {
            run,
            project: firing.project.clone(),
            loop_name: firing.loop_name.clone(),
            slot: firing.slot.clone(),
            cause: firing.cause.clone(),
            due: firing.due,
            fired_at: record.at,
            definition: firing.definition.clone(),
            root: root.to_owned(),
            outcome: None,
            changed: false,
            reason: String::new(),
            branch: None,
            item: None,
            rested_at: None,
            seq: record.seq,
        })?;
        if let Some(trigger) = trigger {
            let slots = Arc::make_mut(&mut self.slots);
            slots.advance(&firing.project, &firing.loop_name, trigger, firing.due);
        }
        Ok(())
    }

    fn rest(&mut self, record: &Record<HomeEvent>) -> Result<(), String> {
        let HomeEvent::RunRested {
            run,
            outcome,
            changed,
            reason,
            branch,
            item,
        } = &record.event
        else {
            return Ok(());
        };
        Arc::make_mut(&mut self.runs).change(run, |summary| {
            if let Some(before) = summary.outcome.filter(|before| before.is_end()) {
                return Err(format!("run {run} has ended as {before}"));
            }
            summary.outcome = Some(*outcome);
            summary.changed = *changed;
            summary.reason.clone_from(reason);
            summary.branch.clone_from(branch);
            summary.item = *item;
            summary.rested_at = Some(record.at);
            summary.seq = record.seq;
            Ok(())
        })?;
        if outcome.is_end() {
            Arc::make_mut(&mut self.ledger).forget(run);
        }
        Ok(())
    }
}

/// A record is JSON, and JSON is UTF-8.
fn utf8(path: &Path) -> Result<(), String> {
    match path.to_str() {
        Some(_) => Ok(()),
        None => Err(format!("{} is not UTF-8", path.display())),
    }
}

/// A home as it stands in a snapshot.
#[derive(Serialize, Deserialize)]
pub(crate) struct Image {
    seq: Seq,
    epoch: Epoch,
    projects: BTreeMap<ProjectId, PathBuf>,
    loops: Vec<Served>,
    slots: Slots,
    runs: Runs,
    ledger: Ledger,
    inbox: Inbox,
    notifying: BTreeSet<(ItemNumber, String)>,
    #[serde(default)]
    told: BTreeSet<(ItemNumber, String)>,
    leases: Leases,
    #[serde(with = "pairs")]
    timers: BTreeMap<String, Timestamp>,
    queues: Queues,
}

impl From<&Home> for Image {
    fn from(home: &Home) -> Self {
        Self {
            seq: home.seq,
            epoch: home.epoch,
            projects: (*home.projects).clone(),
            loops: home.loops.values().cloned().collect(),
            slots: (*home.slots).clone(),
            runs: (*home.runs).clone(),
            ledger: (*home.ledger).clone(),
            inbox: (*home.inbox).clone(),
            notifying: (*home.notifying).clone(),
            told: (*home.told).clone(),
            leases: (*home.leases).clone(),
            timers: (*home.timers).clone(),
            queues: (*home.queues).clone(),
        }
    }
}

impl From<Image> for Home {
    fn from(image: Image) -> Self {
        let loops = image.loops.into_iter();
        Self {
            seq: image.seq,
            epoch: image.epoch,
            projects: Arc::new(image.projects),
            loops: Arc::new(
                loops
                    .map(|l| ((l.project.clone(), l.loop_name.clone()), l))
                    .collect(),
            ),
            slots: Arc::new(image.slots),
            runs: Arc::new(image.runs),
            ledger: Arc::new(image.ledger),
            inbox: Arc::new(image.inbox),
            notifying: Arc::new(image.notifying),
            told: Arc::new(image.told),
            leases: Arc::new(image.leases),
            timers: Arc::new(image.timers),
            queues: Arc::new(image.queues),
        }
    }
}
