//! Up to which instant each trigger is accounted for, and what was skipped lately. Pure.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use ronde_protocol::{Digest, LoopName, ProjectId, SlotId, firing::SkipReason};
use serde::{Deserialize, Serialize};

use crate::pairs;

/// Skips kept for each loop; older ones are in the journal alone.
const KEPT: usize = 32;

/// Slots of one trigger that did not become runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skip {
    /// When that was decided.
    pub at: Timestamp,
    /// The trigger, by the hash of its content.
    pub trigger: Digest,
    /// The first of them.
    pub slot: SlotId,
    /// The instant of the first.
    pub first: Timestamp,
    /// The instant of the last.
    pub last: Timestamp,
    /// How many.
    pub count: u64,
    /// Why.
    pub reason: SkipReason,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Slots {
    #[serde(with = "pairs")]
    watermarks: BTreeMap<(ProjectId, LoopName, Digest), Timestamp>,
    /// The first watermark of each trigger: where an interval is counted from.
    #[serde(default, with = "pairs")]
    anchors: BTreeMap<(ProjectId, LoopName, Digest), Timestamp>,
    #[serde(with = "pairs")]
    skips: BTreeMap<(ProjectId, LoopName), VecDeque<Skip>>,
}

impl Slots {
    pub(crate) fn watermark(
        &self,
        project: &ProjectId,
        loop_name: &LoopName,
        trigger: &Digest,
    ) -> Option<Timestamp> {
        let key = (project.clone(), loop_name.clone(), trigger.clone());
        self.watermarks.get(&key).copied()
    }

    pub(crate) fn anchor(
        &self,
        project: &ProjectId,
        loop_name: &LoopName,
        trigger: &Digest,
    ) -> Option<Timestamp> {
        let key = (project.clone(), loop_name.clone(), trigger.clone());
        self.anchors.get(&key).copied()
    }

    /// A watermark never moves back: a clock that was set back does not make slots due again.
    pub(crate) fn advance(
        &mut self,
        project: &ProjectId,
        loop_name: &LoopName,
        trigger: &Digest,
        upto: Timestamp,
    ) {
        let key = (project.clone(), loop_name.clone(), trigger.clone());
        self.anchors.entry(key.clone()).or_insert(upto);
        let mark = self.watermarks.entry(key).or_insert(upto);
        *mark = upto.max(*mark);
    }

    pub(crate) fn skips(
        &self,
        project: &ProjectId,
        loop_name: &LoopName,
    ) -> impl DoubleEndedIterator<Item = &Skip> {
        self.skips
            .get(&(project.clone(), loop_name.clone()))
            .into_iter()
            .flatten()
    }

    pub(crate) fn skip(
        &mut self,
        project: &ProjectId,
        loop_name: &LoopName,
        skip: Skip,
    ) -> Result<(), String> {
        if skip.count == 0 || skip.last < skip.first {
            return Err(format!(
                "{} slots from {} to {}",
                skip.count, skip.first, skip.last
            ));
        }
        self.advance(project, loop_name, &skip.trigger, skip.last);
        let skips = self
            .skips
            .entry((project.clone(), loop_name.clone()))
            .or_default();
        if skips.len() == KEPT {
            skips.pop_front();
        }
        skips.push_back(skip);
        Ok(())
    }
}
