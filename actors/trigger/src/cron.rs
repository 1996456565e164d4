//! Cron texts, and the instants they mean, as `man 5 crontab` and Debian's cron have it.
//!
//! Pure: it knows no clock. The sets are parsed here rather than by a crate, because no kept crate has
//! all of: 0 and 7 for Sunday, day-of-month OR weekday with the `*` exception, errors with a place in
//! the text, and Debian's rule for daylight saving (see `docs/decisions/cron.md`).

use std::{fmt, ops::Range, str::FromStr};

use jiff::{Timestamp, tz::TimeZone};

use crate::{
    calendar::Calendar,
    zone::{Stretch, floor_second, stretch_after, stretch_at, timestamp},
};

/// How far ahead [`Cron::next`] looks: 100 years, more than the 40 years (over a 2100 without a leap
/// day) after which every date has met every weekday.
const HORIZON: i64 = 100 * 366 * 86_400;

/// A cron text that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    text: String,
    calendar: Calendar,
    /// The hour or the minute begins with `*`: the job follows the wall clock through every change.
    follows_clock: bool,
    /// Only its minute begins with `*`.
    listed_hours: bool,
}

/// A cron text that was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CronError {
    /// What is wrong.
    pub message: String,
    /// What to write instead, where that is known.
    pub hint: Option<String>,
    /// Where: bytes of the text.
    pub span: Range<usize>,
}

impl Cron {
    /// Reads a cron text: five fields (minute, hour, day of month, month, weekday), six with the
    /// second first, or one of `@hourly @daily @midnight @weekly @monthly @yearly @annually`.
    ///
    /// # Errors
    /// [`CronError`] for the first thing that is wrong, with its place.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        let words = words(text);
        let whole = match (words.first(), words.last()) {
            (Some(first), Some(last)) => first.start..last.end,
            _ => {
                return Err(CronError {
                    message: "empty cron text".to_owned(),
                    hint: Some("for example `0 2 * * *`: every day at 02:00".to_owned()),
                    span: 0..text.len(),
                });
            }
        };
        let trimmed = &text[whole.clone()];
        if trimmed.starts_with('@') {
            let fields = nickname(trimmed, &whole)?;
            let mut cron = Self::from_fields(fields, &self::words(fields))?;
            cron.text = trimmed.to_owned();
            return Ok(cron);
        }
        if words.len() != 5 && words.len() != 6 {
            return Err(CronError {
                message: format!(
                    "a cron text has 5 fields, or 6 with the second first; this one has {}",
                    words.len()
                ),
                hint: Some(
                    "minute hour day-of-month month weekday, for example `0 2 * * 1-5`".to_owned(),
                ),
                span: whole,
            });
        }
        let mut cron = Self::from_fields(text, &words)?;
        cron.text = trimmed.to_owned();
        Ok(cron)
    }

    fn from_fields(text: &str, words: &[Range<usize>]) -> Result<Self, CronError> {
        let (second, rest) = match words {
            [second, rest @ ..] if words.len() == 6 => (Some(second), rest),
            rest => (None, rest),
        };
        let [minute, hour, day, month, weekday] = rest else {
            unreachable!("the caller counted the fields")
        };
        let starred = |field: &Range<usize>| text[field.clone()].starts_with('*');
        let seconds = match second {
            Some(second) => Field::SECOND.parse(text, second)?,
            None => 1,
        };
        let minutes = Field::MINUTE.parse(text, minute)?;
        let hours = Field::HOUR.parse(text, hour)?;
        let days = Field::DAY.parse(text, day)?;
        let months = Field::MONTH.parse(text, month)?;
        let weekdays = Field::WEEKDAY.parse(text, weekday)?;
        Ok(Self {
            text: String::new(),
            calendar: Calendar {
                seconds,
                minutes,
                hours,
                days,
                months,
                // 7 is Sunday too.
                weekdays: (weekdays | weekdays >> 7) & 0x7f,
                either_day: !starred(day) && !starred(weekday),
            },
            follows_clock: starred(minute) || starred(hour),
            listed_hours: starred(minute) && !starred(hour),
        })
    }

    /// The text, without the blanks around it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The first instant strictly after `after`, or `None` where none comes within 100 years
    /// (`0 0 31 4 *`).
    ///
    /// A job at fixed times whose time is skipped by the clock runs right after the gap, once however
    /// many of its times were skipped, and runs only in the first round of a repeated hour. A job whose
    /// hour or minute begins with `*` runs whenever the wall shows a time of its set. A change of three
    /// hours or more is no daylight saving but a correction: the new time counts at once for both.
    pub fn next(&self, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
        let after = floor_second(after);
        let horizon = after.saturating_add(HORIZON);
        let mut stretch = stretch_at(zone, after);
        let mut from = self.first_local(&stretch).max(after + stretch.offset + 1);
        loop {
            let end = stretch.end.unwrap_or(i64::MAX).min(horizon);
            for locals in self.locals(&stretch, from..end + stretch.offset) {
                if let Some(local) = self.calendar.first_in(locals) {
                    return timestamp(instant(&stretch, local));
                }
            }
            if end == horizon {
                return None;
            }
            stretch = stretch_after(zone, stretch)?;
            from = self.first_local(&stretch);
        }
    }

    /// The last instant after `after` and not after `until`. Its work is bounded by the days between.
    pub fn last(&self, zone: &TimeZone, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let mut found = None;
        self.over(zone, after, until, |stretch, locals| {
            if let Some(local) = self.calendar.last_in(locals) {
                found = Some(instant(stretch, local));
            }
        });
        timestamp(found?)
    }

    /// How many instants lie after `after` and not after `until`. Nothing is enumerated: its work is
    /// bounded by the days between, whatever the number.
    pub fn count(&self, zone: &TimeZone, after: Timestamp, until: Timestamp) -> u64 {
        let mut count = 0;
        self.over(zone, after, until, |stretch, locals| {
            let shown = stretch
                .start
                .map_or(i64::MIN, |start| start + stretch.offset);
            if locals.start < shown {
                // All times of a gap are one instant, the same as the first one after it.
                let in_gap = locals.start..shown.min(locals.end);
                let end_of_gap = locals.end > shown && self.calendar.holds(shown);
                if !end_of_gap && self.calendar.first_in(in_gap).is_some() {
                    count += 1;
                }
            }
            count += self.calendar.count_in(locals.start.max(shown)..locals.end);
        });
        count
    }

    /// Calls `visit` for each stretch of one offset that has instants in `(after, until]`, with the
    /// local times of the stretch that lead to them.
    fn over(
        &self,
        zone: &TimeZone,
        after: Timestamp,
        until: Timestamp,
        mut visit: impl FnMut(&Stretch, Range<i64>),
    ) {
        let (after, until) = (floor_second(after), floor_second(until));
        let mut stretch = stretch_at(zone, after);
        let mut from = self.first_local(&stretch).max(after + stretch.offset + 1);
        loop {
            let end = stretch.end.unwrap_or(i64::MAX).min(until + 1);
            for locals in self.locals(&stretch, from..end + stretch.offset) {
                visit(&stretch, locals);
            }
            match stretch_after(zone, stretch) {
                Some(next) if next.start.is_some_and(|start| start <= until) => stretch = next,
                _ => return,
            }
            from = self.first_local(&stretch);
        }
    }

    /// A range of local times of one stretch, less the part [`Cron::late`] leaves out.
    fn locals(&self, stretch: &Stretch, range: Range<i64>) -> [Range<i64>; 2] {
        match self.late(stretch) {
            Some(late) => [
                range.start..range.end.min(late.start),
                range.start.max(late.end)..range.end,
            ],
            None => [range, 0..0],
        }
    }

    /// Where the clock is set forward by part of an hour only (Lord Howe Island: 02:00 becomes 02:30), a
    /// job that follows the clock through listed hours counts whole hours from the end of the gap to the
    /// first of them, so that this one begins late by that part, once. The reference does so; a job whose
    /// hours hold the end of the gap, or begin with `*`, is not touched.
    fn late(&self, stretch: &Stretch) -> Option<Range<i64>> {
        const HOUR: i64 = 3600;
        const DAY: i64 = 24 * HOUR;
        if !self.listed_hours {
            return None;
        }
        let shown = stretch.start? + stretch.offset;
        let gap = shown - stretch.owned?;
        let part = shown.rem_euclid(HOUR);
        if part == 0 || !(1..HOUR).contains(&gap) {
            return None;
        }
        let midnight = (shown.div_euclid(DAY) + 1) * DAY;
        let first = self.calendar.first_in(shown..midnight)?;
        let hour = first - first.rem_euclid(HOUR);
        (hour > shown).then(|| hour..hour + part)
    }

    /// The first local second a stretch answers for.
    fn first_local(&self, stretch: &Stretch) -> i64 {
        if self.follows_clock {
            stretch
                .start
                .map_or(i64::MIN, |start| start + stretch.offset)
        } else {
            stretch.owned.unwrap_or(i64::MIN)
        }
    }
}

/// When the wall shows `local`, or, where that time is skipped, the instant after the gap.
fn instant(stretch: &Stretch, local: i64) -> i64 {
    let at = local - stretch.offset;
    stretch.start.map_or(at, |start| at.max(start))
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl FromStr for Cron {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, CronError> {
        Self::parse(text)
    }
}

/// The places of the words between blanks.
fn words(text: &str) -> Vec<Range<usize>> {
    let mut words: Vec<Range<usize>> = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        match (c == ' ' || c == '\t', start) {
            (false, None) => start = Some(at),
            (true, Some(from)) => {
                words.push(from..at);
                start = None;
            }
            _ => {}
        }
    }
    words
}

fn nickname(text: &str, span: &Range<usize>) -> Result<&'static str, CronError> {
    const KNOWN: [(&str, &str); 7] = [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ];
    let error = |message: String, hint: String| {
        Err(CronError {
            message,
            hint: Some(hint),
            span: span.clone(),
        })
    };
    if let Some((_, fields)) = KNOWN.iter().find(|(name, _)| *name == text) {
        return Ok(fields);
    }
    if text.eq_ignore_ascii_case("@reboot") {
        return error(
            "`@reboot` is not an instant, so nothing can be scheduled by it".to_owned(),
            "use `every` for an interval, or a time such as `@daily`".to_owned(),
        );
    }
    let folded = text.to_ascii_lowercase();
    let near = KNOWN
        .iter()
        .map(|(name, _)| (strsim::damerau_levenshtein(name, &folded), *name))
        .min()
        .filter(|(distance, _)| *distance <= 2);
    error(
        format!("unknown nickname `{text}`"),
        match near {
            Some((_, name)) => format!("did you mean `{name}`?"),
            None => "one of @hourly @daily @midnight @weekly @monthly @yearly @annually".to_owned(),
        },
    )
}

/// One field: its numbers and the names some of them have.
struct Field {
    name: &'static str,
    low: u32,
    high: u32,
    names: &'static [&'static str],
}

impl Field {
    const SECOND: Self = Self {
        name: "second",
        low: 0,
        high: 59,
        names: &[],
    };
    const MINUTE: Self = Self {
        name: "minute",
        low: 0,
        high: 59,
        names: &[],
    };
    const HOUR: Self = Self {
        name: "hour",
        low: 0,
        high: 23,
        names: &[],
    };
    const DAY: Self = Self {
        name: "day of month",
        low: 1,
        high: 31,
        names: &[],
    };
    const MONTH: Self = Self {
        name: "month",
        low: 1,
        high: 12,
        names: &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    };
    const WEEKDAY: Self = Self {
        name: "weekday",
        low: 0,
        high: 7,
        names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    };

    /// The set of a field's text: a list of numbers, names, ranges and `*`, the latter two with an
    /// optional step.
    fn parse(&self, text: &str, field: &Range<usize>) -> Result<u64, CronError> {
        let mut set = 0;
        let mut start = field.start;
        for item in text[field.clone()].split(',') {
            set |= self.item(item, start)?;
            start += item.len() + 1;
        }
        Ok(set)
    }

    fn item(&self, item: &str, start: usize) -> Result<u64, CronError> {
        let span = start..start + item.len();
        if item.is_empty() {
            return Err(self.error("empty item in the list".to_owned(), None, span));
        }
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (item, None),
        };
        let range_span = start..start + range.len();
        let (low, high) = if range == "*" {
            (self.low, self.high)
        } else if let Some((low, high)) = range.split_once('-') {
            let low_value = self.value(low, start)?;
            let high_value = self.value(high, start + low.len() + 1)?;
            if low_value > high_value {
                let hint = if self.high == 7 && high_value == 0 {
                    format!("Sunday at the end of a range is 7: `{low}-7`")
                } else {
                    let (first, last) =
                        (self.low, self.high.min(if self.high == 7 { 6 } else { 59 }));
                    format!("write two ranges: `{low}-{last},{first}-{high}`")
                };
                return Err(self.error(
                    format!("range `{range}` runs backwards"),
                    Some(hint),
                    range_span,
                ));
            }
            (low_value, high_value)
        } else {
            let value = self.value(range, start)?;
            (value, value)
        };
        // `5/15` is `5-59/15`, as most readers of cron texts have it; crontab(5) is silent about it.
        let high = if step.is_some() && low == high {
            self.high
        } else {
            high
        };
        let step = match step {
            Some(step) => {
                let at = start + range.len() + 1;
                match number(step) {
                    Some(0) => {
                        return Err(self.error(
                            "a step of 0".to_owned(),
                            Some("a step is at least 1".to_owned()),
                            at..at + step.len(),
                        ));
                    }
                    Some(step) => step,
                    None => {
                        return Err(self.error(
                            format!("step `{step}` is not a number"),
                            None,
                            at..at + step.len(),
                        ));
                    }
                }
            }
            None => 1,
        };
        let mut set = 0;
        let mut value = low;
        while value <= high {
            set |= 1 << value;
            value = value.saturating_add(step);
        }
        Ok(set)
    }

    fn value(&self, text: &str, start: usize) -> Result<u32, CronError> {
        let span = start..start + text.len();
        if let Some(value) = number(text) {
            if (self.low..=self.high).contains(&value) {
                return Ok(value);
            }
            return Err(self.error(
                format!("`{text}` is out of range"),
                Some(format!(
                    "the {} is {} to {}",
                    self.name, self.low, self.high
                )),
                span,
            ));
        }
        let named = self.names.iter().zip(self.first_named()..);
        let mut known = named
            .clone()
            .filter(|(name, _)| name.eq_ignore_ascii_case(text));
        if let Some((_, value)) = known.next() {
            return Ok(value);
        }
        let lower = text.to_ascii_lowercase();
        let hint = if let Some((name, _)) = named
            .clone()
            .find(|(name, _)| lower.len() > 3 && lower.starts_with(**name))
        {
            Some(format!("names have three letters: `{name}`"))
        } else if text.contains(['L', 'W', '#', '?']) {
            Some("`L`, `W`, `#` and `?` are not part of crontab(5)".to_owned())
        } else {
            None
        };
        let message = if text.is_empty() {
            "a value is missing".to_owned()
        } else {
            format!("`{text}` is no {}", self.name)
        };
        Err(self.error(message, hint, span))
    }

    fn first_named(&self) -> u32 {
        self.low
    }

    fn error(&self, message: String, hint: Option<String>, span: Range<usize>) -> CronError {
        CronError {
            message: format!("in the {} field: {message}", self.name),
            hint,
            span,
        }
    }
}

fn number(text: &str) -> Option<u32> {
    if text.is_empty() || text.len() > 9 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}
