//! The actor that watches the clock for every loop of a home. It tells its port what came due and what
//! was missed; it starts no run, writes no journal, and one trigger whose port is slow or broken delays
//! no other.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use ronde_protocol::{Clock, Digest, LoopName, ProjectId, Timestamp};
use tokio::task::AbortHandle;

use crate::schedule::{Due, Schedule, due};

/// How long a trigger is left alone after its port failed.
const RETRY: Duration = Duration::from_secs(5);

/// What the clockwork tells: implemented by the engine, which writes it to the home journal.
#[async_trait::async_trait]
pub trait Slots: Send + Sync + 'static {
    /// Instants of a trigger have passed. They count as accounted for once this returns `Ok`; after an
    /// error the same instants come again.
    ///
    /// # Errors
    /// In words, for the log.
    async fn came(&self, of: &Key, due: Due) -> Result<(), String>;
}

/// One trigger of one loop.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The project.
    pub project: ProjectId,
    /// The loop.
    pub loop_name: LoopName,
    /// The trigger, by the hash of its content.
    pub trigger: Digest,
}

/// A trigger as it is watched.
#[derive(Debug, Clone)]
pub struct Watch {
    /// Its instants.
    pub schedule: Schedule,
    /// Its stable offset.
    pub jitter: Duration,
    /// How old a missed instant may be and still start a run.
    pub catch_up: Duration,
    /// Instants up to and including this one are accounted for.
    pub watermark: Timestamp,
}

/// What the actor is started with.
pub struct Config {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Where it tells what came.
    pub slots: Arc<dyn Slots>,
}

/// The door to the actor.
#[derive(Debug, Clone)]
pub struct Handle(ActorRef<Message>);

impl Handle {
    /// Replaces all triggers of a loop; none removes it.
    pub fn set(&self, project: &ProjectId, loop_name: &LoopName, watches: Vec<(Digest, Watch)>) {
        let set = Message::Set(project.clone(), loop_name.clone(), watches);
        if self.0.cast(set).is_err() {
            tracing::warn!(%loop_name, "the clockwork has stopped; the loop is not watched");
        }
    }

    /// Stops watching.
    pub fn stop(&self) {
        self.0.stop(None);
    }
}

/// Starts the actor.
///
/// # Errors
/// Where the actor runtime cannot start one.
pub async fn spawn(config: Config) -> Result<Handle, ractor::SpawnErr> {
    let (actor, _task) = Actor::spawn(None, Clockwork, config).await?;
    Ok(Handle(actor))
}

#[derive(Debug)]
enum Message {
    Set(ProjectId, LoopName, Vec<(Digest, Watch)>),
    Look,
    Told(Key, Result<Timestamp, String>),
    Retry(Key),
}

struct Clockwork;

struct State {
    config: Config,
    watched: BTreeMap<Key, Watched>,
    alarm: Option<(Timestamp, Guard)>,
}

struct Watched {
    watch: Watch,
    /// The port was told and has not answered, or is left alone for a while.
    busy: bool,
}

struct Guard(AbortHandle);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Actor for Clockwork {
    type Msg = Message;
    type State = State;
    type Arguments = Config;

    async fn pre_start(
        &self,
        _myself: ActorRef<Message>,
        config: Config,
    ) -> Result<State, ActorProcessingErr> {
        Ok(State {
            config,
            watched: BTreeMap::new(),
            alarm: None,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Set(project, loop_name, watches) => state.set(&project, &loop_name, watches),
            Message::Look => state.alarm = None,
            Message::Told(key, told) => state.told(&myself, &key, told),
            Message::Retry(key) => {
                if let Some(watched) = state.watched.get_mut(&key) {
                    watched.busy = false;
                }
            }
        }
        state.look(&myself);
        Ok(())
    }
}

impl State {
    fn set(&mut self, project: &ProjectId, loop_name: &LoopName, watches: Vec<(Digest, Watch)>) {
        let (mut before, rest): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.watched)
                .into_iter()
                .partition(|(key, _)| key.project == *project && key.loop_name == *loop_name);
        self.watched = rest;
        for (trigger, mut watch) in watches {
            let key = Key {
                project: project.clone(),
                loop_name: loop_name.clone(),
                trigger,
            };
            // What is just being told is not told again.
            let busy = before.remove(&key).is_some_and(|before| {
                watch.watermark = watch.watermark.max(before.watch.watermark);
                before.busy
            });
            self.watched.insert(key, Watched { watch, busy });
        }
    }

    fn told(&mut self, myself: &ActorRef<Message>, key: &Key, told: Result<Timestamp, String>) {
        let Some(watched) = self.watched.get_mut(key) else {
            return;
        };
        match told {
            Ok(watermark) => {
                watched.watch.watermark = watched.watch.watermark.max(watermark);
                watched.busy = false;
            }
            Err(error) => {
                tracing::error!(loop_name = %key.loop_name, %error, "what came due could not be recorded; trying again");
                myself.send_after(RETRY, {
                    let key = key.clone();
                    move || Message::Retry(key)
                });
            }
        }
    }

    /// Tells what has come due and sets the alarm for what comes next.
    fn look(&mut self, myself: &ActorRef<Message>) {
        let now = self.config.clock.now();
        let mut soonest: Option<Timestamp> = None;
        for (key, watched) in self.watched.iter_mut().filter(|(_, watched)| !watched.busy) {
            let watch = &watched.watch;
            let due = due(
                &watch.schedule,
                watch.jitter,
                watch.watermark,
                now,
                watch.catch_up,
            );
            if let Some(next) = due.next {
                soonest = Some(soonest.map_or(next, |soonest| soonest.min(next)));
            }
            if due.fire.is_none() && due.skipped.is_empty() {
                continue;
            }
            watched.busy = true;
            let (slots, key, myself) =
                (Arc::clone(&self.config.slots), key.clone(), myself.clone());
            tokio::spawn(async move {
                let watermark = due.watermark;
                // A port that panics must not leave its trigger busy for ever.
                let telling = tokio::spawn({
                    let key = key.clone();
                    async move { slots.came(&key, due).await }
                });
                let told = match telling.await {
                    Ok(told) => told.map(|()| watermark),
                    Err(error) => Err(error.to_string()),
                };
                // An actor that has stopped watches nothing more.
                let _stopped = myself.cast(Message::Told(key, told));
            });
        }
        match soonest {
            Some(at) if self.alarm.as_ref().is_none_or(|(set, _)| *set != at) => {
                let (clock, myself) = (Arc::clone(&self.config.clock), myself.clone());
                let task = tokio::spawn(async move {
                    clock.reached(at).await;
                    // An actor that has stopped watches nothing more.
                    let _stopped = myself.cast(Message::Look);
                });
                self.alarm = Some((at, Guard(task.abort_handle())));
            }
            Some(_) => {}
            None => self.alarm = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Future, pin::Pin, sync::Mutex};

    use tokio::sync::{mpsc, watch};

    use super::*;
    use crate::{Cron, zone};

    /// A clock that is set by hand.
    struct SetClock(watch::Sender<Timestamp>);

    impl Clock for SetClock {
        fn now(&self) -> Timestamp {
            *self.0.borrow()
        }

        fn reached(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            let mut seen = self.0.subscribe();
            Box::pin(async move {
                seen.wait_for(|now| *now >= at)
                    .await
                    .expect("the clock outlives its sleepers");
            })
        }
    }

    struct Told {
        to: mpsc::UnboundedSender<(String, Option<Timestamp>, u64)>,
        broken: Mutex<Vec<&'static str>>,
    }

    #[async_trait::async_trait]
    impl Slots for Told {
        async fn came(&self, of: &Key, due: Due) -> Result<(), String> {
            if of.loop_name.as_str() == "stuck" {
                std::future::pending::<()>().await;
            }
            if self
                .broken
                .lock()
                .expect("no panic under the lock")
                .pop()
                .is_some()
            {
                panic!("a broken port");
            }
            let skipped = due.skipped.iter().map(|skip| skip.count).sum();
            self.to
                .send((of.loop_name.to_string(), due.fire, skipped))
                .map_err(|error| error.to_string())
        }
    }

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a timestamp")
    }

    fn minutely(watermark: Timestamp) -> (Digest, Watch) {
        let watch = Watch {
            schedule: Schedule::Cron {
                cron: Cron::parse("* * * * *").expect("a good cron text"),
                zone: zone("UTC").expect("a zone"),
            },
            jitter: Duration::ZERO,
            catch_up: Duration::from_secs(3600),
            watermark,
        };
        (Digest::of("minutely"), watch)
    }

    #[tokio::test(start_paused = true)]
    async fn each_instant_once_and_nobody_waits_for_a_stuck_or_broken_one() {
        let start = at("2026-12-01T00:00:00Z");
        let clock = Arc::new(SetClock(watch::Sender::new(start)));
        let (to, mut told) = mpsc::unbounded_channel();
        let slots = Arc::new(Told {
            to,
            broken: Mutex::new(vec!["once"]),
        });
        let handle = spawn(Config {
            clock: clock.clone(),
            slots,
        })
        .await
        .expect("an actor");
        let project = ProjectId::of("/p");
        let name = |text| LoopName::new(text).expect("a good name");
        handle.set(&project, &name("stuck"), vec![minutely(start)]);
        handle.set(&project, &name("fine"), vec![minutely(start)]);
        // The first telling panics; the same instant comes again.
        clock.0.send_replace(at("2026-12-01T00:01:30Z"));
        assert_eq!(
            told.recv().await,
            Some(("fine".into(), Some(at("2026-12-01T00:01:00Z")), 0))
        );
        // The clock jumps: the latest fires, the rest is counted.
        clock.0.send_replace(at("2026-12-01T00:10:00Z"));
        assert_eq!(
            told.recv().await,
            Some(("fine".into(), Some(at("2026-12-01T00:10:00Z")), 8))
        );
        // Set back, then on: nothing comes twice.
        clock.0.send_replace(at("2026-12-01T00:05:00Z"));
        clock.0.send_replace(at("2026-12-01T00:11:00Z"));
        assert_eq!(
            told.recv().await,
            Some(("fine".into(), Some(at("2026-12-01T00:11:00Z")), 0))
        );
    }

    /// A port that says when it was told and waits until it may answer.
    struct Slow {
        to: mpsc::UnboundedSender<Due>,
        may: tokio::sync::Semaphore,
    }

    #[async_trait::async_trait]
    impl Slots for Slow {
        async fn came(&self, _: &Key, due: Due) -> Result<(), String> {
            self.to.send(due).map_err(|error| error.to_string())?;
            let may = self
                .may
                .acquire()
                .await
                .map_err(|error| error.to_string())?;
            may.forget();
            Ok(())
        }
    }

    #[tokio::test]
    async fn what_is_being_told_is_not_told_again_when_the_loop_is_set_anew() {
        let start = at("2026-12-01T00:00:00Z");
        let clock = Arc::new(SetClock(watch::Sender::new(start)));
        let (to, mut told) = mpsc::unbounded_channel();
        let may = tokio::sync::Semaphore::new(0);
        let slots = Arc::new(Slow { to, may });
        let handle = spawn(Config {
            clock: clock.clone(),
            slots: slots.clone(),
        })
        .await
        .expect("an actor");
        let (project, name) = (
            ProjectId::of("/p"),
            LoopName::new("l").expect("a good name"),
        );
        handle.set(&project, &name, vec![minutely(start)]);
        clock.0.send_replace(at("2026-12-01T00:01:00Z"));
        let first = told.recv().await.expect("told");
        assert_eq!(first.fire, Some(at("2026-12-01T00:01:00Z")));
        handle.set(&project, &name, vec![minutely(start)]);
        slots.may.add_permits(2);
        clock.0.send_replace(at("2026-12-01T00:02:00Z"));
        let second = told.recv().await.expect("told");
        assert_eq!(second.fire, Some(at("2026-12-01T00:02:00Z")));
        assert_eq!(second.skipped, [], "the first was told before");
    }
}
