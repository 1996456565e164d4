//! The state of one run: a pure fold over its journal. It says what happened, never what to do next;
//! that is the coordinator's `next`.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use jiff::Timestamp;
use ronde_protocol::{
    CommitId, Epoch, ItemNumber, Seq, TreeId, Usage, WorkerName,
    firing::Firing,
    handoff::{Answer, Reason},
    outcome::Outcome,
    verdict::{Finding, Verdict},
    work::{AttemptEnd, EndReason, TurnEvent},
};

use crate::{
    event::{RunEvent, Step},
    journal::Record,
};

/// An event that cannot follow what happened before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record {seq}: {reason}")]
pub struct Illegal {
    /// The record.
    pub seq: Seq,
    /// Why it cannot stand there.
    pub reason: String,
}

/// Everything known of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunState {
    /// What started it.
    pub firing: Firing,
    /// The root folder of the project.
    pub root: PathBuf,
    /// The last record that is folded in.
    pub seq: Seq,
    /// The epoch of the last owner.
    pub epoch: Epoch,
    /// When it began.
    pub began: Timestamp,
    /// When the last record was written.
    pub last: Timestamp,
    /// The workspace, once it stands.
    pub prepared: Option<Prepared>,
    /// The verdict on the base itself, where one was asked for.
    pub baseline: Option<Verdict>,
    /// The attempts so far, in order.
    pub attempts: Vec<Attempt>,
    /// Steps the present owner has begun and not ended.
    pub in_flight: BTreeSet<Step>,
    /// Steps that an owner which is gone had begun: nobody saw how they ended.
    pub lost: BTreeSet<Step>,
    /// The step that could not be taken, and why. Cleared when it is begun again.
    pub failure: Option<(Step, String)>,
    /// Questions put to a person so far.
    pub asked: u32,
    /// The item the run waits for.
    pub waiting: Option<Waiting>,
    /// Answers so far, in order.
    pub answers: Vec<Answered>,
    /// Items that the run did not wait for.
    pub notices: Vec<(ItemNumber, Reason)>,
    /// Where the work so far can be seen, if it was put anywhere.
    pub branch: Option<String>,
    /// What was delivered.
    pub delivered: Option<Delivered>,
    /// The run's time is used up.
    pub time_up: bool,
    /// A person wants it to end.
    pub stop_requested: bool,
    /// It rests because ronde was asked to leave off.
    pub interrupted: bool,
    /// How it ended.
    pub ended: Option<End>,
    /// Time at work, up to `active_since` or to the last rest.
    pub active: Duration,
    /// Since when it is at work; none while it rests.
    pub active_since: Option<Timestamp>,
    /// Model calls begun.
    pub iterations: u32,
    /// What model calls used, as far as it is known.
    pub usage: Usage,
}

/// The workspace of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// The commit the run is based on.
    pub base: CommitId,
    /// Its tree.
    pub tree: TreeId,
    /// Its branch, where it has one.
    pub branch: Option<String>,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Its number, from 1.
    pub number: u32,
    /// Its worker.
    pub worker: WorkerName,
    /// How the worker ended.
    pub end: Option<AttemptEnd>,
    /// The tree it left, and the paths that differ from the base.
    pub snapshot: Option<(TreeId, Vec<String>)>,
    /// The verdict on that tree.
    pub verdict: Option<Verdict>,
    /// Answers that had been given when it was begun.
    pub answers_before: usize,
}

/// A rest for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The item.
    pub item: ItemNumber,
    /// Why.
    pub reason: Reason,
}

/// What a person said, and to what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The item.
    pub item: ItemNumber,
    /// Why it had been asked.
    pub reason: Reason,
    /// The answer.
    pub answer: Answer,
}

/// What was put into the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// The branch, if there was anything to deliver.
    pub branch: Option<String>,
    /// The commit on it.
    pub commit: Option<CommitId>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// How.
    pub outcome: Outcome,
    /// Whether the delivered tree differs from the base.
    pub changed: bool,
    /// Why, in one line.
    pub reason: String,
}

impl RunState {
    /// Folds a whole journal.
    ///
    /// # Errors
    /// [`Illegal`] names the first record that cannot stand where it does.
    pub fn fold(records: &[Record<RunEvent>]) -> Result<Option<Self>, Illegal> {
        let mut state = None;
        for record in records {
            match &mut state {
                None => state = Some(Self::begin(record)?),
                Some(state) => state.apply(record)?,
            }
        }
        Ok(state)
    }

    /// The state after the first record.
    ///
    /// # Errors
    /// [`Illegal`] where it is not the first record, or not `Fired`.
    pub fn begin(record: &Record<RunEvent>) -> Result<Self, Illegal> {
        let illegal = |reason: &str| Illegal {
            seq: record.seq,
            reason: reason.to_owned(),
        };
        if record.seq != 1 {
            return Err(illegal("a journal begins with record 1"));
        }
        let RunEvent::Fired { firing, root } = &record.event else {
            return Err(illegal("a run begins with `fired`"));
        };
        Ok(Self {
            firing: firing.clone(),
            root: root.clone(),
            seq: 1,
            epoch: record.epoch,
            began: record.at,
            last: record.at,
            prepared: None,
            baseline: None,
            attempts: Vec::new(),
            in_flight: BTreeSet::new(),
            lost: BTreeSet::new(),
            failure: None,
            asked: 0,
            waiting: None,
            answers: Vec::new(),
            notices: Vec::new(),
            branch: None,
            delivered: None,
            time_up: false,
            stop_requested: false,
            interrupted: false,
            ended: None,
            active: Duration::ZERO,
            active_since: Some(record.at),
            iterations: 0,
            usage: Usage::default(),
        })
    }

    /// Folds one more record in.
    ///
    /// # Errors
    /// [`Illegal`] where the record is out of order, from an older owner, after the end, or says
    /// something that cannot follow. The state is then as it was before.
    pub fn apply(&mut self, record: &Record<RunEvent>) -> Result<(), Illegal> {
        let illegal = |reason: String| Illegal {
            seq: record.seq,
            reason,
        };
        if record.seq != self.seq + 1 {
            return Err(illegal(format!("follows record {}", self.seq)));
        }
        if record.epoch < self.epoch {
            return Err(illegal(format!(
                "epoch {} is older than {}",
                record.epoch, self.epoch
            )));
        }
        if let Some(end) = &self.ended {
            return Err(illegal(format!("the run has ended as {}", end.outcome)));
        }
        self.apply_event(record).map_err(illegal)?;
        self.seq = record.seq;
        self.epoch = record.epoch;
        self.last = record.at;
        Ok(())
    }

    /// The attempt at work or last at work.
    pub fn attempt(&self) -> Option<&Attempt> {
        self.attempts.last()
    }

    /// The tree attempt `number` starts from: what the one before left, else the base.
    pub fn start_tree(&self, number: u32) -> Option<&TreeId> {
        self.attempts
            .iter()
            .rev()
            .filter(|attempt| attempt.number < number)
            .find_map(|attempt| attempt.snapshot.as_ref().map(|(tree, _)| tree))
            .or_else(|| self.prepared.as_ref().map(|prepared| &prepared.tree))
    }

    /// The tree as the last attempt left it; none before the first snapshot.
    pub fn tree(&self) -> Option<&TreeId> {
        self.attempts
            .iter()
            .rev()
            .find_map(|a| a.snapshot.as_ref().map(|(tree, _)| tree))
    }

    /// Whether that tree differs from the base's.
    pub fn changed(&self) -> bool {
        match (self.tree(), &self.prepared) {
            (Some(tree), Some(prepared)) => *tree != prepared.tree,
            _ => false,
        }
    }

    /// How the run stands: none while it is at work.
    pub fn outcome(&self) -> Option<Outcome> {
        if let Some(end) = &self.ended {
            Some(end.outcome)
        } else if self.waiting.is_some() {
            Some(Outcome::HandedOff)
        } else if self.interrupted {
            Some(Outcome::Interrupted)
        } else {
            None
        }
    }

    /// Model calls that were begun and whose end is not recorded are not in here.
    pub fn attempts_since_answer(&self) -> impl Iterator<Item = &Attempt> {
        let answers = self.answers.len();
        self.attempts
            .iter()
            .filter(move |attempt| attempt.answers_before == answers)
    }

    fn apply_event(&mut self, record: &Record<RunEvent>) -> Result<(), String> {
        match &record.event {
            RunEvent::Fired { .. } => return Err("the run has begun before".to_owned()),
            RunEvent::Woken { .. } => {
                if self.waiting.is_some() {
                    return Err("an item waits for its answer".to_owned());
                }
                self.rest();
                self.interrupted = false;
                self.active_since = Some(record.at);
                let lost = std::mem::take(&mut self.in_flight);
                self.lost.extend(lost);
            }
            RunEvent::Started { step } => self.started(step)?,
            RunEvent::StepFailed { step, error } => {
                self.finished(step)?;
                self.failure = Some((step.clone(), error.clone()));
            }
            RunEvent::StepStopped { step } => self.finished(step)?,
            RunEvent::Prepared { base, tree, branch } => {
                self.finished(&Step::Prepare)?;
                self.prepared = Some(Prepared {
                    base: base.clone(),
                    tree: tree.clone(),
                    branch: branch.clone(),
                });
            }
            RunEvent::Turn {
                attempt,
                worker,
                event,
            } => self.turn(*attempt, worker, event)?,
            RunEvent::AttemptEnded {
                attempt,
                worker,
                end,
            } => {
                self.finished(&Step::Attempt {
                    attempt: *attempt,
                    worker: worker.clone(),
                })?;
                if !end.metered {
                    self.usage = self.usage.plus(end.usage);
                    // Calls that cannot be counted count as one.
                    self.iterations = self.iterations.saturating_add(end.iterations.max(1));
                }
                self.attempt_mut(*attempt, worker)?.end = Some(end.clone());
            }
            RunEvent::Snapshot {
                attempt,
                worker,
                tree,
                changed,
            } => {
                self.finished(&Step::Snapshot {
                    attempt: *attempt,
                    worker: worker.clone(),
                })?;
                self.attempt_mut(*attempt, worker)?.snapshot =
                    Some((tree.clone(), changed.clone()));
            }
            RunEvent::VerdictGiven { attempt, verdict } => self.verdict(*attempt, verdict)?,
            RunEvent::Delivered { branch, commit } => {
                self.finished(&Step::Deliver)?;
                self.delivered = Some(Delivered {
                    branch: branch.clone(),
                    commit: commit.clone(),
                });
            }
            RunEvent::Waiting {
                item,
                reason,
                branch,
            } => {
                self.finish_question(*reason)?;
                self.waiting = Some(Waiting {
                    item: *item,
                    reason: *reason,
                });
                if branch.is_some() {
                    self.branch.clone_from(branch);
                }
                self.last = record.at;
                self.rest();
            }
            RunEvent::Noticed {
                item,
                reason,
                branch,
            } => {
                self.finish_question(*reason)?;
                self.notices.push((*item, *reason));
                if branch.is_some() {
                    self.branch.clone_from(branch);
                }
            }
            RunEvent::Answered { item, answer } => self.answered(*item, answer, record.at)?,
            RunEvent::TimeUp => self.time_up = true,
            RunEvent::StopRequested => {
                self.stop_requested = true;
                // A stop reaches a run at rest too: it goes on just to end.
                self.waiting = None;
                self.interrupted = false;
                self.active_since.get_or_insert(record.at);
            }
            RunEvent::Interrupted => {
                if self.waiting.is_some() {
                    return Err("an item waits for its answer".to_owned());
                }
                self.interrupted = true;
                self.last = record.at;
                self.rest();
            }
            RunEvent::Ended {
                outcome,
                changed,
                reason,
            } => {
                if !outcome.is_end() {
                    return Err(format!("{outcome} is a rest, not an end"));
                }
                self.ended = Some(End {
                    outcome: *outcome,
                    changed: *changed,
                    reason: reason.clone(),
                });
                self.last = record.at;
                self.rest();
            }
        }
        Ok(())
    }

    fn rest(&mut self) {
        if let Some(since) = self.active_since.take() {
            let spent = self.last.duration_since(since);
            self.active += Duration::try_from(spent).unwrap_or(Duration::ZERO);
        }
    }

    fn started(&mut self, step: &Step) -> Result<(), String> {
        if self.outcome().is_some() {
            return Err(format!("`{}` begins while the run rests", step.id()));
        }
        if self.in_flight.contains(step) {
            return Err(format!("`{}` is under way", step.id()));
        }
        match step {
            Step::Attempt { attempt, worker } => {
                let next = self.attempts.last().map_or(1, |last| last.number + 1);
                match self.attempts.last() {
                    Some(last) if last.number == *attempt && last.end.is_none() => {}
                    _ if *attempt == next => self.attempts.push(Attempt {
                        number: *attempt,
                        worker: worker.clone(),
                        end: None,
                        snapshot: None,
                        verdict: None,
                        answers_before: self.answers.len(),
                    }),
                    _ => return Err(format!("attempt {attempt} cannot follow {}", next - 1)),
                }
            }
            Step::Ask { question, .. } if *question != self.asked + 1 => {
                return Err(format!("question {question} cannot follow {}", self.asked));
            }
            _ => {}
        }
        self.lost.remove(step);
        self.failure.take_if(|(failed, _)| failed == step);
        self.in_flight.insert(step.clone());
        Ok(())
    }

    fn finished(&mut self, step: &Step) -> Result<(), String> {
        if self.in_flight.remove(step) {
            Ok(())
        } else {
            Err(format!("`{}` was not under way", step.id()))
        }
    }

    fn finish_question(&mut self, reason: Reason) -> Result<(), String> {
        let question = self.asked + 1;
        self.finished(&Step::Ask { question, reason })?;
        self.asked = question;
        Ok(())
    }

    fn attempt_mut(&mut self, number: u32, worker: &WorkerName) -> Result<&mut Attempt, String> {
        self.attempts
            .iter_mut()
            .find(|attempt| attempt.number == number && attempt.worker == *worker)
            .ok_or_else(|| format!("there is no attempt {number} of {worker}"))
    }

    fn turn(&mut self, number: u32, worker: &WorkerName, event: &TurnEvent) -> Result<(), String> {
        self.attempt_mut(number, worker)?;
        match event {
            TurnEvent::CallStarted { .. } => self.iterations = self.iterations.saturating_add(1),
            TurnEvent::CallEnded { usage, .. } => self.usage = self.usage.plus(*usage),
            TurnEvent::ToolStarted { .. } | TurnEvent::ToolEnded { .. } => {}
        }
        Ok(())
    }

    fn verdict(&mut self, number: u32, verdict: &Verdict) -> Result<(), String> {
        self.finished(&Step::Verify { attempt: number })?;
        if number == 0 {
            self.baseline = Some(verdict.clone());
            return Ok(());
        }
        let attempt = self
            .attempts
            .iter_mut()
            .find(|attempt| attempt.number == number)
            .ok_or_else(|| format!("there is no attempt {number}"))?;
        match &attempt.snapshot {
            Some((tree, _)) if *tree == verdict.tree => {}
            _ => {
                return Err(format!(
                    "the verdict is not on the tree attempt {number} left"
                ));
            }
        }
        attempt.verdict = Some(verdict.clone());
        Ok(())
    }

    fn answered(&mut self, item: ItemNumber, answer: &Answer, at: Timestamp) -> Result<(), String> {
        let reason = match &self.waiting {
            Some(waiting) if waiting.item == item => waiting.reason,
            _ => return Err(format!("the run does not wait for item {item}")),
        };
        self.waiting = None;
        self.active_since = Some(at);
        self.answers.push(Answered {
            item,
            reason,
            answer: answer.clone(),
        });
        if matches!(answer, Answer::Text { .. } | Answer::Approve) {
            match reason {
                // Somebody looked: what was begun may be begun again.
                Reason::UnknownEffect => {
                    self.lost.clear();
                    if let Some(last) = self.attempts.last_mut()
                        && last
                            .end
                            .as_ref()
                            .is_some_and(|end| matches!(end.reason, EndReason::Unknown { .. }))
                    {
                        last.end = None;
                    }
                }
                // The check is to be asked again.
                Reason::CheckBroken => {
                    self.failure = None;
                    let unknown = |v: &Verdict| v.finding == Finding::Unknown;
                    self.baseline.take_if(|verdict| unknown(verdict));
                    if let Some(last) = self.attempts.last_mut() {
                        last.verdict.take_if(|verdict| unknown(verdict));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
