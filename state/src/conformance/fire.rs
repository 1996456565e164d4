//! Slots, runs and the events that need no decision.

use std::{path::Path, sync::Arc};

use ronde_protocol::{ArtefactId, Digest, SlotId, firing::SkipReason, outcome::Outcome};
use tokio::task::JoinSet;

use super::{at, fired, firing, illegal, loop_name, project};
use crate::{
    event::HomeEvent,
    store::{Fired, Store},
};

pub(super) async fn one_winner(store: Arc<dyn Store>) {
    let trigger = Digest::of("cron");
    let mut racers = JoinSet::new();
    for _ in 0..20 {
        let (store, trigger) = (Arc::clone(&store), trigger.clone());
        racers.spawn(async move {
            store
                .fire_once(firing("a"), Path::new("/p"), Some(trigger))
                .await
                .expect("fires")
        });
    }
    let all = racers.join_all().await;
    let run = firing("a").run;
    let won = all
        .iter()
        .filter(|fired| **fired == Fired::Won(run.clone()))
        .count();
    let already = all
        .iter()
        .filter(|fired| **fired == Fired::Already(run.clone()))
        .count();
    assert_eq!((won, already), (1, 19));

    let home = store.home();
    assert_eq!(home.slot(&firing("a").slot), Some(run.clone()));
    assert_eq!(home.runs().len(), 1);
    assert_eq!(
        home.watermark(&project(), &loop_name(), &trigger),
        Some(at(0))
    );
    assert_eq!(
        home.active_run(&project(), &loop_name())
            .map(|run| &run.run),
        Some(&run)
    );
    // The run of a slot is not anybody's to choose.
    let mut other = firing("b");
    other.run = run;
    illegal(store.fire_once(other, Path::new("/p"), None).await);
}

pub(super) async fn events_without_a_decision(store: Arc<dyn Store>) {
    let before = store.home().seq();
    assert_eq!(store.record(Vec::new()).await.expect("nothing"), before);
    let trigger = Digest::of("cron");
    let events = vec![
        HomeEvent::ProjectOpened {
            project: project(),
            root: "/p".into(),
        },
        HomeEvent::LoopRegistered {
            project: project(),
            loop_name: loop_name(),
            file: "/p/.ronde/loops/nightly.toml".into(),
            definition: ArtefactId::of("definition"),
        },
        HomeEvent::Watermark {
            project: project(),
            loop_name: loop_name(),
            trigger: trigger.clone(),
            upto: at(10),
        },
        HomeEvent::SlotsSkipped {
            project: project(),
            loop_name: loop_name(),
            trigger: trigger.clone(),
            slot: SlotId::scheduled(&project(), &loop_name(), &trigger, at(20)),
            first: at(20),
            last: at(40),
            count: 3,
            reason: SkipReason::Missed,
        },
        // The clock was set back: what was accounted for stays so.
        HomeEvent::Watermark {
            project: project(),
            loop_name: loop_name(),
            trigger: trigger.clone(),
            upto: at(5),
        },
    ];
    assert_eq!(
        store.record(events).await.expect("plain events"),
        before + 5
    );
    let home = store.home();
    assert_eq!(home.seq(), before + 5);
    assert_eq!(home.project(&project()), Some(Path::new("/p")));
    assert!(home.served(&project(), &loop_name()).is_some());
    assert_eq!(
        home.watermark(&project(), &loop_name(), &trigger),
        Some(at(40))
    );
    assert_eq!(
        home.skips(&project(), &loop_name())
            .map(|skip| skip.count)
            .sum::<u64>(),
        3
    );
    store
        .record(vec![HomeEvent::LoopRemoved {
            project: project(),
            loop_name: loop_name(),
        }])
        .await
        .expect("it is served");
    assert_eq!(store.home().loops().count(), 0);
}

pub(super) async fn all_or_none(store: Arc<dyn Store>) {
    let before = store.home();
    let open = HomeEvent::ProjectOpened {
        project: project(),
        root: "/p".into(),
    };
    let unknown = HomeEvent::RunWoken {
        run: "nobody-00000000".into(),
    };
    illegal(store.record(vec![open.clone(), unknown]).await);
    for decided in [
        HomeEvent::Opened { epoch: 2, pid: 1 },
        HomeEvent::SlotFired {
            firing: firing("a"),
            root: "/p".into(),
            trigger: None,
        },
        HomeEvent::TimerSet {
            id: "t".to_owned(),
            at: at(1),
        },
    ] {
        illegal(store.record(vec![open.clone(), decided]).await);
    }
    assert_eq!(*store.home(), *before);
    // And the store goes on.
    assert_eq!(
        store.record(vec![open]).await.expect("a plain event"),
        before.seq() + 1
    );
}

pub(super) async fn rests_and_ends(store: Arc<dyn Store>) {
    let run = fired(&store, "a").await;
    let rested = |outcome| HomeEvent::RunRested {
        run: run.clone(),
        outcome,
        changed: true,
        reason: "why".to_owned(),
        branch: Some("ronde/a".to_owned()),
        item: None,
    };
    let woken = HomeEvent::RunWoken { run: run.clone() };
    illegal(store.record(vec![woken.clone()]).await);
    store
        .record(vec![rested(Outcome::HandedOff)])
        .await
        .expect("it is at work");
    assert!(store.home().active_run(&project(), &loop_name()).is_none());
    store.record(vec![woken.clone()]).await.expect("it rests");
    assert_eq!(store.home().run(&run).expect("it was fired").outcome, None);
    assert!(store.home().active_run(&project(), &loop_name()).is_some());
    store
        .record(vec![rested(Outcome::Interrupted)])
        .await
        .expect("it is at work");
    store
        .record(vec![rested(Outcome::Done)])
        .await
        .expect("a rest may become an end");
    let summary = store.home().run(&run).expect("it was fired").clone();
    assert_eq!(summary.outcome, Some(Outcome::Done));
    assert!(summary.changed);
    assert_eq!(summary.branch.as_deref(), Some("ronde/a"));
    illegal(store.record(vec![woken]).await);
    illegal(store.record(vec![rested(Outcome::Failed)]).await);
}
