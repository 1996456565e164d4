//! Queues and timers.

use std::{collections::BTreeSet, sync::Arc};

use tokio::task::JoinSet;

use super::{at, missing};
use crate::{event::QueueItem, store::Store};

fn task(id: &str, class: &str) -> QueueItem {
    QueueItem {
        queue: "q".to_owned(),
        class: class.to_owned(),
        id: id.to_owned(),
        payload: format!("do {id}"),
    }
}

pub(super) async fn tasks(store: Arc<dyn Store>) {
    let pull = async |class: &str, now, until| {
        let pulled = store
            .pull("q", class, "me", at(now), at(until))
            .await
            .expect("a decision");
        pulled.map(|task| task.id)
    };
    assert_eq!(pull("big", 0, 10).await, None);
    for (id, class) in [("1", "big"), ("2", "small"), ("3", "big")] {
        assert!(
            store.push(task(id, class)).await.expect("a decision"),
            "{id}"
        );
    }
    assert!(!store.push(task("1", "small")).await.expect("a decision"));
    assert_eq!(pull("big", 0, 10).await.as_deref(), Some("1"));
    assert_eq!(pull("big", 0, 10).await.as_deref(), Some("3"));
    assert_eq!(pull("big", 9, 20).await, None);
    // Whoever took it did not finish it in time.
    assert_eq!(pull("big", 10, 20).await.as_deref(), Some("1"));
    store.ack("q", "1").await.expect("it is there");
    store.ack("q", "1").await.expect("it is finished");
    missing(store.ack("q", "9").await);
    missing(store.ack("nowhere", "1").await);
    // Finished is finished.
    assert!(!store.push(task("1", "big")).await.expect("a decision"));
    assert_eq!(pull("big", 99, 100).await.as_deref(), Some("3"));
    assert_eq!(pull("big", 99, 100).await, None);
    assert_eq!(pull("small", 99, 100).await.as_deref(), Some("2"));
}

pub(super) async fn each_task_once(store: Arc<dyn Store>) {
    for n in 0..10 {
        store
            .push(task(&n.to_string(), "c"))
            .await
            .expect("a decision");
    }
    let mut racers = JoinSet::new();
    for n in 0..20 {
        let store = Arc::clone(&store);
        racers.spawn(async move {
            let holder = n.to_string();
            store
                .pull("q", "c", &holder, at(0), at(9))
                .await
                .expect("a decision")
        });
    }
    let pulled: Vec<_> = racers.join_all().await.into_iter().flatten().collect();
    let ids: BTreeSet<_> = pulled.iter().map(|task| &task.id).collect();
    assert_eq!((pulled.len(), ids.len()), (10, 10));
}

pub(super) async fn timers(store: Arc<dyn Store>) {
    let set = || -> Vec<_> {
        store
            .home()
            .timers()
            .map(|(id, at)| (id.to_owned(), at))
            .collect()
    };
    store.timer_at("a", at(1)).await.expect("set");
    store.timer_at("b", at(2)).await.expect("set");
    store.timer_at("a", at(3)).await.expect("moved");
    assert_eq!(set(), [("a".to_owned(), at(3)), ("b".to_owned(), at(2))]);
    store.cancel_timer("a").await.expect("cleared");
    store.cancel_timer("a").await.expect("nothing to clear");
    assert_eq!(set(), [("b".to_owned(), at(2))]);
    // Asked again for what is so, nothing is written.
    let seq = store.home().seq();
    store.timer_at("b", at(2)).await.expect("set");
    assert_eq!(store.home().seq(), seq);
}
