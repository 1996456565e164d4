//! The store trait over anything that can do its few own parts: answer a decision about the home, and
//! keep runs, blobs and files. The rest is the same for every store and stands here.

use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use jiff::Timestamp;
use ronde_protocol::{
    Amount, ArtefactId, CallId, Digest, Epoch, ItemNumber, ProjectId, RunId, Seq,
    firing::Firing,
    handoff::{Answer, Item},
};
use tokio::sync::{oneshot, watch};

use crate::{
    book::{Published, Request},
    decide::{Op, Reply, fenced},
    event::{HomeEvent, QueueItem, RunEvent, ScopeLimit},
    home::Home,
    journal::Record,
    store::{Cursor, Error, Fired, Lease, Reserved, Result, Store},
};

/// The parts in which stores differ. The methods of [`Shelf`] block and are called where that is right.
pub(crate) trait Backend: Send + Sync + 'static {
    /// What readers see of the home.
    fn published(&self) -> &Arc<Published>;

    /// Hands a request to the writer of the home journal.
    ///
    /// # Errors
    /// [`Error::Io`] where the writer is gone.
    fn submit(&self, request: Request) -> Result<()>;

    /// Everything else that is kept.
    fn shelf(&self) -> Arc<dyn Shelf>;
}

/// What is kept besides the home journal's new records. All of it blocks.
pub(crate) trait Shelf: Send + Sync + 'static {
    /// Home records from number `from` up to `upto`.
    ///
    /// # Errors
    /// As the disk says.
    fn read_home(&self, from: Seq, upto: Seq) -> Result<Vec<Record<HomeEvent>>>;

    /// Appends to a run's journal, made by its first record, if `check` still holds then: it is
    /// called while no other append to this run can take place.
    ///
    /// # Errors
    /// As [`Store::append`].
    fn append_run(
        &self,
        run: &RunId,
        record: Record<RunEvent>,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<()>;

    /// Nobody here writes to this run for now.
    fn close_run(&self, run: &RunId);

    /// The durable records of a run from number `from` on; none where it has none.
    ///
    /// # Errors
    /// As the disk says.
    fn read_run(&self, run: &RunId, from: Seq) -> Result<Vec<Record<RunEvent>>>;

    /// Tells the number of the last durable record of a run.
    ///
    /// # Errors
    /// As the disk says.
    fn watch_run(&self, run: &RunId) -> Result<watch::Receiver<Seq>>;

    /// Stores a blob.
    ///
    /// # Errors
    /// As the disk says.
    fn put(&self, bytes: &[u8]) -> Result<ArtefactId>;

    /// Stores a file.
    ///
    /// # Errors
    /// As the disk says.
    fn put_file(&self, file: &Path) -> Result<ArtefactId>;

    /// Reads a blob.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Corrupt`], or as the disk says.
    fn get(&self, id: &ArtefactId) -> Result<Vec<u8>>;

    /// Reads a state file.
    ///
    /// # Errors
    /// As the disk says.
    fn file(&self, key: &FileKey) -> Result<Option<Vec<u8>>>;

    /// Replaces a state file.
    ///
    /// # Errors
    /// As the disk says.
    fn set_file(&self, key: &FileKey, bytes: &[u8]) -> Result<()>;
}

/// The name of a state file; each part is a plain file name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileKey {
    /// The project, the loop and the file.
    pub(crate) parts: [String; 3],
}

impl FileKey {
    fn new(project: &ProjectId, loop_name: &str, name: &str) -> Result<Self> {
        let parts = [project.as_str(), loop_name, name];
        for part in parts {
            plain_name(part).map_err(|reason| Error::Illegal {
                what: format!("state file {}", parts.join("/")),
                reason,
            })?;
        }
        Ok(Self {
            parts: parts.map(str::to_owned),
        })
    }
}

/// Whether a text names a file in a folder and nothing else.
pub(crate) fn plain_name(name: &str) -> std::result::Result<(), String> {
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
        return Err(format!("`{name}` is not the name of a file"));
    }
    if name.len() > 255 {
        return Err("a file name is at most 255 bytes long".to_owned());
    }
    Ok(())
}

/// Runs something that blocks where it holds nobody up. It goes on to its end even if nobody waits.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(e) => Err(Error::Ambiguous {
            what: "what a task of the store was writing".to_owned(),
            source: io::Error::other(e),
        }),
    }
}

async fn ask(backend: &impl Backend, op: Op) -> Result<(Seq, Reply)> {
    let (reply, answer) = oneshot::channel();
    backend.submit(Request { op, reply })?;
    answer.await.map_err(|_| Error::Ambiguous {
        what: "a record of the home".to_owned(),
        source: io::Error::other("its writer died"),
    })?
}

/// A reply of another kind than the request's cannot be: both are made in one place.
fn unexpected(reply: &Reply) -> ! {
    unreachable!("the store answered {reply:?} to another question")
}

macro_rules! expect {
    ($asked:expr, $pattern:pat => $value:expr) => {
        match $asked.await?.1 {
            $pattern => Ok($value),
            other => unexpected(&other),
        }
    };
}

#[async_trait]
impl<B: Backend> Store for B {
    fn home(&self) -> Arc<Home> {
        self.published().home()
    }

    fn epoch(&self) -> Epoch {
        self.published().home().epoch()
    }

    async fn record(&self, events: Vec<HomeEvent>) -> Result<Seq> {
        Ok(ask(self, Op::Record(events)).await?.0)
    }

    async fn fire_once(
        &self,
        firing: Firing,
        root: &Path,
        trigger: Option<Digest>,
    ) -> Result<Fired> {
        let root = root.to_owned();
        expect!(ask(self, Op::Fire { firing, root, trigger }), Reply::Fired(fired) => fired)
    }

    async fn append(
        &self,
        lease: &Lease,
        expected: Seq,
        at: Timestamp,
        event: &RunEvent,
    ) -> Result<Seq> {
        if expected == 0 {
            return Err(Error::Illegal {
                what: format!("run {}", lease.run),
                reason: "records are counted from 1".to_owned(),
            });
        }
        let first = match event {
            RunEvent::Fired { firing, .. } => firing.run == lease.run,
            _ => false,
        };
        if first != (expected == 1) {
            return Err(Error::Illegal {
                what: format!("run {}", lease.run),
                reason: "the first record, and no other, says that the run was fired".to_owned(),
            });
        }
        let lease = lease.clone();
        let published = Arc::clone(self.published());
        let shelf = self.shelf();
        let record = Record::new(expected, lease.epoch, at, event.clone());
        blocking(move || {
            let check = || {
                let home = published.home();
                let newest = home.leases().check(&lease.run, lease.epoch);
                newest.map_err(|epoch| fenced(&lease.run, epoch))
            };
            shelf.append_run(&lease.run, record, &check)?;
            Ok(expected)
        })
        .await
    }

    async fn read_run(&self, run: &RunId, from: Seq) -> Result<Vec<Record<RunEvent>>> {
        known(&self.published().home(), run)?;
        let (shelf, run) = (self.shelf(), run.clone());
        blocking(move || shelf.read_run(&run, from)).await
    }

    async fn lease(
        &self,
        run: &RunId,
        holder: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Lease> {
        let op = Op::Lease {
            run: run.clone(),
            holder: holder.to_owned(),
            now,
            until,
        };
        let epoch = expect!(ask(self, op), Reply::Leased(epoch) => epoch)?;
        // An append of the owner before may be on its way to the disk. It holds the run until it is
        // there, and whoever reads or appends under the new lease waits for it.
        Ok(Lease {
            run: run.clone(),
            epoch,
        })
    }

    async fn heartbeat(&self, lease: &Lease, until: Timestamp) -> Result<()> {
        let op = Op::Heartbeat {
            run: lease.run.clone(),
            epoch: lease.epoch,
            until,
        };
        expect!(ask(self, op), Reply::Done => ())
    }

    async fn release(&self, lease: &Lease) -> Result<()> {
        let op = Op::Release {
            run: lease.run.clone(),
            epoch: lease.epoch,
        };
        expect!(ask(self, op), Reply::Done => ())?;
        let (shelf, run) = (self.shelf(), lease.run.clone());
        blocking(move || {
            shelf.close_run(&run);
            Ok(())
        })
        .await
    }

    async fn reserve(
        &self,
        call: &CallId,
        amount: Amount,
        scopes: &[ScopeLimit],
    ) -> Result<Reserved> {
        let op = Op::Reserve {
            call: call.clone(),
            amount,
            limits: scopes.to_vec(),
        };
        expect!(ask(self, op), Reply::Reserved(reserved) => reserved)
    }

    async fn settle(&self, call: &CallId, used: Option<Amount>) -> Result<()> {
        expect!(ask(self, Op::Settle { call: call.clone(), used }), Reply::Done => ())
    }

    async fn settle_lost(&self, run: &RunId) -> Result<u64> {
        expect!(ask(self, Op::SettleLost { run: run.clone() }), Reply::Settled(count) => count)
    }

    async fn timer_at(&self, id: &str, at: Timestamp) -> Result<()> {
        expect!(ask(self, Op::SetTimer { id: id.to_owned(), at }), Reply::Done => ())
    }

    async fn cancel_timer(&self, id: &str) -> Result<()> {
        expect!(ask(self, Op::ClearTimer { id: id.to_owned() }), Reply::Done => ())
    }

    async fn await_answer(&self, item: Item) -> Result<ItemNumber> {
        expect!(ask(self, Op::Await(item)), Reply::Item(number) => number)
    }

    async fn resolve(&self, number: ItemNumber, answer: Answer) -> Result<bool> {
        expect!(ask(self, Op::Resolve { number, answer }), Reply::Was(first) => first)
    }

    async fn push(&self, task: QueueItem) -> Result<bool> {
        expect!(ask(self, Op::Push(task)), Reply::Was(new) => new)
    }

    async fn pull(
        &self,
        queue: &str,
        class: &str,
        holder: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Option<QueueItem>> {
        let [queue, class, holder] = [queue, class, holder].map(str::to_owned);
        expect!(
            ask(self, Op::Pull { queue, class, holder, now, until }),
            Reply::Pulled(task) => task
        )
    }

    async fn ack(&self, queue: &str, id: &str) -> Result<()> {
        let op = Op::Ack {
            queue: queue.to_owned(),
            id: id.to_owned(),
        };
        expect!(ask(self, op), Reply::Done => ())
    }

    fn subscribe(&self, after: Cursor) -> BoxStream<'static, Result<Record<HomeEvent>>> {
        // Whoever listens keeps no store open.
        let published = Arc::downgrade(self.published());
        let shelf = Arc::downgrade(&self.shelf());
        let read = move |after, upto| {
            let tail = published
                .upgrade()
                .and_then(|published| published.tail(after));
            let shelf = shelf.clone();
            async move {
                match tail {
                    Some(records) => Ok(records),
                    None => blocking(move || upgrade(&shelf)?.read_home(after + 1, upto)).await,
                }
            }
        };
        from_cursor(self.published().watch(), after, read)
    }

    fn follow(&self, run: &RunId, after: Seq) -> BoxStream<'static, Result<Record<RunEvent>>> {
        if let Err(missing) = known(&self.published().home(), run) {
            return stream::once(async { Err(missing) }).boxed();
        }
        let shelf = Arc::downgrade(&self.shelf());
        let run = run.clone();
        let watch = {
            let (shelf, run) = (shelf.clone(), run.clone());
            async move { blocking(move || upgrade(&shelf)?.watch_run(&run)).await }
        };
        let read = move |after, _| {
            let (shelf, run) = (shelf.clone(), run.clone());
            async move { blocking(move || upgrade(&shelf)?.read_run(&run, after + 1)).await }
        };
        stream::once(watch)
            .flat_map(move |watch| match watch {
                Ok(committed) => from_cursor(committed, after, read.clone()),
                Err(error) => stream::once(async { Err(error) }).boxed(),
            })
            .boxed()
    }

    async fn put_artefact(&self, bytes: &[u8]) -> Result<ArtefactId> {
        let (shelf, bytes) = (self.shelf(), bytes.to_vec());
        blocking(move || shelf.put(&bytes)).await
    }

    async fn put_artefact_file(&self, file: &Path) -> Result<ArtefactId> {
        let (shelf, file): (_, PathBuf) = (self.shelf(), file.to_owned());
        blocking(move || shelf.put_file(&file)).await
    }

    async fn get_artefact(&self, id: &ArtefactId) -> Result<Vec<u8>> {
        let (shelf, id) = (self.shelf(), id.clone());
        blocking(move || shelf.get(&id)).await
    }

    async fn state_file(
        &self,
        project: &ProjectId,
        loop_name: &str,
        name: &str,
    ) -> Result<Option<Vec<u8>>> {
        let key = FileKey::new(project, loop_name, name)?;
        let shelf = self.shelf();
        blocking(move || shelf.file(&key)).await
    }

    async fn set_state_file(
        &self,
        project: &ProjectId,
        loop_name: &str,
        name: &str,
        bytes: &[u8],
    ) -> Result<()> {
        let key = FileKey::new(project, loop_name, name)?;
        let (shelf, bytes) = (self.shelf(), bytes.to_vec());
        blocking(move || shelf.set_file(&key, &bytes)).await
    }
}

fn known(home: &Home, run: &RunId) -> Result<()> {
    match home.run(run) {
        Some(_) => Ok(()),
        None => Err(Error::Missing {
            what: format!("run {run}"),
        }),
    }
}

fn upgrade(shelf: &Weak<dyn Shelf>) -> Result<Arc<dyn Shelf>> {
    shelf.upgrade().ok_or_else(|| Error::Missing {
        what: "store: it was closed".to_owned(),
    })
}

struct Follow<E, R> {
    committed: watch::Receiver<Seq>,
    after: Seq,
    ready: VecDeque<Record<E>>,
    read: R,
    ended: bool,
}

/// Every record after a cursor, in order, each once; it ends with the first error or the store. `read`
/// gets the records after a number; more than are committed do no harm.
fn from_cursor<E, R, F>(
    committed: watch::Receiver<Seq>,
    after: Seq,
    read: R,
) -> BoxStream<'static, Result<Record<E>>>
where
    E: Send + 'static,
    R: Fn(Seq, Seq) -> F + Send + 'static,
    F: Future<Output = Result<Vec<Record<E>>>> + Send,
{
    let start = Follow {
        committed,
        after,
        ready: VecDeque::new(),
        read,
        ended: false,
    };
    stream::unfold(start, |mut at| async move {
        loop {
            if at.ended {
                return None;
            }
            if let Some(record) = at.ready.pop_front() {
                at.after = record.seq;
                return Some((Ok(record), at));
            }
            let after = at.after;
            let upto = match at.committed.wait_for(|committed| *committed > after).await {
                Ok(committed) => *committed,
                Err(_) => return None,
            };
            match (at.read)(after, upto).await {
                Ok(records) => {
                    at.ready = records.into_iter().skip_while(|r| r.seq <= after).collect();
                }
                Err(error) => {
                    at.ended = true;
                    return Some((Err(error), at));
                }
            }
        }
    })
    .boxed()
}
