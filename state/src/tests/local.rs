//! The conformance suite over both stores, and what only the one on disk must do.

use std::{
    fs,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, Condvar, Mutex},
    task::{Context, Waker},
};

use futures_util::{StreamExt as _, future::join_all};
use jiff::Timestamp;
use ronde_protocol::{ArtefactId, Clock, outcome::Outcome};

use super::sim::SimDisk;
use crate::{
    backend::Backend,
    conformance::{self, SetClock, at, firing, loop_name, project},
    event::{HomeEvent, RunEvent},
    journal::Torn,
    local::{LocalReader, LocalStore},
    memory::MemoryStore,
    store::{Error, Fired, Store},
};

pub(super) fn clock() -> Arc<dyn Clock> {
    Arc::new(SetClock::default())
}

pub(super) fn open(home: &Path) -> LocalStore {
    try_open(home).unwrap()
}

fn try_open(home: &Path) -> Result<LocalStore, Error> {
    LocalStore::open(home, std::process::id(), clock())
}

fn journal(home: &Path) -> PathBuf {
    home.join("home/journal/000000000001.jsonl")
}

fn first(nonce: &str) -> RunEvent {
    RunEvent::Fired {
        firing: firing(nonce),
        root: "/p".into(),
    }
}

/// A run with two records.
async fn run(store: &dyn Store, nonce: &str) {
    let fired = store
        .fire_once(firing(nonce), Path::new("/p"), None)
        .await
        .unwrap();
    let Fired::Won(run) = fired else {
        panic!("{fired:?}")
    };
    let lease = store.lease(&run, "me", at(0), at(60)).await.unwrap();
    store.append(&lease, 1, at(0), &first(nonce)).await.unwrap();
    store
        .append(&lease, 2, at(1), &RunEvent::TimeUp)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_conforms() {
    conformance::all(async || Arc::new(MemoryStore::new(1, clock())) as Arc<dyn Store>).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn local_conforms() {
    let dir = tempfile::tempdir().unwrap();
    let next = std::sync::atomic::AtomicU32::new(0);
    conformance::all(async || {
        let n = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Arc::new(open(&dir.path().join(n.to_string()))) as Arc<dyn Store>
    })
    .await;
}

#[tokio::test]
async fn everything_is_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    assert_eq!(store.epoch(), 1);
    run(&store, "a").await;
    run(&store, "b").await;
    store.await_answer(conformance::item("a/1")).await.unwrap();
    store.timer_at("t", at(9)).await.unwrap();
    let blob = store.put_artefact(b"blob").await.unwrap();
    store
        .set_state_file(&project(), "nightly", "f", b"kept")
        .await
        .unwrap();
    let before = store.home();
    let records = store.read_run(&firing("a").run, 1).await.unwrap();
    drop(store);

    let store = open(dir.path());
    assert_eq!((store.epoch(), store.torn()), (2, None));
    let home = store.home();
    assert_eq!(home.seq(), before.seq() + 1);
    assert!(home.runs().eq(before.runs()));
    assert_eq!(home.inbox(), before.inbox());
    assert_eq!(home.leases(), before.leases());
    assert_eq!(home.timer("t"), Some(at(9)));
    assert_eq!(store.read_run(&firing("a").run, 1).await.unwrap(), records);
    assert_eq!(store.get_artefact(&blob).await.unwrap(), b"blob");
    let kept = store.state_file(&project(), "nightly", "f").await.unwrap();
    assert_eq!(kept.as_deref(), Some(&b"kept"[..]));
    // A lease of the owner before does not stand in the way, valid as it is.
    let lease = store
        .lease(&firing("a").run, "another", at(1), at(60))
        .await
        .unwrap();
    assert_eq!(lease.epoch, 2);
    store
        .append(&lease, 3, at(2), &RunEvent::TimeUp)
        .await
        .unwrap();
    // And the records of all owners can be followed from the first.
    let seqs: Vec<_> = store
        .subscribe(0)
        .take(3)
        .map(|r| r.unwrap().seq)
        .collect()
        .await;
    assert_eq!(seqs, [1, 2, 3]);
}

#[tokio::test]
async fn one_process_owns_a_home() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("new/home");
    let store = LocalStore::open(&home, 4711, clock()).unwrap();
    assert_eq!(
        fs::metadata(&home).unwrap().permissions().mode() & 0o777,
        0o700
    );
    for _ in 0..2 {
        let second = try_open(&home).err().unwrap();
        assert!(matches!(second, Error::Owned { pid: 4711, .. }), "{second}");
    }
    // Nobody who still listens keeps it.
    let mut records = store.subscribe(store.home().seq());
    drop(store);
    // A file that was left says nothing: its process is gone, or its number is another's.
    fs::write(home.join("lock"), "1\n").unwrap();
    drop(try_open(&home).unwrap());
    assert!(records.next().await.is_none());
}

#[tokio::test]
async fn a_torn_end_of_the_home_journal_is_cut_off_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.timer_at("t", at(9)).await.unwrap();
    let before = store.home();
    drop(store);
    let whole = fs::read(journal(dir.path())).unwrap();
    let torn = [&whole[..], b"{\"sum\":\"0123"].concat();
    fs::write(journal(dir.path()), &torn).unwrap();

    // One who reads passes it over, and leaves it.
    let reader = LocalReader::open(dir.path()).unwrap();
    assert_eq!(*reader.home(), *before);
    assert_eq!(fs::read(journal(dir.path())).unwrap(), torn);

    let store = open(dir.path());
    assert_eq!(
        store.torn(),
        Some(Torn {
            bytes: 12,
            offset: whole.len() as u64
        })
    );
    assert_eq!(store.home().seq(), before.seq() + 1);
    assert!(fs::read(journal(dir.path())).unwrap().starts_with(&whole));
}

/// Flips a bit of the second line.
fn damage(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    bytes[second + 40] ^= 1;
    fs::write(file, bytes).unwrap();
}

#[tokio::test]
async fn damage_stops_what_it_touches_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for nonce in ["a", "b"] {
        run(&store, nonce).await;
        let lease = store
            .lease(&firing(nonce).run, "me", at(0), at(60))
            .await
            .unwrap();
        store
            .append(&lease, 3, at(1), &RunEvent::TimeUp)
            .await
            .unwrap();
    }
    drop(store);
    let file = dir
        .path()
        .join("runs")
        .join(firing("a").run.as_str())
        .join("journal.jsonl");
    damage(&file);

    let store = open(dir.path());
    let reader = LocalReader::open(dir.path()).unwrap();
    let lease = store
        .lease(&firing("a").run, "me", at(0), at(60))
        .await
        .unwrap();
    for result in [
        store.read_run(&firing("a").run, 1).await.map(drop),
        store
            .append(&lease, 4, at(1), &RunEvent::TimeUp)
            .await
            .map(drop),
        store
            .follow(&firing("a").run, 0)
            .next()
            .await
            .unwrap()
            .map(drop),
        reader.read_run(&firing("a").run, 1).map(drop),
    ] {
        let Err(Error::Corrupt { file: found, .. }) = result else {
            panic!("{result:?}")
        };
        assert_eq!(found, file);
    }
    assert_eq!(store.read_run(&firing("b").run, 1).await.unwrap().len(), 3);
    assert_eq!(reader.read_run(&firing("b").run, 2).unwrap().len(), 2);
    drop(store);

    damage(&journal(dir.path()));
    let found = try_open(dir.path()).err().unwrap();
    assert!(matches!(found, Error::Corrupt { .. }), "{found}");
    assert!(matches!(
        LocalReader::open(dir.path()),
        Err(Error::Corrupt { .. })
    ));
}

#[tokio::test]
async fn a_home_of_a_newer_ronde_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    let newer = serde_json::json!({"v": 2, "seq": 2, "event": {"type": "unheard_of"}});
    let mut bytes = fs::read(journal(dir.path())).unwrap();
    bytes.extend(crate::line::encode_object(&newer).unwrap());
    fs::write(journal(dir.path()), &bytes).unwrap();
    let refused = try_open(dir.path()).err().unwrap();
    assert!(
        matches!(
            refused,
            Error::TooNew {
                found: 2,
                known: 1,
                ..
            }
        ),
        "{refused}"
    );
    assert_eq!(fs::read(journal(dir.path())).unwrap(), bytes);
}

#[tokio::test]
async fn another_process_reads_while_one_owns() {
    let dir = tempfile::tempdir().unwrap();
    let nothing = LocalReader::open(&dir.path().join("not there")).unwrap();
    assert_eq!(nothing.home().runs().len(), 0);

    let store = open(dir.path());
    run(&store, "a").await;
    let blob = store.put_artefact(b"blob").await.unwrap();
    store
        .fire_once(firing("b"), Path::new("/p"), None)
        .await
        .unwrap();
    let reader = LocalReader::open(dir.path()).unwrap();
    assert_eq!(*reader.home(), *store.home());
    let own = store.read_run(&firing("a").run, 1).await.unwrap();
    assert_eq!(reader.read_run(&firing("a").run, 1).unwrap(), own);
    assert_eq!(reader.read_run(&firing("b").run, 1).unwrap(), []);
    assert!(matches!(
        reader.read_run(&firing("c").run, 1),
        Err(Error::Missing { .. })
    ));
    assert_eq!(reader.get_artefact(&blob).unwrap(), b"blob");
    let none = reader.get_artefact(&ArtefactId::of("none"));
    assert!(matches!(none, Err(Error::Missing { .. })));
}

#[tokio::test]
async fn an_artefact_that_changed_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let id = store.put_artefact(b"blob").await.unwrap();
    let (head, tail) = id.as_str().split_at(2);
    fs::write(dir.path().join("artefacts").join(head).join(tail), "blub").unwrap();
    let found = store.get_artefact(&id).await.unwrap_err();
    assert!(matches!(found, Error::Corrupt { .. }), "{found}");
}

/// A clock at which whoever looks is held until it is let go.
#[derive(Default)]
struct Gate {
    looked: Mutex<(u32, bool)>,
    changed: Condvar,
}

impl Gate {
    fn hold(&self) {
        *self.looked.lock().unwrap() = (0, true);
    }

    fn wait_for_one(&self) {
        let held = self.looked.lock().unwrap();
        drop(
            self.changed
                .wait_while(held, |(looked, _)| *looked == 0)
                .unwrap(),
        );
    }

    fn let_go(&self) {
        self.looked.lock().unwrap().1 = false;
        self.changed.notify_all();
    }
}

impl Clock for Gate {
    fn now(&self) -> Timestamp {
        let mut looked = self.looked.lock().unwrap();
        looked.0 += 1;
        self.changed.notify_all();
        drop(self.changed.wait_while(looked, |(_, held)| *held).unwrap());
        at(0)
    }

    fn reached(&self, _: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }
}

fn on_sim(disk: &SimDisk, clock: Arc<dyn Clock>) -> (tempfile::TempDir, LocalStore) {
    let dir = tempfile::tempdir().unwrap();
    let mut above = PathBuf::new();
    for part in dir.path() {
        above.push(part);
        let _ = crate::disk::Disk::create_dir(disk, &above);
    }
    let store = LocalStore::open_on(Arc::new(disk.clone()), dir.path(), 1, clock, 1 << 20);
    (dir, store.unwrap())
}

#[tokio::test]
async fn what_waits_is_made_durable_in_one_step() {
    let disk = SimDisk::new(1);
    let gate = Arc::new(Gate::default());
    let (_dir, store) = on_sim(&disk, Arc::clone(&gate) as Arc<dyn Clock>);
    let syncs = disk.syncs();
    gate.hold();
    let ids: Vec<_> = (0..101).map(|n| n.to_string()).collect();
    let mut one = store.timer_at(&ids[0], at(1));
    let mut context = Context::from_waker(Waker::noop());
    assert!(one.as_mut().poll(&mut context).is_pending());
    gate.wait_for_one();
    let mut more = Box::pin(join_all(
        ids[1..].iter().map(|id| store.timer_at(id, at(1))),
    ));
    assert!(more.as_mut().poll(&mut context).is_pending());
    gate.let_go();
    one.await.unwrap();
    assert!(more.await.into_iter().all(|set| set.is_ok()));
    assert_eq!(disk.syncs(), syncs + 2);
    assert_eq!(store.home().timers().count(), 101);
}

#[tokio::test]
async fn a_full_disk_is_told_and_passes() {
    let disk = SimDisk::new(1);
    let (_dir, store) = on_sim(&disk, clock());
    run(&store, "a").await;
    let before = store.home();
    disk.set_capacity(Some(disk.used() + 20));
    let full = store.timer_at("t", at(1)).await.unwrap_err();
    let Error::Io { source, .. } = full else {
        panic!("{full}")
    };
    assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(*store.home(), *before);
    let lease = crate::store::Lease {
        run: firing("a").run,
        epoch: 1,
    };
    let full = store
        .append(&lease, 3, at(1), &RunEvent::TimeUp)
        .await
        .unwrap_err();
    assert!(matches!(full, Error::Io { .. }), "{full}");
    disk.set_capacity(None);
    store.timer_at("t", at(1)).await.unwrap();
    store
        .append(&lease, 3, at(1), &RunEvent::TimeUp)
        .await
        .unwrap();
    assert_eq!(store.home().seq(), before.seq() + 1);
}

#[tokio::test]
async fn after_a_failed_sync_nothing_more_is_taken() {
    let disk = SimDisk::new(1);
    let (_dir, store) = on_sim(&disk, clock());
    run(&store, "a").await;
    let before = store.home();
    disk.fail_sync(0);
    let failed = store.timer_at("t", at(1)).await.unwrap_err();
    assert!(matches!(failed, Error::Ambiguous { .. }), "{failed}");
    for _ in 0..2 {
        let refused = store.timer_at("u", at(1)).await.unwrap_err();
        assert!(matches!(refused, Error::Io { .. }), "{refused}");
    }
    assert_eq!(*store.home(), *before, "what may not be durable was shown");
    // The run's own journal is another file, and goes the same way only by its own fault.
    let lease = crate::store::Lease {
        run: firing("a").run,
        epoch: 1,
    };
    store
        .append(&lease, 3, at(1), &RunEvent::TimeUp)
        .await
        .unwrap();
    disk.fail_sync(0);
    let failed = store
        .append(&lease, 4, at(1), &RunEvent::TimeUp)
        .await
        .unwrap_err();
    assert!(matches!(failed, Error::Ambiguous { .. }), "{failed}");
    let refused = store
        .append(&lease, 4, at(1), &RunEvent::TimeUp)
        .await
        .unwrap_err();
    assert!(matches!(refused, Error::Io { .. }), "{refused}");
    assert_eq!(store.read_run(&lease.run, 1).await.unwrap().len(), 3);
    // Nor by giving the run up and taking it again.
    Backend::shelf(&store).close_run(&lease.run);
    let refused = store
        .append(&lease, 4, at(1), &RunEvent::TimeUp)
        .await
        .unwrap_err();
    assert!(matches!(refused, Error::Io { .. }), "{refused}");
}

/// Segments and snapshots: what is read from them is what a single file would say.
#[tokio::test]
async fn a_home_in_many_segments() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(crate::disk::RealDisk);
    let open = || LocalStore::open_on(disk.clone(), dir.path(), 1, clock(), 2000);
    let store = open().unwrap();
    for n in 0..40 {
        store
            .fire_once(firing(&n.to_string()), Path::new("/p"), None)
            .await
            .unwrap();
    }
    let live = store.home();
    let all: Vec<_> = store
        .subscribe(0)
        .take(41)
        .map(Result::unwrap)
        .collect()
        .await;
    drop(store);
    let segments = fs::read_dir(journal(dir.path()).parent().unwrap())
        .unwrap()
        .count();
    assert!(segments > 3, "{segments}");
    assert_eq!(*LocalReader::open(dir.path()).unwrap().home(), *live);
    assert_eq!(crate::home::Home::fold(&all).unwrap(), *live);

    // Damaged snapshots are passed over, missing ones not missed.
    let snapshots = dir.path().join("home/snapshots");
    let found: Vec<_> = fs::read_dir(&snapshots)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    assert_eq!(found.len(), 2);
    for path in &found {
        damage_byte(path);
    }
    assert_eq!(*LocalReader::open(dir.path()).unwrap().home(), *live);
    for path in &found {
        fs::remove_file(path).unwrap();
    }
    assert_eq!(*LocalReader::open(dir.path()).unwrap().home(), *live);

    // Without them, a segment in the middle that is short or gone is damage.
    let second = fs::read_dir(journal(dir.path()).parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| *path != journal(dir.path()))
        .min()
        .unwrap();
    let bytes = fs::read(&second).unwrap();
    fs::write(&second, &bytes[..bytes.len() - 1]).unwrap();
    assert!(matches!(open(), Err(Error::Corrupt { .. })));
    fs::remove_file(&second).unwrap();
    assert!(matches!(open(), Err(Error::Corrupt { .. })));
    fs::write(&second, &bytes).unwrap();
    assert_eq!(open().unwrap().home().seq(), live.seq() + 1);
}

/// A journal that was put back from an older copy is the truth all the same.
#[tokio::test]
async fn a_snapshot_ahead_of_the_journal_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(crate::disk::RealDisk);
    let open = || LocalStore::open_on(disk.clone(), dir.path(), 1, clock(), 1).unwrap();
    let store = open();
    store.timer_at("t", at(1)).await.unwrap();
    let live = store.home();
    store.timer_at("u", at(1)).await.unwrap();
    drop(store);
    fs::remove_file(dir.path().join("home/journal/000000000003.jsonl")).unwrap();
    fs::remove_file(dir.path().join("home/journal/000000000004.jsonl")).unwrap();
    assert_eq!(*LocalReader::open(dir.path()).unwrap().home(), *live);
    let store = open();
    assert_eq!(store.home().seq(), live.seq() + 1);
    assert_eq!(store.home().timer("u"), None);
}

fn damage_byte(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// More records than are kept in memory.
#[tokio::test]
async fn a_long_journal_is_followed_from_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mark = |n| HomeEvent::Watermark {
        project: project(),
        loop_name: loop_name(),
        trigger: "t".into(),
        upto: at(n),
    };
    store.record((0..5000).map(mark).collect()).await.unwrap();
    let records: Vec<_> = store
        .subscribe(10)
        .take(4991)
        .map(Result::unwrap)
        .collect()
        .await;
    assert_eq!(records.last().unwrap().event, mark(4999));
    assert!(
        records
            .windows(2)
            .all(|pair| pair[1].seq == pair[0].seq + 1)
    );
}

#[tokio::test]
async fn the_newest_runs() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for nonce in ["a", "b", "c"] {
        run(&store, nonce).await;
    }
    let rested = HomeEvent::RunRested {
        run: firing("b").run,
        outcome: Outcome::Done,
        changed: true,
        reason: "x".repeat(100_000),
        branch: None,
        item: None,
    };
    store.record(vec![rested]).await.unwrap();
    let home = store.home();
    let newest: Vec<_> = home.runs().rev().take(2).cloned().collect();
    assert_eq!(store.newest(2).await, newest);
    assert_eq!(newest[1].outcome, Some(Outcome::Done));
}
