//! Items and their first answers.

use std::sync::Arc;

use ronde_protocol::handoff::{Answer, Item, Reason};
use tokio::task::JoinSet;

use super::{at, illegal, loop_name, missing, project};
use crate::{event::HomeEvent, store::Store};

pub(crate) fn item(key: &str) -> Item {
    Item {
        key: key.to_owned(),
        run: "r".into(),
        project: project(),
        loop_name: loop_name(),
        reason: Reason::Question,
        title: "which one?".to_owned(),
        evidence: "both tests fail".to_owned(),
        branch: None,
        tried: vec!["1: fail".to_owned()],
        action: None,
        opened: at(0),
        expires: None,
        blocks: true,
    }
}

pub(super) async fn items(store: Arc<dyn Store>) {
    assert_eq!(store.await_answer(item("r/1")).await.expect("an item"), 1);
    assert_eq!(store.await_answer(item("r/2")).await.expect("an item"), 2);
    // Asked twice is one item, whatever else is said.
    let mut again = item("r/1");
    again.title = "what?".to_owned();
    assert_eq!(store.await_answer(again).await.expect("an item"), 1);
    let home = store.home();
    assert_eq!(home.inbox().get(1).expect("it is there").item, item("r/1"));
    assert_eq!(home.inbox().open().count(), 2);

    assert!(store.resolve(2, Answer::Approve).await.expect("it is open"));
    assert!(
        !store
            .resolve(2, Answer::Deny)
            .await
            .expect("it was answered")
    );
    missing(store.resolve(3, Answer::Deny).await);
    missing(store.resolve(0, Answer::Deny).await);
    let home = store.home();
    assert_eq!(
        home.inbox().get(2).expect("it is there").answer,
        Some(Answer::Approve)
    );
    let open: Vec<_> = home.inbox().open().map(|entry| entry.number).collect();
    assert_eq!(open, [1]);
    assert_eq!(home.inbox().by_key("r/2").expect("it is there").number, 2);
    // An answered item is not asked again either.
    assert_eq!(store.await_answer(item("r/2")).await.expect("an item"), 2);

    let started = |number| HomeEvent::NotifyStarted {
        number,
        channel: "mail".to_owned(),
    };
    let ended = || HomeEvent::NotifyEnded {
        number: 1,
        channel: "mail".to_owned(),
        error: None,
    };
    illegal(store.record(vec![started(3)]).await);
    illegal(store.record(vec![ended()]).await);
    store
        .record(vec![started(1)])
        .await
        .expect("there is such an item");
    assert_eq!(store.home().notifying().collect::<Vec<_>>(), [(1, "mail")]);
    illegal(store.record(vec![started(1)]).await);
    assert!(!store.home().told(1, "mail"));
    store.record(vec![ended()]).await.expect("it was begun");
    assert_eq!(store.home().notifying().count(), 0);
    assert!(store.home().told(1, "mail"));
}

pub(super) async fn the_first_answer_stands(store: Arc<dyn Store>) {
    store.await_answer(item("r/1")).await.expect("an item");
    let mut racers = JoinSet::new();
    for n in 0..20 {
        let store = Arc::clone(&store);
        racers.spawn(async move {
            let answer = Answer::Text {
                text: n.to_string(),
            };
            store
                .resolve(1, answer.clone())
                .await
                .expect("there is such an item")
                .then_some(answer)
        });
    }
    let won: Vec<_> = racers.join_all().await.into_iter().flatten().collect();
    assert_eq!(won.len(), 1);
    assert_eq!(
        store.home().inbox().get(1).expect("it is there").answer,
        won.first().cloned()
    );
}
