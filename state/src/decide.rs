//! What a store writes for each thing it is asked, and what it answers: a pure function of the fold.
//! Every store has the same decisions; they differ only in where the events go.

use std::path::PathBuf;

use jiff::Timestamp;
use ronde_protocol::{
    Amount, CallId, Digest, Epoch, ItemNumber, RunId,
    firing::Firing,
    handoff::{Answer, Item},
};

use crate::{
    event::{HomeEvent, QueueItem, ScopeLimit},
    home::Home,
    ledger,
    store::{Error, Fired, Reserved, Result},
};

/// Something a store is asked to do to the home.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Record(Vec<HomeEvent>),
    Fire {
        firing: Firing,
        root: PathBuf,
        trigger: Option<Digest>,
    },
    Lease {
        run: RunId,
        holder: String,
        now: Timestamp,
        until: Timestamp,
    },
    Heartbeat {
        run: RunId,
        epoch: Epoch,
        until: Timestamp,
    },
    Release {
        run: RunId,
        epoch: Epoch,
    },
    Reserve {
        call: CallId,
        amount: Amount,
        limits: Vec<ScopeLimit>,
    },
    Settle {
        call: CallId,
        used: Option<Amount>,
    },
    SettleLost {
        run: RunId,
    },
    SetTimer {
        id: String,
        at: Timestamp,
    },
    ClearTimer {
        id: String,
    },
    Await(Item),
    Resolve {
        number: ItemNumber,
        answer: Answer,
    },
    Push(QueueItem),
    Pull {
        queue: String,
        class: String,
        holder: String,
        now: Timestamp,
        until: Timestamp,
    },
    Ack {
        queue: String,
        id: String,
    },
}

/// What it answers once the events are durable.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// Nothing but that it is so.
    Done,
    Fired(Fired),
    Leased(Epoch),
    Reserved(Reserved),
    Settled(u64),
    Item(ItemNumber),
    Was(bool),
    Pulled(Option<QueueItem>),
}

/// Decides. The events are checked by the fold they are applied to; what is checked here is what the
/// events alone do not say.
pub(crate) fn decide(home: &Home, op: &Op) -> Result<(Vec<HomeEvent>, Reply)> {
    let one = |event, reply| Ok((vec![event], reply));
    let none = |reply| Ok((Vec::new(), reply));
    match op {
        Op::Record(events) => {
            for event in events {
                plain(event)?;
            }
            Ok((events.clone(), Reply::Done))
        }
        Op::Fire {
            firing,
            root,
            trigger,
        } => match home.slot(&firing.slot) {
            Some(run) => none(Reply::Fired(Fired::Already(run))),
            None => one(
                HomeEvent::SlotFired {
                    firing: firing.clone(),
                    root: root.clone(),
                    trigger: trigger.clone(),
                },
                Reply::Fired(Fired::Won(firing.run.clone())),
            ),
        },
        Op::Lease {
            run,
            holder,
            now,
            until,
        } => {
            if home.run(run).is_none() {
                return missing(format!("run {run}"));
            }
            let epoch = home
                .leases()
                .decide(run, holder, *now, home.epoch())
                .map_err(|epoch| fenced(run, epoch))?;
            let (run, holder) = (run.clone(), holder.clone());
            one(
                HomeEvent::LeaseTaken {
                    run,
                    holder,
                    epoch,
                    until: *until,
                },
                Reply::Leased(epoch),
            )
        }
        Op::Heartbeat { run, epoch, until } => {
            home.leases()
                .check(run, *epoch)
                .map_err(|newest| fenced(run, newest))?;
            let run = run.clone();
            one(
                HomeEvent::LeaseExtended {
                    run,
                    epoch: *epoch,
                    until: *until,
                },
                Reply::Done,
            )
        }
        Op::Release { run, epoch } => {
            home.leases()
                .check(run, *epoch)
                .map_err(|newest| fenced(run, newest))?;
            one(
                HomeEvent::LeaseReleased {
                    run: run.clone(),
                    epoch: *epoch,
                },
                Reply::Done,
            )
        }
        Op::Reserve {
            call,
            amount,
            limits,
        } => {
            // Before anything else: the calls of such a run are not remembered.
            home.may_pay(call).map_err(|reason| Error::Illegal {
                what: format!("call {call}"),
                reason,
            })?;
            let reserved = home.ledger().decide(call, *amount, limits);
            if reserved != Reserved::Granted {
                return none(Reply::Reserved(reserved));
            }
            let mut scopes: Vec<_> = limits.iter().map(|limit| limit.scope.clone()).collect();
            scopes.sort();
            scopes.dedup();
            let (call, amount) = (call.clone(), *amount);
            one(
                HomeEvent::Reserved {
                    call,
                    amount,
                    scopes,
                },
                Reply::Reserved(reserved),
            )
        }
        Op::Settle { call, used } => match home.ledger().reservation(call) {
            Some(reservation) => {
                let amount = used.unwrap_or(reservation.amount);
                one(
                    HomeEvent::Settled {
                        call: call.clone(),
                        amount,
                    },
                    Reply::Done,
                )
            }
            None if home.ledger().knows(call) => none(Reply::Done),
            // The calls of a run that has ended are not remembered, and none of them is open.
            None if home
                .run(&ledger::run_of(call))
                .is_some_and(|run| !run.at_work()) =>
            {
                none(Reply::Done)
            }
            None => missing(format!("call {call}")),
        },
        Op::SettleLost { run } => {
            let settled: Vec<_> = home
                .ledger()
                .open_of(run)
                .map(|(call, reservation)| HomeEvent::Settled {
                    call: call.clone(),
                    amount: reservation.amount,
                })
                .collect();
            let count = settled.len() as u64;
            Ok((settled, Reply::Settled(count)))
        }
        Op::SetTimer { id, at } => {
            if home.timer(id) == Some(*at) {
                return none(Reply::Done);
            }
            one(
                HomeEvent::TimerSet {
                    id: id.clone(),
                    at: *at,
                },
                Reply::Done,
            )
        }
        Op::ClearTimer { id } => match home.timer(id) {
            Some(_) => one(HomeEvent::TimerCleared { id: id.clone() }, Reply::Done),
            None => none(Reply::Done),
        },
        Op::Await(item) => match home.inbox().by_key(&item.key) {
            Some(entry) => none(Reply::Item(entry.number)),
            None => {
                let number = home.inbox().next();
                one(
                    HomeEvent::ItemOpened {
                        number,
                        item: item.clone(),
                    },
                    Reply::Item(number),
                )
            }
        },
        Op::Resolve { number, answer } => match home.inbox().get(*number) {
            None => missing(format!("item {number}")),
            Some(entry) if entry.answer.is_some() => none(Reply::Was(false)),
            Some(_) => one(
                HomeEvent::ItemResolved {
                    number: *number,
                    answer: answer.clone(),
                },
                Reply::Was(true),
            ),
        },
        Op::Push(task) => {
            if home.queues().knows(&task.queue, &task.id) {
                return none(Reply::Was(false));
            }
            one(HomeEvent::Pushed { task: task.clone() }, Reply::Was(true))
        }
        Op::Pull {
            queue,
            class,
            holder,
            now,
            until,
        } => match home.queues().free(queue, class, *now) {
            None => none(Reply::Pulled(None)),
            Some(task) => one(
                HomeEvent::Pulled {
                    queue: queue.clone(),
                    id: task.id.clone(),
                    holder: holder.clone(),
                    until: *until,
                },
                Reply::Pulled(Some(task.clone())),
            ),
        },
        Op::Ack { queue, id } => {
            if home.queues().done(queue, id) {
                none(Reply::Done)
            } else if home.queues().knows(queue, id) {
                one(
                    HomeEvent::Acked {
                        queue: queue.clone(),
                        id: id.clone(),
                    },
                    Reply::Done,
                )
            } else {
                missing(format!("task `{id}` in queue `{queue}`"))
            }
        }
    }
}

/// Whether an event may be recorded without a decision.
fn plain(event: &HomeEvent) -> Result<()> {
    let by = match event {
        HomeEvent::ProjectOpened { .. }
        | HomeEvent::LoopRegistered { .. }
        | HomeEvent::LoopRemoved { .. }
        | HomeEvent::Watermark { .. }
        | HomeEvent::SlotsSkipped { .. }
        | HomeEvent::RunRested { .. }
        | HomeEvent::RunWoken { .. }
        | HomeEvent::NotifyStarted { .. }
        | HomeEvent::NotifyEnded { .. } => return Ok(()),
        HomeEvent::Opened { .. } => "opening a store",
        HomeEvent::SlotFired { .. } => "`fire_once`",
        HomeEvent::Reserved { .. } => "`reserve`",
        HomeEvent::Settled { .. } => "`settle`",
        HomeEvent::ItemOpened { .. } => "`await_answer`",
        HomeEvent::ItemResolved { .. } => "`resolve`",
        HomeEvent::LeaseTaken { .. } => "`lease`",
        HomeEvent::LeaseExtended { .. } => "`heartbeat`",
        HomeEvent::LeaseReleased { .. } => "`release`",
        HomeEvent::TimerSet { .. } => "`timer_at`",
        HomeEvent::TimerCleared { .. } => "`cancel_timer`",
        HomeEvent::Pushed { .. } => "`push`",
        HomeEvent::Pulled { .. } => "`pull`",
        HomeEvent::Acked { .. } => "`ack`",
    };
    Err(Error::Illegal {
        what: "the home".to_owned(),
        reason: format!("such an event is written by {by} alone"),
    })
}

pub(crate) fn fenced(run: &RunId, epoch: Epoch) -> Error {
    Error::Fenced {
        what: format!("run {run}"),
        epoch,
    }
}

fn missing<T>(what: String) -> Result<T> {
    Err(Error::Missing { what })
}
