//! Those who follow a journal see every record once and in order.

use std::{path::PathBuf, sync::Arc};

use futures_util::StreamExt as _;
use tokio::task::JoinSet;

use super::{at, begun, firing, missing};
use crate::{event::RunEvent, store::Store};

const WRITERS: u64 = 4;
const EACH: u64 = 25;

async fn write(store: &Arc<dyn Store>) {
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(store);
        writers.spawn(async move {
            for n in 0..EACH {
                store
                    .timer_at(&format!("{writer}/{n}"), at(1))
                    .await
                    .expect("set");
            }
        });
    }
    writers.join_all().await;
}

pub(super) async fn home(store: Arc<dyn Store>) {
    let start = store.home().seq();
    let end = start + WRITERS * EACH;
    let followers: Vec<_> = [0, start]
        .into_iter()
        .map(|after| {
            let stream = store.subscribe(after);
            let seqs = stream.take(usize::try_from(end - after).expect("a small number"));
            tokio::spawn(async move {
                let seqs: Vec<_> = seqs.map(|r| r.expect("a record").seq).collect().await;
                assert_eq!(seqs, (after + 1..=end).collect::<Vec<_>>());
            })
        })
        .collect();
    write(&store).await;
    for follower in followers {
        follower.await.expect("in order");
    }
    assert_eq!(store.home().seq(), end);
}

pub(super) async fn from_the_middle(store: Arc<dyn Store>) {
    write(&store).await;
    let end = store.home().seq();
    for after in [0, 1, end / 2, end - 1] {
        let mut stream = store.subscribe(after);
        for seq in after + 1..=end {
            let record = stream.next().await.expect("it goes on").expect("a record");
            assert_eq!(record.seq, seq);
        }
    }
    // Nothing is told twice, and nothing before it happens.
    let mut stream = store.subscribe(end);
    let next = stream.next();
    store.timer_at("more", at(2)).await.expect("set");
    assert_eq!(
        next.await.expect("it goes on").expect("a record").seq,
        end + 1
    );
}

pub(super) async fn run(store: Arc<dyn Store>) {
    missing(
        store
            .follow(&"nobody-00000000".into(), 0)
            .next()
            .await
            .expect("an error"),
    );
    let lease = begun(&store, "a").await;
    // Begun before there is anything to see.
    let early = store
        .follow(&lease.run, 0)
        .take(50)
        .map(|r| r.expect("a record").seq);
    let early = tokio::spawn(early.collect::<Vec<_>>());
    let first = RunEvent::Fired {
        firing: firing("a"),
        root: PathBuf::from("/p"),
    };
    store
        .append(&lease, 1, at(0), &first)
        .await
        .expect("the first");
    let late = store
        .follow(&lease.run, 20)
        .take(30)
        .map(|r| r.expect("a record").seq);
    let late = tokio::spawn(late.collect::<Vec<_>>());
    for seq in 2..=50 {
        store
            .append(&lease, seq, at(1), &RunEvent::TimeUp)
            .await
            .expect("it follows");
    }
    assert_eq!(early.await.expect("it ends"), (1..=50).collect::<Vec<_>>());
    assert_eq!(late.await.expect("it ends"), (21..=50).collect::<Vec<_>>());
    // And of a run nobody has open any more.
    store.release(&lease).await.expect("it is held");
    let after = store
        .follow(&lease.run, 0)
        .take(50)
        .map(|r| r.expect("a record").seq);
    assert_eq!(
        after.collect::<Vec<_>>().await,
        (1..=50).collect::<Vec<_>>()
    );
}
