//! The built-in agent as a worker, and what a panic inside an attempt comes to.

use std::{path::Path, sync::Arc, time::Duration};

use ronde_model::{
    CallPlace, Grant, Model, ModelError, Prices, Purse, Refusal, Want, scripted::Scripted, wire,
};
use ronde_protocol::{
    ArtefactId, CallId, Usage,
    outcome::Limit,
    work::{EndReason, Progress, TurnEvent},
};
use ronde_turn::{MAX_OUTPUT, Recorder, Stop, Tool};
use ronde_worker::{Agent, BuiltIn, TimeLimit};
use serde_json::json;

use crate::support::{Bed, canary};

/// A purse without a bottom and a journal that only keeps what it is given.
#[derive(Default)]
struct Notes(std::sync::Mutex<Vec<u8>>);

#[async_trait::async_trait]
impl Purse for Notes {
    async fn reserve(&self, want: Want) -> Result<Grant, Refusal> {
        Ok(want.whole())
    }

    async fn settle(&self, _: &CallId, _: Option<Usage>) {}
}

#[async_trait::async_trait]
impl Recorder for Notes {
    async fn record(&self, event: TurnEvent) -> Result<(), Stop> {
        self.0
            .lock()
            .expect("lock")
            .extend(format!("{event:?}\n").into_bytes());
        Ok(())
    }

    async fn artefact(&self, bytes: &[u8]) -> Result<ArtefactId, Stop> {
        self.0.lock().expect("lock").extend(bytes);
        Ok(ArtefactId::of(bytes))
    }
}

fn agent(model: Arc<dyn Model>, notes: &Arc<Notes>) -> Agent {
    Agent::Ronde(BuiltIn {
        name: "scripted/s".into(),
        model,
        purse: notes.clone(),
        recorder: notes.clone(),
        tools: Tool::ALL.to_vec(),
        max_output: MAX_OUTPUT,
    })
}

fn scripted(calls: serde_json::Value) -> Arc<dyn Model> {
    let text = json!({ "attempts": [calls] }).to_string();
    Arc::new(Scripted::parse(Path::new("s.json"), &text).expect("a script"))
}

#[tokio::test]
async fn it_works_and_a_secret_of_ronde_reaches_nothing_it_writes() {
    let bed = Bed::new();
    let notes = Arc::new(Notes::default());
    let model = scripted(json!([
        { "tools": [
            { "name": "write", "input": { "path": "a", "content": "1" } },
            { "name": "shell", "input": { "command": "env; cat /proc/$PPID/environ; cat a" } }
        ] },
        { "text": "Done." }
    ]));
    let end = bed.run(agent(model, &notes)).await;
    assert_eq!(
        (&end.reason, end.claim.as_str()),
        (&EndReason::Finished, "Done.")
    );
    assert!(end.metered && end.output.is_some() && end.iterations == 2);
    assert!(bed.path("work/a").exists());
    let written = String::from_utf8_lossy(&notes.0.lock().expect("lock")).into_owned();
    assert!(
        written.contains("TMPDIR="),
        "the environment was printed: {written}"
    );
    let news = format!("{:?}{end:?}", bed.news.lock().expect("lock"));
    assert!(!written.contains(&canary()) && !news.contains(&canary()));
    assert!(bed.news.lock().expect("lock").contains(&Progress::Text {
        text: "Done.".into()
    }));
}

/// A model that breaks, or never answers.
enum Odd {
    Panics,
    Silent,
}

#[async_trait::async_trait]
impl Model for Odd {
    async fn call(&self, _: &wire::Request, _: CallPlace) -> Result<wire::Response, ModelError> {
        match self {
            Self::Panics => panic!("the model broke"),
            Self::Silent => std::future::pending().await,
        }
    }

    fn prices(&self) -> Prices {
        Prices::FREE
    }
}

#[tokio::test]
async fn a_panic_ends_this_attempt_as_unknown_and_no_other() {
    let (broken, fine) = (Bed::new(), Bed::new());
    let notes = Arc::new(Notes::default());
    let (_other, other) = fine
        .start(agent(scripted(json!([{ "text": "Done." }])), &notes))
        .await;
    let (handle, end) = broken.start(agent(Arc::new(Odd::Panics), &notes)).await;
    let end = end.await.expect("an end comes all the same");
    assert!(
        matches!(&end.reason, EndReason::Unknown { error } if error.contains("the worker broke")),
        "{end:?}"
    );
    handle.over().await;
    assert_eq!(other.await.expect("an end").reason, EndReason::Finished);
}

#[tokio::test(start_paused = true)]
async fn its_time_is_held_from_outside() {
    let mut bed = Bed::new();
    let notes = Arc::new(Notes::default());
    bed.request.time = Some(TimeLimit::Run(Duration::from_secs(60)));
    let end = bed.run(agent(Arc::new(Odd::Silent), &notes)).await;
    assert_eq!(end.reason, EndReason::Limit { limit: Limit::Time });
    bed.request.time = Some(TimeLimit::Attempt(Duration::from_secs(60)));
    let end = bed.run(agent(Arc::new(Odd::Silent), &notes)).await;
    assert!(matches!(end.reason, EndReason::Failed { .. }), "{end:?}");
}

#[tokio::test]
async fn a_stop_ends_it_and_the_end_still_comes() {
    let bed = Bed::new();
    let notes = Arc::new(Notes::default());
    let (handle, end) = bed.start(agent(Arc::new(Odd::Silent), &notes)).await;
    handle.stop();
    assert_eq!(end.await.expect("an end").reason, EndReason::Stopped);
}

#[tokio::test]
async fn rules_nobody_can_read_do_not_start() {
    let mut bed = Bed::new();
    bed.request.access.rules.deny = vec!["shell(".into()];
    let notes = Arc::new(Notes::default());
    let end = bed.run(agent(Arc::new(Odd::Silent), &notes)).await;
    assert!(
        matches!(&end.reason, EndReason::Unstartable { error } if error.contains("shell(")),
        "{end:?}"
    );
}
