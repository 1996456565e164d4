//! When a run of a loop starts.
//!
//! The schedules here are pure: values in, values out. They read no clock, no disk and no network, and
//! their time zones come from the database compiled into this crate, so that one text means the same
//! instants on every machine.

mod calendar;
pub mod cron;
pub mod schedule;
pub mod zone;

pub use cron::{Cron, CronError};
pub use schedule::{Due, Schedule, Skip, SkippedSlots, due, jitter, plan};
pub use zone::{ZoneError, zone};
