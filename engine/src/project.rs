//! A project's loops as they are served: which there are, when they come due, and what becomes of an
//! instant that came.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};

use async_trait::async_trait;
use ronde_loops::TriggerSpec;
use ronde_protocol::{
    ArtefactId, Digest, LoopName, ProjectId, RunId, SlotId, Timestamp,
    firing::{Cause, Firing, SkipReason},
};
use ronde_state::{
    event::HomeEvent,
    store::{Fired, Store},
};
use ronde_trigger::{
    Cron, Due, Schedule, Skip, SkippedSlots,
    actor::{Key, Slots, Watch},
};

use crate::{
    frozen::Frozen,
    handle::{Handle, Refusal, RefusalKind},
    http::ProjectReply,
    run::actor::Wake,
};

/// The loop files of a project, sorted by name.
///
/// # Errors
/// Where the folder cannot be read.
pub(crate) fn loop_files(root: &Path) -> Result<Vec<PathBuf>, Refusal> {
    let folder = root.join(".ronde/loops");
    let unreadable = |error: std::io::Error| {
        Refusal::new(
            RefusalKind::Invalid,
            format!("cannot read {}: {error}", folder.display()),
        )
        .hint("loops are files `.ronde/loops/NAME.toml`; `ronde init` writes one")
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Serves the loops of a project from here on. One that is wrong is told and left out; it harms no
/// other. Loops that were served before and are not there any more are served no longer.
///
/// # Errors
/// Where the folder cannot be read, or nothing can be written down.
pub(crate) async fn open(handle: &Handle, root: &Path) -> Result<ProjectReply, Refusal> {
    let root = std::fs::canonicalize(root).map_err(|error| {
        Refusal::new(RefusalKind::Invalid, format!("{}: {error}", root.display()))
    })?;
    let mut reply = ProjectReply::default();
    let mut found: BTreeMap<LoopName, Frozen> = BTreeMap::new();
    for file in loop_files(&root)? {
        let frozen = match Frozen::read(&file) {
            Ok(frozen) => frozen,
            Err(error) => {
                reply.problems.push(error.to_string());
                continue;
            }
        };
        let name = frozen.definition.name.clone();
        if let Some(first) = found.get(&name) {
            reply.problems.push(format!(
                "{}: a loop named `{name}` is defined in {} already\n  hint: give each loop of a project a name of its own",
                file.display(),
                first.file.display()
            ));
            continue;
        }
        if let Err(refusal) = frozen.preflight(handle.shared()).await {
            reply
                .problems
                .push(format!("{}: {refusal}", file.display()));
        }
        found.insert(name, frozen);
    }
    let project = ProjectId::of(&root.to_string_lossy());
    let gone: Vec<_> = handle
        .shared()
        .store
        .home()
        .loops()
        .filter(|served| served.project == project && !found.contains_key(&served.loop_name))
        .map(|served| served.loop_name.clone())
        .collect();
    for loop_name in gone {
        handle.clockwork().set(&project, &loop_name, Vec::new());
        let removed = HomeEvent::LoopRemoved {
            project: project.clone(),
            loop_name,
        };
        handle.shared().store.record(vec![removed]).await?;
    }
    for (name, frozen) in found {
        register(handle, &frozen).await?;
        reply.loops.push(name);
    }
    Ok(reply)
}

/// Writes down that a loop is served, and has the clockwork watch its triggers.
async fn register(handle: &Handle, frozen: &Frozen) -> Result<(), Refusal> {
    let definition = handle.keep(frozen).await?;
    let shared = handle.shared();
    let watches = enlist(&*shared.store, shared.clock.now(), frozen, definition).await?;
    let (project, loop_name) = (frozen.project(), &frozen.definition.name);
    handle.clockwork().set(&project, loop_name, watches);
    Ok(())
}

/// Writes down that a loop is served with this definition, and gives its triggers as they are watched
/// from `now` on.
///
/// # Errors
/// Where nothing can be written down.
pub(crate) async fn enlist(
    store: &dyn Store,
    now: Timestamp,
    frozen: &Frozen,
    definition: ArtefactId,
) -> Result<Vec<(Digest, Watch)>, Refusal> {
    let (project, loop_name) = (frozen.project(), frozen.definition.name.clone());
    // Whole seconds, so that the instants of an interval read well.
    let now = Timestamp::from_second(now.as_second()).unwrap_or_default();
    let home = store.home();
    let mut events = Vec::new();
    if home
        .served(&project, &loop_name)
        .is_none_or(|served| served.definition != definition)
    {
        events.push(HomeEvent::LoopRegistered {
            project: project.clone(),
            loop_name: loop_name.clone(),
            file: frozen.file.clone(),
            definition,
        });
    }
    let triggers = &frozen.definition.triggers;
    for trigger in triggers {
        // A trigger that is new fires nothing of the past.
        if home
            .watermark(&project, &loop_name, &trigger.hash)
            .is_none()
        {
            events.push(HomeEvent::Watermark {
                project: project.clone(),
                loop_name: loop_name.clone(),
                trigger: trigger.hash.clone(),
                upto: now,
            });
        }
    }
    if !events.is_empty() {
        store.record(events).await?;
    }
    let home = store.home();
    let mut watches = Vec::new();
    for trigger in triggers.iter().filter(|_| frozen.definition.enabled) {
        let anchor = home
            .anchor(&project, &loop_name, &trigger.hash)
            .unwrap_or(now);
        let seed = format!("{project}/{loop_name}/{}", trigger.hash);
        watches.push((
            trigger.hash.clone(),
            Watch {
                schedule: schedule(trigger, anchor)?,
                jitter: ronde_trigger::jitter(&seed, trigger.jitter),
                catch_up: trigger.catch_up,
                watermark: home
                    .watermark(&project, &loop_name, &trigger.hash)
                    .unwrap_or(now),
            },
        ));
    }
    Ok(watches)
}

/// The instants of a trigger.
///
/// # Errors
/// Where its text, which was checked before, is no schedule.
pub(crate) fn schedule(
    trigger: &ronde_loops::Trigger,
    anchor: Timestamp,
) -> Result<Schedule, Refusal> {
    let wrong = |message: String| Refusal::new(RefusalKind::Invalid, message);
    Ok(match &trigger.spec {
        TriggerSpec::Cron(text) => Schedule::Cron {
            cron: Cron::parse(text).map_err(|error| wrong(error.message))?,
            zone: match &trigger.timezone {
                Some(name) => ronde_trigger::zone(name).map_err(|error| wrong(error.message))?,
                None => ronde_trigger::zone::local(),
            },
        },
        TriggerSpec::Every(period) => Schedule::Every {
            period: *period,
            anchor,
        },
    })
}

/// Writes down what came due, and starts its run.
pub(crate) struct Firings {
    handle: tokio::sync::OnceCell<Handle>,
}

impl Firings {
    /// Firings without a door yet: the clockwork and the door need each other.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            handle: tokio::sync::OnceCell::new(),
        })
    }

    /// Gives the door.
    pub(crate) fn open(&self, handle: Handle) {
        // Set once, at the start; a second door would be the same one.
        let _set = self.handle.set(handle);
    }
}

#[async_trait]
impl Slots for Firings {
    async fn came(&self, of: &Key, due: Due) -> Result<(), String> {
        let handle = self.handle.get().ok_or("ronde is starting")?;
        came(handle, of, due)
            .await
            .map_err(|refusal| refusal.to_string())
    }
}

async fn came(handle: &Handle, of: &Key, due: Due) -> Result<(), Refusal> {
    let shared = handle.shared();
    if shared.leaving.load(Ordering::Relaxed) {
        // It comes due again at the next start, and is caught up.
        return Ok(());
    }
    let able = match freshen(handle, of).await? {
        Fresh::Gone => return Ok(()),
        Fresh::Able => Ok(()),
        Fresh::Unable(reason) => Err(reason),
    };
    let fired = {
        let _alone = shared.firing.lock().await;
        if let Err(reason) = able {
            return unable(&*shared.store, of, &due, reason).await;
        }
        match account(&*shared.store, of, &due).await? {
            Some((firing, root)) => {
                let trigger = Some(of.trigger.clone());
                shared.store.fire_once(firing, &root, trigger).await?
            }
            None => return Ok(()),
        }
    };
    // From here on the instant is accounted for: it does not come again whatever becomes of its run.
    if let Fired::Won(run) = fired
        && let Err(refusal) = handle.take(&run, Wake::Recover).await
    {
        tracing::error!(%run, %refusal, "a run that fired cannot be taken up");
    }
    Ok(())
}

/// How a loop stands as its trigger comes due.
enum Fresh {
    /// Its file, or the trigger in it, is gone: nothing is due.
    Gone,
    /// It can run.
    Able,
    /// It cannot: why.
    Unable(String),
}

/// Reads a loop's file again as its trigger comes due: the definition that fires is the file of that
/// moment. A file that is gone is served no longer; one that is wrong leaves the loop as it was, and is
/// told.
async fn freshen(handle: &Handle, of: &Key) -> Result<Fresh, Refusal> {
    let shared = handle.shared();
    let home = shared.store.home();
    let Some(served) = home.served(&of.project, &of.loop_name) else {
        handle
            .clockwork()
            .set(&of.project, &of.loop_name, Vec::new());
        return Ok(Fresh::Gone);
    };
    let before = Frozen::load(&shared.store.get_artefact(&served.definition).await?)?;
    let file = served.file.clone();
    let read = tokio::task::spawn_blocking(move || Frozen::read(&file))
        .await
        .map_err(|error| Refusal::new(RefusalKind::Failed, error.to_string()))?;
    let frozen = match read {
        Ok(frozen) if frozen.definition.name == of.loop_name => frozen,
        // It is another loop now, which the next `ronde serve` finds.
        Ok(_) => return forget(handle, of).await,
        Err(_) if !served.file.exists() => return forget(handle, of).await,
        Err(error) => {
            tracing::warn!(loop_name = %of.loop_name, "the loop goes on as it was, since its file is wrong now:\n{error}");
            before.clone()
        }
    };
    if frozen.bytes() != before.bytes() {
        tracing::info!(loop_name = %of.loop_name, "the loop's file has changed");
        register(handle, &frozen).await?;
    }
    let definition = &frozen.definition;
    let known = definition
        .triggers
        .iter()
        .any(|trigger| trigger.hash == of.trigger);
    if !definition.enabled || !known {
        return Ok(Fresh::Gone);
    }
    Ok(match frozen.preflight(shared).await {
        Ok(()) => Fresh::Able,
        Err(refusal) => Fresh::Unable(refusal.to_string()),
    })
}

/// Serves a loop no longer.
async fn forget(handle: &Handle, of: &Key) -> Result<Fresh, Refusal> {
    tracing::warn!(loop_name = %of.loop_name, "the loop's file is gone; it is served no longer");
    handle
        .clockwork()
        .set(&of.project, &of.loop_name, Vec::new());
    let removed = HomeEvent::LoopRemoved {
        project: of.project.clone(),
        loop_name: of.loop_name.clone(),
    };
    handle.shared().store.record(vec![removed]).await?;
    Ok(Fresh::Gone)
}

/// Writes down that nothing that came due could become a run.
pub(crate) async fn unable(
    store: &dyn Store,
    of: &Key,
    due: &Due,
    reason: String,
) -> Result<(), Refusal> {
    tracing::warn!(loop_name = %of.loop_name, %reason, "the loop cannot run now; its slot is skipped");
    let home = store.home();
    let seen = home.watermark(&of.project, &of.loop_name, &of.trigger);
    let fire = due.fire.map(|at| SkippedSlots {
        why: Skip::Missed,
        first: at,
        last: at,
        count: 1,
    });
    let rows = due.skipped.iter().chain(&fire);
    // What an earlier life has written down is not written twice.
    let rows = rows.filter(|row| seen.is_none_or(|seen| row.last > seen));
    let rows: Vec<_> = rows
        .map(|row| HomeEvent::SlotsSkipped {
            project: of.project.clone(),
            loop_name: of.loop_name.clone(),
            trigger: of.trigger.clone(),
            slot: SlotId::scheduled(&of.project, &of.loop_name, &of.trigger, row.first),
            first: row.first,
            last: row.last,
            count: row.count,
            reason: SkipReason::Unable {
                reason: reason.clone(),
            },
        })
        .collect();
    if !rows.is_empty() {
        store.record(rows).await?;
    }
    Ok(())
}

/// Writes down what became no run of what came due, and gives what is to fire. Two of them at once, or
/// one beside a start by hand, would not see each other: [`crate::handle::Shared::firing`] is held.
///
/// # Errors
/// Where the loop or its trigger is not served any more, or nothing can be written down; nothing is
/// then, so that the same instants may come again.
pub(crate) async fn account(
    store: &dyn Store,
    of: &Key,
    due: &Due,
) -> Result<Option<(Firing, PathBuf)>, Refusal> {
    let slot = |at| SlotId::scheduled(&of.project, &of.loop_name, &of.trigger, at);
    let skipped = |row: &SkippedSlots, reason| HomeEvent::SlotsSkipped {
        project: of.project.clone(),
        loop_name: of.loop_name.clone(),
        trigger: of.trigger.clone(),
        slot: slot(row.first),
        first: row.first,
        last: row.last,
        count: row.count,
        reason,
    };
    let mut rows = Vec::new();
    for row in &due.skipped {
        let reason = match (row.why, due.fire) {
            (Skip::Superseded, Some(by)) => SkipReason::Superseded { by: slot(by) },
            _ => SkipReason::Missed,
        };
        rows.push(skipped(row, reason));
    }
    let home = store.home();
    // A slot that has its run already is told again after a crash; the run is no overlap of itself.
    let fresh = due.fire.filter(|at| home.slot(&slot(*at)).is_none());
    let fire = match (fresh, home.active_run(&of.project, &of.loop_name)) {
        (Some(at), Some(busy)) => {
            let row = SkippedSlots {
                why: Skip::Superseded,
                first: at,
                last: at,
                count: 1,
            };
            let run = busy.run.clone();
            rows.push(skipped(&row, SkipReason::Overlap { run }));
            None
        }
        (Some(at), None) => Some(firing(store, of, at).await?),
        (None, _) => None,
    };
    if !rows.is_empty() {
        store.record(rows).await?;
    }
    Ok(fire)
}

/// What a slot of a trigger starts, and the root folder of its project.
async fn firing(store: &dyn Store, of: &Key, at: Timestamp) -> Result<(Firing, PathBuf), Refusal> {
    let home = store.home();
    let missing = |message: String| Refusal::new(RefusalKind::Missing, message);
    let served = home
        .served(&of.project, &of.loop_name)
        .ok_or_else(|| missing(format!("loop {} is not served", of.loop_name)))?;
    let frozen = Frozen::load(&store.get_artefact(&served.definition).await?)?;
    let trigger = frozen
        .definition
        .triggers
        .iter()
        .find(|trigger| trigger.hash == of.trigger)
        .ok_or_else(|| missing("the trigger is not in its loop any more".to_owned()))?;
    let cause = match trigger.spec {
        TriggerSpec::Cron(_) => Cause::Cron {
            trigger: trigger.index,
        },
        TriggerSpec::Every(_) => Cause::Every {
            trigger: trigger.index,
        },
    };
    let slot = SlotId::scheduled(&of.project, &of.loop_name, &of.trigger, at);
    let firing = Firing {
        run: RunId::of(&of.loop_name, &slot),
        slot,
        project: of.project.clone(),
        loop_name: of.loop_name.clone(),
        cause,
        due: at,
        definition: served.definition.clone(),
    };
    Ok((firing, frozen.root))
}
