//! The journal of a run and the right to write to it.

use std::{path::PathBuf, sync::Arc};

use tokio::task::JoinSet;

use super::{at, begun, fenced, fired, firing, illegal, missing};
use crate::{
    event::RunEvent,
    store::{Error, Lease, Store},
};

fn first(nonce: &str) -> RunEvent {
    RunEvent::Fired {
        firing: firing(nonce),
        root: PathBuf::from("/p"),
    }
}

pub(super) async fn journal(store: Arc<dyn Store>) {
    let lease = begun(&store, "a").await;
    let run = &lease.run;
    assert_eq!(store.read_run(run, 1).await.expect("it was fired"), []);
    // It begins with what fired it, and with nothing else.
    illegal(store.append(&lease, 1, at(1), &RunEvent::TimeUp).await);
    illegal(store.append(&lease, 1, at(1), &first("b")).await);
    illegal(store.append(&lease, 2, at(1), &RunEvent::TimeUp).await);
    illegal(store.append(&lease, 0, at(1), &RunEvent::TimeUp).await);
    assert_eq!(
        store
            .append(&lease, 1, at(1), &first("a"))
            .await
            .expect("the first"),
        1
    );
    illegal(store.append(&lease, 1, at(1), &first("a")).await);
    illegal(store.append(&lease, 3, at(1), &RunEvent::TimeUp).await);
    illegal(store.append(&lease, 2, at(1), &first("a")).await);
    assert_eq!(
        store
            .append(&lease, 2, at(2), &RunEvent::TimeUp)
            .await
            .expect("the second"),
        2
    );

    let all = store.read_run(run, 1).await.expect("two records");
    let told: Vec<_> = all.iter().map(|r| (r.seq, r.epoch, r.at)).collect();
    assert_eq!(told, [(1, lease.epoch, at(1)), (2, lease.epoch, at(2))]);
    assert_eq!(all[0].event, first("a"));
    assert_eq!(store.read_run(run, 2).await.expect("one record"), all[1..]);
    assert_eq!(store.read_run(run, 3).await.expect("none"), []);

    // What was released is taken up again where it was.
    store.release(&lease).await.expect("it is held");
    assert_eq!(store.read_run(run, 1).await.expect("two records"), all);
    let lease = store
        .lease(run, "me", at(3), at(60))
        .await
        .expect("it is free");
    illegal(store.append(&lease, 2, at(3), &RunEvent::TimeUp).await);
    assert_eq!(
        store
            .append(&lease, 3, at(3), &RunEvent::TimeUp)
            .await
            .expect("the third"),
        3
    );
    missing(store.read_run(&"nobody-00000000".into(), 1).await);
}

pub(super) async fn leases(store: Arc<dyn Store>) {
    missing(
        store
            .lease(&"nobody-00000000".into(), "me", at(0), at(9))
            .await,
    );
    let run = fired(&store, "a").await;
    fenced(
        store
            .append(
                &Lease {
                    run: run.clone(),
                    epoch: 1,
                },
                1,
                at(0),
                &first("a"),
            )
            .await,
        0,
    );
    let mine = store
        .lease(&run, "me", at(0), at(10))
        .await
        .expect("it is free");
    fenced(store.lease(&run, "other", at(9), at(20)).await, mine.epoch);
    store.heartbeat(&mine, at(30)).await.expect("it is held");
    fenced(store.lease(&run, "other", at(29), at(40)).await, mine.epoch);
    // From its end on it is another's to take.
    let theirs = store
        .lease(&run, "other", at(30), at(40))
        .await
        .expect("it has run out");
    assert!(theirs.epoch > mine.epoch);
    fenced(store.heartbeat(&mine, at(50)).await, theirs.epoch);
    fenced(store.release(&mine).await, theirs.epoch);
    // The same holder may take it again, and its older self is fenced.
    let again = store
        .lease(&run, "other", at(31), at(40))
        .await
        .expect("it is theirs");
    assert!(again.epoch > theirs.epoch);
    fenced(
        store.append(&theirs, 1, at(31), &first("a")).await,
        again.epoch,
    );
    store.release(&again).await.expect("it is held");
    fenced(store.release(&again).await, again.epoch);
    fenced(
        store.append(&again, 1, at(32), &first("a")).await,
        again.epoch,
    );
    let last = store
        .lease(&run, "me", at(32), at(40))
        .await
        .expect("it is free");
    assert!(last.epoch > again.epoch);
}

/// An append of the old owner and the new owner's lease at the same time: what is read under the new
/// lease is all there ever is from the old one.
pub(super) async fn an_old_owner_is_fenced(store: Arc<dyn Store>) {
    let old = begun(&store, "a").await;
    store
        .append(&old, 1, at(0), &first("a"))
        .await
        .expect("the first");
    let writer = {
        let (store, old) = (Arc::clone(&store), old.clone());
        tokio::spawn(async move {
            for seq in 2.. {
                match store.append(&old, seq, at(1), &RunEvent::TimeUp).await {
                    Ok(_) => {}
                    Err(Error::Fenced { .. }) => return seq,
                    Err(other) => panic!("{other}"),
                }
            }
            0
        })
    };
    while store
        .read_run(&old.run, 1)
        .await
        .expect("it is there")
        .len()
        < 5
    {
        tokio::task::yield_now().await;
    }
    let new = store
        .lease(&old.run, "other", at(60), at(90))
        .await
        .expect("it has run out");
    let seen = store
        .read_run(&old.run, 1)
        .await
        .expect("it is there")
        .len() as u64;
    store
        .append(&new, seen + 1, at(61), &RunEvent::TimeUp)
        .await
        .expect("it is ours");
    assert_eq!(writer.await.expect("it ends"), seen + 1);
    let all = store.read_run(&old.run, 1).await.expect("it is there");
    assert_eq!(all.len() as u64, seen + 1);
    assert!(
        all.iter()
            .all(|r| (r.epoch == new.epoch) == (r.seq == seen + 1))
    );
}

pub(super) async fn of_many_appends_one_wins(store: Arc<dyn Store>) {
    let lease = begun(&store, "a").await;
    store
        .append(&lease, 1, at(0), &first("a"))
        .await
        .expect("the first");
    let mut racers = JoinSet::new();
    for _ in 0..20 {
        let (store, lease) = (Arc::clone(&store), lease.clone());
        racers.spawn(async move { store.append(&lease, 2, at(1), &RunEvent::TimeUp).await });
    }
    let all = racers.join_all().await;
    assert_eq!(all.iter().filter(|appended| appended.is_ok()).count(), 1);
    assert_eq!(
        store
            .read_run(&lease.run, 1)
            .await
            .expect("it is there")
            .len(),
        2
    );
}
