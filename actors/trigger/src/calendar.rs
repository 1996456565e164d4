//! Sets of seconds, minutes, hours, days, months and weekdays, and what local times they hold.
//!
//! Local times are whole seconds since 1970-01-01 00:00 on the wall, without any zone; the zones are
//! [`crate::cron`]'s business. Every search works by days, so its cost is that of the days it spans.

use std::ops::Range;

use jiff::{SignedDuration, civil::Date};

const DAY: i64 = 86_400;

/// The sets of one cron text, as bits: bit n of `minutes` means minute n. Weekdays are 0 (Sunday) to 6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Calendar {
    pub(crate) seconds: u64,
    pub(crate) minutes: u64,
    pub(crate) hours: u64,
    pub(crate) days: u64,
    pub(crate) months: u64,
    pub(crate) weekdays: u64,
    /// Whether a day needs one of day-of-month and weekday only, not both.
    pub(crate) either_day: bool,
}

impl Calendar {
    /// Whether a local second is in the set.
    pub(crate) fn holds(&self, local: i64) -> bool {
        let (day, second) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let (hour, minute) = (second / 3600, second / 60 % 60);
        bit(self.hours, hour)
            && bit(self.minutes, minute)
            && bit(self.seconds, second % 60)
            && date(day).is_some_and(|date| self.holds_day(date))
    }

    /// The first local second in the range that is in the set.
    pub(crate) fn first_in(&self, range: Range<i64>) -> Option<i64> {
        let mut from = range.start;
        while from < range.end {
            let number = self.first_day(from.div_euclid(DAY), range.end.div_euclid(DAY))?;
            let midnight = number * DAY;
            let start = (from - midnight).max(0);
            if let Some(second) = self.first_time(start) {
                let found = midnight + second;
                return (found < range.end).then_some(found);
            }
            from = midnight + DAY;
        }
        None
    }

    /// The last local second in the range that is in the set.
    pub(crate) fn last_in(&self, range: Range<i64>) -> Option<i64> {
        let mut until = range.end - 1;
        while until >= range.start {
            let number = self.last_day(until.div_euclid(DAY), range.start.div_euclid(DAY))?;
            let midnight = number * DAY;
            let end = (until - midnight).min(DAY - 1);
            if let Some(second) = self.last_time(end) {
                let found = midnight + second;
                return (found >= range.start).then_some(found);
            }
            until = midnight - 1;
        }
        None
    }

    /// How many local seconds of the range are in the set.
    pub(crate) fn count_in(&self, range: Range<i64>) -> u64 {
        let mut count = 0;
        let mut from = range.start;
        while from < range.end {
            let Some(number) = self.first_day(from.div_euclid(DAY), range.end.div_euclid(DAY))
            else {
                break;
            };
            let midnight = number * DAY;
            let (start, end) = ((from - midnight).max(0), (range.end - midnight).min(DAY));
            if start < end {
                count += self.times_before(end) - self.times_before(start);
            }
            from = midnight + DAY;
        }
        count
    }

    fn holds_day(&self, date: Date) -> bool {
        if !bit(self.months, i64::from(date.month())) {
            return false;
        }
        let by_day = bit(self.days, i64::from(date.day()));
        let by_weekday = bit(
            self.weekdays,
            i64::from(date.weekday().to_sunday_zero_offset()),
        );
        if self.either_day {
            by_day || by_weekday
        } else {
            by_day && by_weekday
        }
    }

    /// The first day that holds, from one day number to another, both included.
    fn first_day(&self, from: i64, until: i64) -> Option<i64> {
        let (mut number, mut at) = (from, date(from)?);
        while number <= until {
            if self.holds_day(at) {
                return Some(number);
            }
            if bit(self.months, i64::from(at.month())) {
                number += 1;
                at = at.tomorrow().ok()?;
            } else {
                let last = at.last_of_month();
                number += i64::from(last.day() - at.day()) + 1;
                at = last.tomorrow().ok()?;
            }
        }
        None
    }

    /// The last day that holds, from one day number back to another, both included.
    fn last_day(&self, from: i64, until: i64) -> Option<i64> {
        let (mut number, mut at) = (from, date(from)?);
        while number >= until {
            if self.holds_day(at) {
                return Some(number);
            }
            if bit(self.months, i64::from(at.month())) {
                number -= 1;
                at = at.yesterday().ok()?;
            } else {
                number -= i64::from(at.day());
                at = at.first_of_month().yesterday().ok()?;
            }
        }
        None
    }

    /// The first second of the day, not before `from`, that is in the set.
    fn first_time(&self, from: i64) -> Option<i64> {
        let (hour, minute, second) = (from / 3600, from / 60 % 60, from % 60);
        let (first_minute, first_second) = (lowest(self.minutes, 0)?, lowest(self.seconds, 0)?);
        if bit(self.hours, hour) {
            if bit(self.minutes, minute)
                && let Some(found) = lowest(self.seconds, second)
            {
                return Some(hour * 3600 + minute * 60 + found);
            }
            if let Some(found) = lowest(self.minutes, minute + 1) {
                return Some(hour * 3600 + found * 60 + first_second);
            }
        }
        let found = lowest(self.hours, hour + 1)?;
        Some(found * 3600 + first_minute * 60 + first_second)
    }

    /// The last second of the day, not after `until`, that is in the set.
    fn last_time(&self, until: i64) -> Option<i64> {
        let (hour, minute, second) = (until / 3600, until / 60 % 60, until % 60);
        let (last_minute, last_second) = (highest(self.minutes, 60)?, highest(self.seconds, 60)?);
        if bit(self.hours, hour) {
            if bit(self.minutes, minute)
                && let Some(found) = highest(self.seconds, second + 1)
            {
                return Some(hour * 3600 + minute * 60 + found);
            }
            if let Some(found) = highest(self.minutes, minute) {
                return Some(hour * 3600 + found * 60 + last_second);
            }
        }
        let found = highest(self.hours, hour)?;
        Some(found * 3600 + last_minute * 60 + last_second)
    }

    /// How many seconds of a day, before `end`, are in the set.
    fn times_before(&self, end: i64) -> u64 {
        let (hour, minute, second) = (end / 3600, end / 60 % 60, end % 60);
        let per_minute = below(self.seconds, 60);
        let mut count = below(self.hours, hour) * below(self.minutes, 60) * per_minute;
        if bit(self.hours, hour) {
            count += below(self.minutes, minute) * per_minute;
            if bit(self.minutes, minute) {
                count += below(self.seconds, second);
            }
        }
        count
    }
}

/// The date with this number of days after 1970-01-01.
fn date(number: i64) -> Option<Date> {
    let epoch = Date::constant(1970, 1, 1);
    let seconds = number.checked_mul(DAY)?;
    epoch.checked_add(SignedDuration::from_secs(seconds)).ok()
}

fn bit(set: u64, n: i64) -> bool {
    (0..64).contains(&n) && set >> n & 1 == 1
}

/// The lowest member that is at least `from`.
fn lowest(set: u64, from: i64) -> Option<i64> {
    let rest = if from < 64 { set >> from << from } else { 0 };
    (rest != 0).then(|| i64::from(rest.trailing_zeros()))
}

/// The highest member below `end`.
fn highest(set: u64, end: i64) -> Option<i64> {
    let rest = set & mask(end);
    (rest != 0).then(|| 63 - i64::from(rest.leading_zeros()))
}

/// How many members are below `end`.
fn below(set: u64, end: i64) -> u64 {
    u64::from((set & mask(end)).count_ones())
}

fn mask(end: i64) -> u64 {
    if end < 64 { (1 << end) - 1 } else { u64::MAX }
}
