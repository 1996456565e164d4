//! The actor over ledgers in memory, some of them stuck or broken.

use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicUsize, Ordering},
};

use ronde_protocol::MicroUsd;
use tokio::sync::{Semaphore, mpsc};

use super::*;

const RATES: Rates = Rates {
    input: MicroUsd(1_000_000),
    output: MicroUsd(2_000_000),
};

/// One budget of tokens. Each question takes a permit; what is asked is told.
struct Book {
    limit: u64,
    booked: Mutex<HashMap<CallId, u64>>,
    permits: Semaphore,
    asked: mpsc::UnboundedSender<String>,
    inside: AtomicUsize,
    /// Panics at this question, counted from 0.
    breaks: Mutex<Option<usize>>,
}

impl Book {
    fn new(limit: u64) -> (Arc<Self>, mpsc::UnboundedReceiver<String>) {
        let (asked, told) = mpsc::unbounded_channel();
        let book = Self {
            limit,
            booked: Mutex::default(),
            permits: Semaphore::new(Semaphore::MAX_PERMITS),
            asked,
            inside: AtomicUsize::new(0),
            breaks: Mutex::new(None),
        };
        (Arc::new(book), told)
    }

    fn booked(&self) -> MutexGuard<'_, HashMap<CallId, u64>> {
        self.booked.lock().expect("no panic under the lock")
    }

    async fn enter(&self, question: String) {
        assert_eq!(
            self.inside.fetch_add(1, Ordering::SeqCst),
            0,
            "two questions at once"
        );
        self.asked.send(question).expect("the test listens");
        self.permits
            .acquire()
            .await
            .expect("an open semaphore")
            .forget();
        // Anybody who would not wait for its turn comes in here.
        tokio::task::yield_now().await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
        let broken = {
            let mut breaks = self.breaks.lock().expect("no panic under the lock");
            let broken = *breaks == Some(0);
            *breaks = breaks.and_then(|left| left.checked_sub(1));
            broken
        };
        assert!(!broken, "a broken ledger");
    }
}

#[async_trait::async_trait]
impl Ledger for Book {
    async fn reserve(&self, call: &CallId, amount: Amount) -> Result<Reserve, String> {
        self.enter(format!("reserve {call} {}", amount.tokens))
            .await;
        let mut booked = self.booked();
        if booked.contains_key(call) {
            return Ok(Reserve::Already);
        }
        let left = self.limit - booked.values().sum::<u64>();
        if amount.tokens > left {
            let left = Amount {
                tokens: left,
                cost: MicroUsd(u64::MAX),
            };
            return Ok(Reserve::Refused {
                limit: Limit::Tokens,
                left,
            });
        }
        booked.insert(call.clone(), amount.tokens);
        Ok(Reserve::Granted)
    }

    async fn settle(&self, call: &CallId, used: Option<Amount>) -> Result<(), String> {
        let text = used.map_or("all".to_owned(), |used| used.tokens.to_string());
        self.enter(format!("settle {call} {text}")).await;
        if let Some(used) = used {
            self.booked().insert(call.clone(), used.tokens);
        }
        Ok(())
    }
}

fn want(call: &str, ledger: &Arc<Book>, input: u64, max_output: u64) -> Want {
    let (call, ledger) = (CallId::new(call), Arc::clone(ledger) as Arc<dyn Ledger>);
    Want {
        call,
        ledger,
        input,
        max_output,
        floor: 10,
        rates: RATES,
    }
}

fn tokens(tokens: u64) -> Option<Amount> {
    Some(Amount {
        tokens,
        cost: MicroUsd(0),
    })
}

#[tokio::test]
async fn the_output_shrinks_and_what_is_settled_is_free_again() {
    let (book, mut asked) = Book::new(200);
    let budget = spawn().await.expect("an actor");
    let grant = budget
        .reserve(want("a", &book, 50, 100))
        .await
        .expect("a grant");
    let amount = Amount {
        tokens: 150,
        cost: MicroUsd(250),
    };
    assert_eq!(
        grant,
        Grant {
            max_output: 100,
            amount
        }
    );
    let grant = budget
        .reserve(want("b", &book, 20, 100))
        .await
        .expect("a grant");
    let amount = Amount {
        tokens: 50,
        cost: MicroUsd(80),
    };
    assert_eq!(
        grant,
        Grant {
            max_output: 30,
            amount
        }
    );
    let refused = budget.reserve(want("c", &book, 1, 100)).await;
    assert_eq!(refused, Err(Refusal::Limit(Limit::Tokens)));
    budget
        .settle("a".into(), tokens(60))
        .await
        .expect("settled");
    let grant = budget
        .reserve(want("c", &book, 1, 100))
        .await
        .expect("a grant");
    assert_eq!(grant.max_output, 89);
    budget.settle("b".into(), None).await.expect("settled");
    drop(budget);
    let mut all = Vec::new();
    while let Ok(question) = asked.try_recv() {
        all.push(question);
    }
    assert_eq!(
        all,
        [
            "reserve a 150",
            "reserve b 120",
            "reserve b 50",
            "reserve c 101",
            "settle a 60",
            "reserve c 101",
            "reserve c 90",
            "settle b all",
        ]
    );
}

#[tokio::test]
async fn a_call_is_given_out_once_and_settled_once() {
    let (book, _asked) = Book::new(1000);
    let budget = spawn().await.expect("an actor");
    budget
        .reserve(want("a", &book, 50, 100))
        .await
        .expect("a grant");
    let again = budget.reserve(want("a", &book, 50, 100)).await;
    assert!(
        matches!(&again, Err(Refusal::Broken(error)) if error.contains("call a was reserved before")),
        "{again:?}"
    );
    budget.settle("a".into(), tokens(7)).await.expect("settled");
    budget
        .settle("a".into(), tokens(9))
        .await
        .expect_err("it is settled");
    budget
        .settle("b".into(), tokens(9))
        .await
        .expect_err("it was never reserved");
    assert_eq!(*book.booked(), HashMap::from([("a".into(), 7)]));
    let after = budget.reserve(want("a", &book, 50, 100)).await;
    assert!(matches!(after, Err(Refusal::Broken(_))), "{after:?}");
}

#[tokio::test]
async fn two_at_once_share_what_is_left() {
    let (book, _asked) = Book::new(150);
    let budget = spawn().await.expect("an actor");
    let (one, two) = tokio::join!(
        budget.reserve(want("a", &book, 10, 100)),
        budget.reserve(want("b", &book, 10, 100)),
    );
    let (one, two) = (one.expect("a grant"), two.expect("a grant"));
    assert_eq!((one.max_output, two.max_output), (100, 30));
}

#[tokio::test]
async fn a_stuck_ledger_holds_up_no_other_and_keeps_its_order() {
    let (stuck, mut asked) = Book::new(1000);
    stuck.permits.forget_permits(Semaphore::MAX_PERMITS);
    let (fine, _told) = Book::new(1000);
    let budget = spawn().await.expect("an actor");
    let waits = |call: &'static str| {
        let (budget, want) = (budget.clone(), want(call, &stuck, 1, 10));
        tokio::spawn(async move { budget.reserve(want).await })
    };
    let first = waits("a");
    assert_eq!(asked.recv().await.as_deref(), Some("reserve a 11"));
    let second = waits("b");
    budget
        .reserve(want("c", &fine, 1, 10))
        .await
        .expect("a grant");
    // The first has not answered, so the second has not been asked for.
    assert!(asked.try_recv().is_err());
    stuck.permits.add_permits(2);
    first.await.expect("no panic").expect("a grant");
    second.await.expect("no panic").expect("a grant");
    assert_eq!(asked.recv().await.as_deref(), Some("reserve b 11"));
}

#[tokio::test]
async fn a_panic_refuses_one_call_and_a_settlement_can_be_tried_again() {
    let (book, _asked) = Book::new(1000);
    *book.breaks.lock().expect("no panic under the lock") = Some(0);
    let budget = spawn().await.expect("an actor");
    let (broken, next) = tokio::join!(
        budget.reserve(want("a", &book, 1, 10)),
        budget.reserve(want("b", &book, 1, 10)),
    );
    assert!(matches!(broken, Err(Refusal::Broken(_))), "{broken:?}");
    next.expect("a grant");
    *book.breaks.lock().expect("no panic under the lock") = Some(0);
    budget
        .settle("b".into(), tokens(5))
        .await
        .expect_err("a panic");
    budget.settle("b".into(), tokens(5)).await.expect("settled");
    assert_eq!(*book.booked(), HashMap::from([("b".into(), 5)]));
}

#[tokio::test]
async fn what_nobody_waits_for_is_freed_or_never_asked() {
    let (book, mut asked) = Book::new(1000);
    book.permits.forget_permits(Semaphore::MAX_PERMITS);
    let budget = spawn().await.expect("an actor");
    let waits = |call: &'static str| {
        let (budget, want) = (budget.clone(), want(call, &book, 1, 10));
        tokio::spawn(async move { budget.reserve(want).await })
    };
    let at_the_ledger = waits("a");
    assert_eq!(asked.recv().await.as_deref(), Some("reserve a 11"));
    let in_the_queue = waits("b");
    // A settlement of nothing is answered after what came before it: `b` is in the queue.
    tokio::task::yield_now().await;
    budget
        .settle("none".into(), None)
        .await
        .expect_err("nothing is set aside");
    for left in [at_the_ledger, in_the_queue] {
        left.abort();
        assert!(left.await.expect_err("it was left").is_cancelled());
    }
    book.permits.add_permits(9);
    budget
        .reserve(want("c", &book, 1, 10))
        .await
        .expect("a grant");
    // Whatever the first left behind is asked before this.
    budget
        .reserve(want("d", &book, 1, 10))
        .await
        .expect("a grant");
    let mut all = Vec::new();
    while let Ok(question) = asked.try_recv() {
        all.push(question);
    }
    // The order of `c` and the settlement is theirs: both came while the first was asked.
    all.sort_unstable();
    assert_eq!(all, ["reserve c 11", "reserve d 11", "settle a 0"]);
    let booked = [("a".into(), 0), ("c".into(), 11), ("d".into(), 11)];
    assert_eq!(*book.booked(), HashMap::from(booked));
}

/// A ledger that refuses whatever it is asked, and says that plenty is left.
struct Contrary;

#[async_trait::async_trait]
impl Ledger for Contrary {
    async fn reserve(&self, _: &CallId, _: Amount) -> Result<Reserve, String> {
        let left = Amount {
            tokens: u64::MAX,
            cost: MicroUsd(u64::MAX),
        };
        Ok(Reserve::Refused {
            limit: Limit::DayCost,
            left,
        })
    }

    async fn settle(&self, _: &CallId, _: Option<Amount>) -> Result<(), String> {
        Ok(())
    }
}

#[tokio::test]
async fn a_ledger_that_contradicts_itself_is_a_refusal() {
    let budget = spawn().await.expect("an actor");
    let want = Want {
        call: "a".into(),
        ledger: Arc::new(Contrary),
        input: 1,
        max_output: 10,
        floor: 1,
        rates: RATES,
    };
    assert_eq!(
        budget.reserve(want).await,
        Err(Refusal::Limit(Limit::DayCost))
    );
}
