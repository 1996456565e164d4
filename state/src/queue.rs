//! Queues of tasks by class, oldest first. Pure; whether a task that was taken is free again is told by
//! the instant the caller brings.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::event::QueueItem;

/// The queues of a home.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queues {
    queues: BTreeMap<String, Queue>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Queue {
    /// Oldest first.
    tasks: Vec<Task>,
    /// Ids of tasks that are finished: pushed again, they are not done again.
    done: BTreeSet<String>,
}

/// A task and who works on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The task.
    pub item: QueueItem,
    /// Who took it, and until when it is theirs.
    pub taken: Option<(String, Timestamp)>,
}

impl Queues {
    /// The tasks of a queue that are not finished, oldest first.
    pub fn tasks(&self, queue: &str) -> impl Iterator<Item = &Task> {
        self.queues
            .get(queue)
            .into_iter()
            .flat_map(|queue| &queue.tasks)
    }

    /// Whether a task was ever pushed.
    pub fn knows(&self, queue: &str, id: &str) -> bool {
        self.queues
            .get(queue)
            .is_some_and(|queue| queue.done.contains(id) || queue.has(id))
    }

    /// Whether a task is finished.
    pub fn done(&self, queue: &str, id: &str) -> bool {
        self.queues
            .get(queue)
            .is_some_and(|queue| queue.done.contains(id))
    }

    /// The oldest task of a class that nobody works on at this instant.
    pub fn free(&self, queue: &str, class: &str, now: Timestamp) -> Option<&QueueItem> {
        self.tasks(queue)
            .filter(|task| task.item.class == class)
            .find(|task| task.taken.as_ref().is_none_or(|(_, until)| *until <= now))
            .map(|task| &task.item)
    }

    pub(crate) fn push(&mut self, item: &QueueItem) -> Result<(), String> {
        if self.knows(&item.queue, &item.id) {
            return Err(format!(
                "task `{}` was in queue `{}` before",
                item.id, item.queue
            ));
        }
        let queue = self.queues.entry(item.queue.clone()).or_default();
        queue.tasks.push(Task {
            item: item.clone(),
            taken: None,
        });
        Ok(())
    }

    pub(crate) fn pull(
        &mut self,
        queue: &str,
        id: &str,
        holder: &str,
        until: Timestamp,
    ) -> Result<(), String> {
        let tasks = self.queues.get_mut(queue).map(|queue| &mut queue.tasks);
        let task = tasks
            .and_then(|tasks| tasks.iter_mut().find(|task| task.item.id == id))
            .ok_or_else(|| format!("there is no task `{id}` in queue `{queue}`"))?;
        task.taken = Some((holder.to_owned(), until));
        Ok(())
    }

    pub(crate) fn ack(&mut self, queue: &str, id: &str) -> Result<(), String> {
        let none = || format!("there is no task `{id}` in queue `{queue}`");
        let queue = self.queues.get_mut(queue).ok_or_else(none)?;
        let place = queue
            .tasks
            .iter()
            .position(|task| task.item.id == id)
            .ok_or_else(none)?;
        queue.tasks.remove(place);
        queue.done.insert(id.to_owned());
        Ok(())
    }
}

impl Queue {
    fn has(&self, id: &str) -> bool {
        self.tasks.iter().any(|task| task.item.id == id)
    }
}
