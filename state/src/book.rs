//! The home journal's one writer: decides what it is asked in order, makes a whole batch durable in one
//! step, and only then shows it to readers and answers. Where the records go is the caller's.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use jiff::Timestamp;
use ronde_protocol::Seq;
use tokio::sync::{oneshot, watch};

use crate::{
    decide::{self, Op, Reply},
    event::HomeEvent,
    home::Home,
    journal::Record,
    store::{Error, Result},
};

/// Records kept in memory for those who follow the journal; older ones are read from it.
const KEPT: usize = 4096;

/// What readers of a home see: only what is durable.
pub(crate) struct Published {
    home: RwLock<Arc<Home>>,
    tail: Mutex<VecDeque<Record<HomeEvent>>>,
    committed: watch::Sender<Seq>,
}

impl Published {
    pub(crate) fn new(home: Home) -> Self {
        Self {
            committed: watch::Sender::new(home.seq()),
            home: RwLock::new(Arc::new(home)),
            tail: Mutex::default(),
        }
    }

    pub(crate) fn home(&self) -> Arc<Home> {
        Arc::clone(&self.home.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Seq> {
        self.committed.subscribe()
    }

    /// The records after `after`, as far as they are in memory; none if some of them are not.
    pub(crate) fn tail(&self, after: Seq) -> Option<Vec<Record<HomeEvent>>> {
        let tail = self.lock();
        let first = tail.front()?.seq;
        let skip = usize::try_from((after + 1).checked_sub(first)?).ok()?;
        Some(tail.iter().skip(skip).cloned().collect())
    }

    fn publish(&self, records: Vec<Record<HomeEvent>>) {
        let Some(last) = records.last().map(|record| record.seq) else {
            return;
        };
        {
            let mut home = self.home.write().unwrap_or_else(PoisonError::into_inner);
            let home = Arc::make_mut(&mut home);
            for record in &records {
                home.apply(record)
                    .expect("the same record was applied to an equal state before");
            }
        }
        {
            let mut tail = self.lock();
            tail.extend(records);
            let surplus = tail.len().saturating_sub(KEPT);
            tail.drain(..surplus);
        }
        self.committed.send_replace(last);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Record<HomeEvent>>> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One thing asked, and where the answer goes. An answer comes with the number of the last record that
/// it stands on.
pub(crate) struct Request {
    pub(crate) op: Op,
    pub(crate) reply: oneshot::Sender<Result<(Seq, Reply)>>,
}

/// The state ahead of what is published: with the records of the batch in hand.
pub(crate) struct Book {
    published: Arc<Published>,
    working: Home,
}

impl Book {
    pub(crate) fn new(home: Home) -> Self {
        // A state of its own: parts shared with the published one would be copied at every change.
        let working = Home::from(crate::home::Image::from(&home));
        Self {
            published: Arc::new(Published::new(home)),
            working,
        }
    }

    pub(crate) fn published(&self) -> Arc<Published> {
        Arc::clone(&self.published)
    }

    /// Decides a batch, makes it durable with `write`, shows it and answers. An answer waits for the
    /// whole batch even if it writes nothing: it may rest on a record before it.
    pub(crate) fn commit(
        &mut self,
        batch: Vec<Request>,
        at: Timestamp,
        write: impl FnOnce(&[Record<HomeEvent>]) -> Result<()>,
    ) {
        let mut records = Vec::new();
        let mut answers = Vec::with_capacity(batch.len());
        for Request { op, reply } in batch {
            answers.push((reply, self.prepare(&op, at, &mut records)));
        }
        match if records.is_empty() {
            Ok(())
        } else {
            write(&records)
        } {
            Ok(()) => {
                self.published.publish(records);
                for (reply, answer) in answers {
                    // Whoever asked may be gone; what was written stands.
                    let _ = reply.send(answer);
                }
            }
            Err(error) => {
                self.working = (*self.published.home()).clone();
                for (reply, _) in answers {
                    let _ = reply.send(Err(same(&error)));
                }
            }
        }
    }

    fn prepare(
        &mut self,
        op: &Op,
        at: Timestamp,
        records: &mut Vec<Record<HomeEvent>>,
    ) -> Result<(Seq, Reply)> {
        let (events, reply) = decide::decide(&self.working, op)?;
        let written = records.len();
        // All events of a request or none: with several, a state to go back to.
        let before = (events.len() > 1).then(|| self.working.clone());
        for event in events {
            let record = Record::new(self.working.seq() + 1, self.working.epoch(), at, event);
            if let Err(illegal) = self.working.apply(&record) {
                if let Some(before) = before {
                    self.working = before;
                }
                records.truncate(written);
                return Err(Error::Illegal {
                    what: "the home".to_owned(),
                    reason: illegal.reason,
                });
            }
            records.push(record);
        }
        Ok((self.working.seq(), reply))
    }
}

/// The same error once more, for another who waited for the same write.
fn same(error: &Error) -> Error {
    let again = |source: &io::Error| io::Error::new(source.kind(), source.to_string());
    match error {
        Error::Io {
            action,
            path,
            source,
        } => Error::Io {
            action,
            path: path.clone(),
            source: again(source),
        },
        Error::Ambiguous { what, source } => Error::Ambiguous {
            what: what.clone(),
            source: again(source),
        },
        other => Error::Illegal {
            what: "the home".to_owned(),
            reason: other.to_string(),
        },
    }
}
