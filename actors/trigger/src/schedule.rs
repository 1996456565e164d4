//! What a schedule means at an instant: what fires, what was missed, when to look again.
//!
//! Pure: the caller brings the clock's reading and remembers the watermark. It never fires anything and
//! never asks what time it is.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use ronde_protocol::Digest;

use crate::cron::Cron;

/// A rule that names instants.
#[derive(Debug, Clone, PartialEq)]
pub enum Schedule {
    /// The instants of a cron text in a time zone.
    Cron {
        /// The text.
        cron: Cron,
        /// Where its wall clock hangs.
        zone: TimeZone,
    },
    /// `anchor + period`, `anchor + 2 * period`, and so on.
    Every {
        /// The interval. One of zero length names no instant.
        period: Duration,
        /// Where the counting begins: the instant the trigger was registered. It is itself no instant
        /// of the schedule, so that a new trigger does not fire at once.
        anchor: Timestamp,
    },
}

impl Schedule {
    /// The first instant strictly after `after`; `None` where none comes (within 100 years).
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Cron { cron, zone } => cron.next(zone, after),
            Self::Every { period, anchor } => {
                let passed = passed(*period, *anchor, after)?;
                nth(*period, *anchor, passed + 1)
            }
        }
    }

    /// The last instant after `after` and not after `until`. Bounded by the days between them, not by
    /// the instants.
    pub fn last(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        if until <= after {
            return None;
        }
        match self {
            Self::Cron { cron, zone } => cron.last(zone, after, until),
            Self::Every { period, anchor } => {
                let n = passed(*period, *anchor, until)?;
                (n > passed(*period, *anchor, after)?).then(|| nth(*period, *anchor, n))?
            }
        }
    }

    /// How many instants lie after `after` and not after `until`. Bounded like [`Schedule::last`].
    pub fn count(&self, after: Timestamp, until: Timestamp) -> u64 {
        if until <= after {
            return 0;
        }
        match self {
            Self::Cron { cron, zone } => cron.count(zone, after, until),
            Self::Every { period, anchor } => {
                let counted = passed(*period, *anchor, until)
                    .zip(passed(*period, *anchor, after))
                    .map_or(0, |(until, after)| until - after);
                u64::try_from(counted).unwrap_or(u64::MAX)
            }
        }
    }
}

/// How many instants of an interval lie at or before `at`.
fn passed(period: Duration, anchor: Timestamp, at: Timestamp) -> Option<i128> {
    let period = i128::try_from(period.as_nanos())
        .ok()
        .filter(|period| *period > 0)?;
    Some(
        (at.as_nanosecond() - anchor.as_nanosecond())
            .div_euclid(period)
            .max(0),
    )
}

fn nth(period: Duration, anchor: Timestamp, n: i128) -> Option<Timestamp> {
    let period = i128::try_from(period.as_nanos()).ok()?;
    let at = anchor.as_nanosecond().checked_add(period.checked_mul(n)?)?;
    Timestamp::from_nanosecond(at).ok()
}

/// What is to be done when the clock shows some instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The instant that becomes a run now, without its jitter: a slot's id is made from it.
    pub fire: Option<Timestamp>,
    /// The instants that become none, oldest first: at most two entries.
    pub skipped: Vec<SkippedSlots>,
    /// Instants up to and including this one are accounted for now. Never lower than before.
    pub watermark: Timestamp,
    /// When to look again, jitter included; `None` where nothing comes any more.
    pub next: Option<Timestamp>,
}

/// A row of instants that became no run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkippedSlots {
    /// Why.
    pub why: Skip,
    /// The first of them.
    pub first: Timestamp,
    /// The last of them; the same where there is one.
    pub last: Timestamp,
    /// How many there are.
    pub count: u64,
}

/// Why instants became no run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// They are older than the catch-up window.
    Missed,
    /// A later one fires instead.
    Superseded,
}

/// Decides what the clock's reading `now` means.
///
/// An instant comes due `jitter` after its own time. Of all instants that came due after `watermark`
/// the latest fires, if it came due at most `catch_up` ago; the others within that window are
/// superseded by it, older ones are missed. A clock set back (now before the watermark) does nothing,
/// so no instant is accounted for twice.
///
/// Nothing is enumerated: whatever the number of instants, the work is that of walking the days between
/// the watermark and now (a few comparisons a day; constant for [`Schedule::Every`]).
pub fn due(
    schedule: &Schedule,
    jitter: Duration,
    watermark: Timestamp,
    now: Timestamp,
    catch_up: Duration,
) -> Due {
    let until = earlier(now, jitter);
    if until <= watermark {
        let next = schedule.next(watermark).and_then(|at| later(at, jitter));
        return Due {
            fire: None,
            skipped: Vec::new(),
            watermark,
            next,
        };
    }
    // The last instant that is too old: the window holds both its ends.
    let edge = before(earlier(until, catch_up)).max(watermark);
    let fire = schedule.last(edge, until);
    let rows = [
        (Skip::Missed, watermark, edge),
        (Skip::Superseded, edge, fire.map_or(edge, before)),
    ];
    let skipped = rows.into_iter().filter_map(|(why, after, until)| {
        let last = schedule.last(after, until)?;
        let first = schedule.next(after)?;
        Some(SkippedSlots {
            why,
            first,
            last,
            count: schedule.count(after, until),
        })
    });
    Due {
        fire,
        skipped: skipped.collect(),
        watermark: until,
        next: schedule.next(until).and_then(|at| later(at, jitter)),
    }
}

/// The offset of a trigger: from 0 to below `most`, in whole milliseconds, the same for the same seed
/// on every machine and in every release.
pub fn jitter(seed: &str, most: Duration) -> Duration {
    let most = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
    if most == 0 {
        return Duration::ZERO;
    }
    let digest = Digest::of(seed);
    let number = u64::from_str_radix(&digest.as_str()[..16], 16)
        .expect("a digest is 64 hex digits, and 16 of them fit");
    Duration::from_millis(number % most)
}

/// The next `count` instants of several schedules, soonest first, strictly after `from`; where two fall
/// together, in the order given.
pub fn plan(
    schedules: &[(usize, Schedule)],
    from: Timestamp,
    count: usize,
) -> Vec<(Timestamp, usize)> {
    let mut heads: Vec<Option<Timestamp>> = schedules
        .iter()
        .map(|(_, schedule)| schedule.next(from))
        .collect();
    let mut plan = Vec::new();
    while plan.len() < count {
        let soonest = heads
            .iter()
            .enumerate()
            .filter_map(|(place, at)| Some(((*at)?, place)))
            .min();
        let Some((at, place)) = soonest else { break };
        let (index, schedule) = &schedules[place];
        plan.push((at, *index));
        heads[place] = schedule.next(at);
    }
    plan
}

fn earlier(at: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by)
        .ok()
        .and_then(|by| at.checked_sub(by).ok())
        .unwrap_or(Timestamp::MIN)
}

fn later(at: Timestamp, by: Duration) -> Option<Timestamp> {
    at.checked_add(SignedDuration::try_from(by).ok()?).ok()
}

/// The instant just before.
fn before(at: Timestamp) -> Timestamp {
    at.checked_sub(SignedDuration::from_nanos(1))
        .unwrap_or(Timestamp::MIN)
}
