//! What only a person can decide, numbered, with the first answer to each. Pure; who is told, and what
//! an answer means for a run, is decided elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use ronde_protocol::{
    ItemNumber,
    handoff::{Answer, Entry, Item},
};
use serde::{Deserialize, Serialize};

/// The inbox of a home.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inbox {
    /// Item `n` stands at place `n - 1`.
    entries: Vec<Entry>,
    keys: BTreeMap<String, ItemNumber>,
    unanswered: BTreeSet<ItemNumber>,
}

impl Inbox {
    /// Every item, oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// The items without an answer, oldest first.
    pub fn open(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.unanswered
            .iter()
            .filter_map(|number| self.get(*number))
    }

    /// One item.
    pub fn get(&self, number: ItemNumber) -> Option<&Entry> {
        self.entries
            .get(usize::try_from(number.checked_sub(1)?).ok()?)
    }

    /// The item that was opened under a key.
    pub fn by_key(&self, key: &str) -> Option<&Entry> {
        self.get(*self.keys.get(key)?)
    }

    /// The number the next item will have.
    pub fn next(&self) -> ItemNumber {
        self.entries.len() as ItemNumber + 1
    }

    pub(crate) fn add(&mut self, number: ItemNumber, item: &Item) -> Result<(), String> {
        if number != self.next() {
            return Err(format!(
                "item {number} cannot follow item {}",
                self.next() - 1
            ));
        }
        if let Some(entry) = self.by_key(&item.key) {
            return Err(format!("`{}` is item {} already", item.key, entry.number));
        }
        self.keys.insert(item.key.clone(), number);
        self.unanswered.insert(number);
        self.entries.push(Entry {
            number,
            item: item.clone(),
            answer: None,
            answered: None,
        });
        Ok(())
    }

    pub(crate) fn resolve(
        &mut self,
        number: ItemNumber,
        answer: &Answer,
        at: Timestamp,
    ) -> Result<(), String> {
        let entry = number
            .checked_sub(1)
            .and_then(|place| self.entries.get_mut(usize::try_from(place).ok()?))
            .ok_or_else(|| format!("there is no item {number}"))?;
        if entry.answer.is_some() {
            return Err(format!("item {number} was answered before"));
        }
        entry.answer = Some(answer.clone());
        entry.answered = Some(at);
        self.unanswered.remove(&number);
        Ok(())
    }
}
