//! The actor over an inbox in memory, a clock set by hand, and ports that break.

use std::{
    pin::Pin,
    sync::{Mutex, MutexGuard},
};

use ronde_protocol::{LoopName, ProjectId};
use tokio::sync::{mpsc, watch};

use super::*;

/// Minute `minute` of the day of these tests.
pub(crate) fn at(minute: u32) -> Timestamp {
    let text = format!("2026-12-01T{:02}:{:02}:00Z", minute / 60, minute % 60);
    text.parse().expect("a timestamp")
}

/// An open item, asked at minute 0.
pub(crate) fn entry(number: ItemNumber, reason: Reason, expires: Option<u32>) -> Entry {
    let item = Item {
        key: format!("green-0badcafe/{number}"),
        run: "green-0badcafe".into(),
        project: ProjectId::new("0123456789ab"),
        loop_name: LoopName::new("green").expect("a good name"),
        reason,
        title: "a title".into(),
        evidence: String::new(),
        branch: None,
        tried: vec![],
        action: None,
        opened: at(0),
        expires: expires.map(at),
        blocks: true,
    };
    Entry {
        number,
        item,
        answer: None,
        answered: None,
    }
}

/// A clock that is set by hand.
struct SetClock(watch::Sender<Timestamp>);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        *self.0.borrow()
    }

    fn reached(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut seen = self.0.subscribe();
        Box::pin(async move {
            // A clock that is gone reaches nothing any more.
            if seen.wait_for(|now| *now >= at).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}

/// An inbox in memory. What it is to break at is named in `broken`, and goes when it broke.
#[derive(Default)]
struct Memory {
    entries: Mutex<Vec<Entry>>,
    broken: Mutex<Vec<&'static str>>,
    /// Another process answers just before this one does.
    faster: Mutex<Option<Answer>>,
}

impl Memory {
    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().expect("no panic under the lock")
    }

    fn breaks(&self, at: &str) -> bool {
        let mut broken = self.broken.lock().expect("no panic under the lock");
        let place = broken.iter().position(|broken| *broken == at);
        place.map(|place| broken.remove(place)).is_some()
    }

    fn write(&self, number: ItemNumber, answer: Answer) -> bool {
        let mut entries = self.entries();
        let entry = entries
            .iter_mut()
            .find(|entry| entry.number == number)
            .expect("an item");
        let first = entry.answer.is_none();
        if first {
            entry.answer = Some(answer);
            entry.answered = Some(at(5));
        }
        first
    }
}

#[async_trait::async_trait]
impl Inbox for Memory {
    async fn open(&self, item: Item) -> Result<ItemNumber, String> {
        assert!(!self.breaks("open"), "a broken inbox");
        if self.breaks("full") {
            return Err("the disk is full".into());
        }
        let mut entries = self.entries();
        if let Some(entry) = entries.iter().find(|entry| entry.item.key == item.key) {
            return Ok(entry.number);
        }
        let number = entries.len() as ItemNumber + 1;
        entries.push(Entry {
            number,
            item,
            answer: None,
            answered: None,
        });
        Ok(number)
    }

    fn entry(&self, number: ItemNumber) -> Option<Entry> {
        assert!(!self.breaks("entry"), "a broken inbox");
        self.entries()
            .iter()
            .find(|entry| entry.number == number)
            .cloned()
    }

    fn entries(&self) -> Vec<Entry> {
        assert!(!self.breaks("entries"), "a broken inbox");
        Self::entries(self).clone()
    }

    async fn resolve(&self, number: ItemNumber, answer: Answer) -> Result<bool, String> {
        if self.breaks("resolve") {
            return Err("the disk is full".into());
        }
        assert!(!self.breaks("panic"), "a broken inbox");
        if let Some(faster) = self.faster.lock().expect("no panic under the lock").take() {
            self.write(number, faster);
        }
        Ok(self.write(number, answer))
    }
}

/// Tells the test what it is asked; one channel is stuck and one panics.
struct Told(mpsc::UnboundedSender<String>);

#[async_trait::async_trait]
impl Outside for Told {
    async fn notify(&self, entry: Entry, channel: String) {
        match channel.as_str() {
            "stuck" => std::future::pending().await,
            "broken" => panic!("a broken channel"),
            _ => self
                .0
                .send(format!("{channel} {}", entry.number))
                .expect("the test listens"),
        }
    }

    async fn expired(&self, number: ItemNumber) {
        self.0
            .send(format!("expired {number}"))
            .expect("the test listens");
    }
}

struct Bench {
    handoff: Handle,
    inbox: Arc<Memory>,
    clock: Arc<SetClock>,
    told: mpsc::UnboundedReceiver<String>,
}

/// Everything at minute 1, over an inbox that holds these.
async fn bench(entries: Vec<Entry>, broken: &[&'static str]) -> Bench {
    let (to, told) = mpsc::unbounded_channel();
    let clock = Arc::new(SetClock(watch::Sender::new(at(1))));
    let inbox = Arc::new(Memory {
        entries: Mutex::new(entries),
        broken: Mutex::new(broken.to_vec()),
        ..Memory::default()
    });
    let handoff = spawn(Config {
        inbox: inbox.clone(),
        outside: Arc::new(Told(to)),
        clock: clock.clone(),
    })
    .await
    .expect("an actor");
    Bench {
        handoff,
        inbox,
        clock,
        told,
    }
}

impl Bench {
    async fn ask(
        &self,
        number: ItemNumber,
        expires: Option<u32>,
        channels: &[&str],
    ) -> Result<ItemNumber, String> {
        let channels = channels.iter().map(|&channel| channel.to_owned()).collect();
        self.handoff
            .ask(entry(number, Reason::Stuck, expires).item, channels)
            .await
    }

    async fn told(&mut self) -> String {
        self.told.recv().await.expect("the actor lives")
    }
}

fn text() -> Answer {
    Answer::Text {
        text: "go on".into(),
    }
}

#[tokio::test]
async fn asking_tells_each_channel_and_a_broken_one_harms_nobody() {
    let mut bench = bench(vec![], &[]).await;
    assert_eq!(
        bench.ask(1, None, &["stuck", "broken", "mail"]).await,
        Ok(1)
    );
    assert_eq!(bench.told().await, "mail 1");
    assert_eq!(bench.ask(2, None, &["broken", "phone"]).await, Ok(2));
    assert_eq!(bench.told().await, "phone 2");
    // The same question again is the same item.
    assert_eq!(bench.ask(1, None, &["mail"]).await, Ok(1));
    assert_eq!(bench.told().await, "mail 1");
    // Nobody is told of what is answered.
    bench.handoff.answer(1, text()).await.expect("taken");
    assert_eq!(bench.ask(1, None, &["mail"]).await, Ok(1));
    assert_eq!(bench.ask(3, None, &["mail"]).await, Ok(3));
    assert_eq!(bench.told().await, "mail 3");
}

#[tokio::test]
async fn who_waits_for_the_end_waits_for_each_notification() {
    let mut bench = bench(vec![], &[]).await;
    bench.handoff.told().await;
    assert_eq!(bench.ask(1, None, &["mail"]).await, Ok(1));
    bench.handoff.told().await;
    assert_eq!(bench.told.try_recv().as_deref(), Ok("mail 1"));
    assert_eq!(bench.ask(2, None, &["stuck"]).await, Ok(2));
    let told = tokio::spawn({
        let handoff = bench.handoff.clone();
        async move { handoff.told().await }
    });
    // The actor answers, so the other task has run as far as it can.
    bench.handoff.answer(1, text()).await.expect("taken");
    assert!(!told.is_finished());
    told.abort();
}

#[tokio::test]
async fn an_inbox_that_fails_is_an_error_for_who_asked() {
    let mut bench = bench(vec![], &["full", "open"]).await;
    // The panic is looked at first.
    let broken = bench.ask(1, None, &["mail"]).await.expect_err("a panic");
    assert!(broken.contains("broke"), "{broken}");
    assert_eq!(
        bench.ask(1, None, &["mail"]).await,
        Err("the disk is full".into())
    );
    assert_eq!(bench.ask(1, None, &["mail"]).await, Ok(1));
    assert_eq!(bench.told().await, "mail 1");
    for broken in ["entry", "resolve", "panic"] {
        bench
            .inbox
            .broken
            .lock()
            .expect("no panic under the lock")
            .push(broken);
        let refused = bench.handoff.answer(1, text()).await;
        assert!(
            matches!(refused, Err(AnswerError::Broken(_))),
            "{broken}: {refused:?}"
        );
    }
    bench.handoff.answer(1, text()).await.expect("taken");
}

#[tokio::test]
async fn the_first_answer_stands() {
    let bench = bench(
        vec![entry(1, Reason::Stuck, None), entry(2, Reason::Stuck, None)],
        &[],
    )
    .await;
    let answer = |number, answer| bench.handoff.answer(number, answer);
    assert_eq!(
        answer(3, text()).await,
        Err(AnswerError::NoSuchItem { number: 3 })
    );
    let wrong = answer(1, Answer::Approve)
        .await
        .expect_err("a text is asked for");
    assert!(
        matches!(
            wrong,
            AnswerError::WrongKind {
                number: 1,
                reason: Reason::Stuck,
                ..
            }
        ),
        "{wrong:?}"
    );
    assert_eq!(
        wrong.hint(),
        Some("it needs words: use `ronde answer`, or `ronde close` to leave it")
    );
    assert_eq!(answer(1, text()).await, Ok(()));
    let already = answer(1, Answer::Deny).await.expect_err("it is answered");
    assert_eq!(
        already.to_string(),
        "item 1 was answered before: \"go on\", 2026-12-01 00:05:00 UTC"
    );
    let already = answer(1, Answer::Approve)
        .await
        .expect_err("it is answered");
    assert!(
        matches!(already, AnswerError::AlreadyAnswered { number: 1, .. }),
        "{already:?}"
    );
    // Between the look and the answer somebody else answers.
    *bench.inbox.faster.lock().expect("no panic under the lock") = Some(Answer::Close);
    let faster = answer(2, text()).await;
    assert!(
        matches!(
            faster,
            Err(AnswerError::AlreadyAnswered {
                number: 2,
                answer: Answer::Close,
                ..
            })
        ),
        "{faster:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn items_run_out_each_in_its_time_and_once() {
    let old = entry(1, Reason::Question, Some(1));
    let answered = Entry {
        answer: Some(Answer::Deny),
        ..entry(2, Reason::Question, Some(1))
    };
    let mut bench = bench(vec![old, answered], &[]).await;
    // It ran out while nobody watched.
    assert_eq!(bench.told().await, "expired 1");
    assert_eq!(bench.ask(3, Some(30), &[]).await, Ok(3));
    assert_eq!(bench.ask(4, Some(20), &[]).await, Ok(4));
    assert_eq!(bench.ask(5, Some(20), &[]).await, Ok(5));
    bench.clock.0.send_replace(at(19));
    bench.handoff.answer(5, text()).await.expect("taken");
    bench.clock.0.send_replace(at(20));
    assert_eq!(bench.told().await, "expired 4");
    bench.clock.0.send_replace(at(40));
    assert_eq!(bench.told().await, "expired 3");
    let answers: Vec<_> = Memory::entries(&bench.inbox)
        .iter()
        .map(|entry| entry.answer.clone())
        .collect();
    let expired = Some(Answer::Expired);
    assert_eq!(
        answers,
        [
            expired.clone(),
            Some(Answer::Deny),
            expired.clone(),
            expired,
            Some(text())
        ]
    );
    assert!(bench.told.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn an_inbox_that_fails_is_tried_again() {
    for broken in ["entries", "resolve", "panic"] {
        let mut bench = bench(
            vec![
                entry(1, Reason::Stuck, Some(1)),
                entry(2, Reason::Stuck, Some(1)),
            ],
            &[broken],
        )
        .await;
        let mut told = [bench.told().await, bench.told().await];
        told.sort_unstable();
        assert_eq!(told, ["expired 1", "expired 2"], "{broken}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_answers_just_before_the_end_is_heard_alone() {
    let mut bench = bench(vec![], &[]).await;
    *bench.inbox.faster.lock().expect("no panic under the lock") = Some(text());
    assert_eq!(bench.ask(1, Some(10), &[]).await, Ok(1));
    bench.clock.0.send_replace(at(10));
    // The end of another comes after the first was seen to be answered.
    while Memory::entries(&bench.inbox)[0].answer.is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(bench.ask(2, Some(10), &[]).await, Ok(2));
    assert_eq!(bench.told().await, "expired 2");
    assert_eq!(Memory::entries(&bench.inbox)[0].answer, Some(text()));
}
