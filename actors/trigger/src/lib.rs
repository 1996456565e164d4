//! When a run of a loop starts.
//!
//! The schedules here are pure: values in, values out. They read no clock and no network; a time zone is
//! a value too, and only [`zone()`] and [`zone::local`] read the machine's zone files to make one.

pub mod actor;
mod calendar;
pub mod cron;
pub mod schedule;
pub mod zone;

pub use cron::{Cron, CronError};
pub use schedule::{Due, Schedule, Skip, SkippedSlots, due, jitter, plan};
pub use zone::{ZoneError, zone};
