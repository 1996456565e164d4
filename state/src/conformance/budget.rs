//! Reservations and what they are worth.

use std::sync::Arc;

use ronde_protocol::{
    Amount, CallId, MicroUsd, RunId,
    outcome::{Limit, Outcome},
};
use tokio::task::JoinSet;

use super::{fired, illegal, missing};
use crate::{
    event::{HomeEvent, Scope, ScopeLimit},
    store::{Reserved, Store},
};

fn amount(tokens: u64, cost: u64) -> Amount {
    Amount {
        tokens,
        cost: MicroUsd(cost),
    }
}

fn call(run: &RunId, n: u64) -> CallId {
    CallId::new(format!("{run}/1/main/{n}/e1"))
}

fn of_run(run: &RunId) -> Scope {
    Scope::Run { run: run.clone() }
}

fn limit(scope: Scope, tokens: u64) -> ScopeLimit {
    ScopeLimit {
        scope,
        tokens: Some(tokens),
        cost: None,
    }
}

pub(super) async fn never_over_a_limit(store: Arc<dyn Store>) {
    let run = RunId::from("r");
    let mut racers = JoinSet::new();
    for n in 0..60_u64 {
        let (store, run) = (Arc::clone(&store), run.clone());
        racers.spawn(async move {
            let asked = amount(1 + n % 7, 1);
            let scopes = [limit(of_run(&run), 100)];
            let reserved = store
                .reserve(&call(&run, n), asked, &scopes)
                .await
                .expect("a decision");
            let home = store.home();
            let taken = home
                .ledger()
                .spent(&of_run(&run))
                .plus(home.ledger().reserved(&of_run(&run)));
            assert!(taken.tokens <= 100, "{taken:?}");
            match reserved {
                Reserved::Granted if n % 2 == 0 => {
                    store
                        .settle(&call(&run, n), Some(asked))
                        .await
                        .expect("it is open");
                    asked.tokens
                }
                Reserved::Granted => asked.tokens,
                Reserved::Refused { limit, left } => {
                    assert_eq!(limit, Limit::Tokens);
                    assert!(left.tokens < asked.tokens);
                    0
                }
                Reserved::Already => panic!("each call is asked for once"),
            }
        });
    }
    let granted: u64 = racers.join_all().await.into_iter().sum();
    let home = store.home();
    let taken = home
        .ledger()
        .spent(&of_run(&run))
        .plus(home.ledger().reserved(&of_run(&run)));
    assert_eq!(taken.tokens, granted);
    // 60 calls of 1 to 7 tokens are far more than 100: all but a few tokens are used.
    assert!((94..=100).contains(&granted), "{granted}");
}

pub(super) async fn settling(store: Arc<dyn Store>) {
    let run = RunId::from("r");
    let day = Scope::ProjectDay {
        project: "p".into(),
        day: "2026-11-01".to_owned(),
    };
    let limits = [limit(of_run(&run), 100), limit(day.clone(), 70)];
    let reserve = async |n, tokens| {
        store
            .reserve(&call(&run, n), amount(tokens, 5), &limits)
            .await
            .expect("a decision")
    };
    assert_eq!(reserve(1, 60).await, Reserved::Granted);
    assert_eq!(reserve(1, 60).await, Reserved::Already);
    let refused = Reserved::Refused {
        limit: Limit::DayTokens,
        left: amount(10, u64::MAX),
    };
    assert_eq!(reserve(2, 11).await, refused);
    assert_eq!(reserve(2, 10).await, Reserved::Granted);
    store
        .settle(&call(&run, 1), Some(amount(20, 2)))
        .await
        .expect("it is open");
    let spent = || store.home().ledger().spent(&day);
    assert_eq!(spent(), amount(20, 2));
    // Settled once is settled, and a call that was made is not paid for again.
    store
        .settle(&call(&run, 1), None)
        .await
        .expect("it is over");
    assert_eq!(spent(), amount(20, 2));
    assert_eq!(reserve(1, 1).await, Reserved::Already);
    missing(store.settle(&call(&run, 9), None).await);
    // Nobody knows what it used: all of it.
    store
        .settle(&call(&run, 2), None)
        .await
        .expect("it is open");
    assert_eq!(spent(), amount(30, 7));

    assert_eq!(reserve(3, 3).await, Reserved::Granted);
    assert_eq!(reserve(4, 4).await, Reserved::Granted);
    let other = RunId::from("r-2");
    store
        .reserve(&call(&other, 1), amount(5, 5), &[])
        .await
        .expect("a decision");
    assert_eq!(store.settle_lost(&run).await.expect("two are open"), 2);
    assert_eq!(store.settle_lost(&run).await.expect("none is open"), 0);
    assert_eq!(spent(), amount(37, 17));
    assert_eq!(store.home().ledger().reserved(&day), Amount::ZERO);
    let open: Vec<_> = store
        .home()
        .ledger()
        .open()
        .map(|(call, _)| call.clone())
        .collect();
    assert_eq!(open, [call(&other, 1)]);
}

pub(super) async fn a_run_that_has_ended_pays_no_more(store: Arc<dyn Store>) {
    let run = fired(&store, "a").await;
    let reserve = async |n| {
        store
            .reserve(&call(&run, n), amount(1, 1), &[limit(of_run(&run), 9)])
            .await
    };
    assert_eq!(reserve(1).await.expect("it is at work"), Reserved::Granted);
    store
        .settle(&call(&run, 1), None)
        .await
        .expect("it is open");
    store
        .record(vec![HomeEvent::RunRested {
            run: run.clone(),
            outcome: Outcome::Done,
            changed: false,
            reason: String::new(),
            branch: None,
            item: None,
        }])
        .await
        .expect("it is at work");
    illegal(reserve(1).await);
    illegal(reserve(2).await);
    let too_much = [limit(of_run(&run), 0)];
    illegal(store.reserve(&call(&run, 1), amount(1, 1), &too_much).await);
    // Told late once more: nothing changes, as before.
    store
        .settle(&call(&run, 1), None)
        .await
        .expect("it was settled");
    assert_eq!(store.home().ledger().spent(&of_run(&run)), amount(1, 1));
}
