//! Time zones by their IANA names, and the stretches of constant offset they are made of.
//!
//! The rules are those of the machine's zone files, as for its cron and its `date`; where it has none,
//! those compiled into the program (see `docs/decisions/cron.md`).

use jiff::{Timestamp, tz::TimeZone};

/// A name that is no time zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ZoneError {
    /// What is wrong.
    pub message: String,
    /// What to write instead, where that can be guessed.
    pub hint: Option<String>,
}

/// The time zone of an IANA name such as `Europe/Paris` or `UTC`, in its one spelling.
///
/// # Errors
/// [`ZoneError`] where there is no such zone, with the likely name.
pub fn zone(name: &str) -> Result<TimeZone, ZoneError> {
    // The lookup ignores case; the file has one spelling, so that hashes and screens agree.
    match jiff::tz::db().get(name) {
        Ok(found) if found.iana_name() == Some(name) => Ok(found),
        Ok(found) => Err(unknown(name, found.iana_name().map(str::to_owned))),
        Err(_) => Err(unknown(name, likely(name))),
    }
}

fn unknown(name: &str, likely: Option<String>) -> ZoneError {
    ZoneError {
        message: format!("unknown time zone `{name}`"),
        hint: Some(match likely {
            Some(likely) => format!("did you mean `{likely}`?"),
            None => "use an IANA name such as `Europe/Paris` or `UTC`".to_owned(),
        }),
    }
}

/// The machine's own time zone by name (from `TZ` or `/etc/localtime`); UTC where it names none.
pub fn local() -> TimeZone {
    TimeZone::try_system()
        .ok()
        .and_then(|system| zone(system.iana_name()?).ok())
        .unwrap_or(TimeZone::UTC)
}

fn likely(name: &str) -> Option<String> {
    let folded = name.to_ascii_lowercase().replace(' ', "_");
    let mut best: Option<(f64, String)> = None;
    for known in jiff::tz::db().available() {
        let known = known.as_str();
        let lower = known.to_ascii_lowercase();
        let city = lower.rsplit('/').next().unwrap_or(&lower);
        // A bare city name is the commonest slip: `Paris` for `Europe/Paris`.
        let near =
            strsim::jaro_winkler(&lower, &folded).max(if city == folded { 1.0 } else { 0.0 });
        if near > 0.85 && best.as_ref().is_none_or(|(score, _)| near > *score) {
            best = Some((near, known.to_owned()));
        }
    }
    best.map(|(_, known)| known)
}

/// Debian's cron takes a change of the clock below this many seconds for daylight saving, and any
/// other for a correction, after which the new time counts at once (`man 8 cron`).
const CORRECTION: i64 = 3 * 3600;

/// A stretch of time with one offset from UTC. Instants are seconds since 1970; local times are the
/// same plus the offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// Its first second; `None` where it has no beginning.
    pub(crate) start: Option<i64>,
    /// The second after its last; `None` where it has no end.
    pub(crate) end: Option<i64>,
    /// Seconds east of UTC.
    pub(crate) offset: i64,
    /// The first local second that no earlier stretch answers for. Before the first local second of
    /// the stretch where the clock was set forward (the skipped hour belongs to what follows it), after
    /// it where the clock was set back (the repeated hour belongs to its first round).
    pub(crate) owned: Option<i64>,
}

/// The stretch that holds second `at`.
pub(crate) fn stretch_at(zone: &TimeZone, at: i64) -> Stretch {
    let start = timestamp(at.saturating_add(1))
        .and_then(|after| zone.preceding(after).next())
        .map(|transition| floor_second(transition.timestamp()));
    stretch(zone, start, at)
}

/// The stretch that begins where `before` ends.
pub(crate) fn stretch_after(zone: &TimeZone, before: Stretch) -> Option<Stretch> {
    let start = before.end?;
    Some(stretch(zone, Some(start), start))
}

fn stretch(zone: &TimeZone, start: Option<i64>, inside: i64) -> Stretch {
    let offset = offset_at(zone, inside);
    let end = timestamp(inside)
        .and_then(|at| zone.following(at).next())
        .map(|transition| floor_second(transition.timestamp()));
    let owned = start.map(|start| {
        let before = offset_at(zone, start - 1);
        if (before - offset).abs() < CORRECTION {
            start + before
        } else {
            start + offset
        }
    });
    Stretch {
        start,
        end,
        offset,
        owned,
    }
}

fn offset_at(zone: &TimeZone, second: i64) -> i64 {
    timestamp(second).map_or(0, |at| i64::from(zone.to_offset(at).seconds()))
}

/// The instant of a second, where the calendar reaches that far.
pub(crate) fn timestamp(second: i64) -> Option<Timestamp> {
    Timestamp::from_second(second).ok()
}

/// The whole second an instant lies in.
pub(crate) fn floor_second(at: Timestamp) -> i64 {
    at.as_second() - i64::from(at.subsec_nanosecond() < 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in [
            "UTC",
            "Europe/Paris",
            "Australia/Lord_Howe",
            "America/Argentina/Buenos_Aires",
        ] {
            assert!(zone(good).is_ok(), "{good}");
        }
        for (bad, likely) in [
            ("Europe/Pariss", "`Europe/Paris`"),
            ("europe/paris", "`Europe/Paris`"),
            ("Paris", "`Europe/Paris`"),
            ("New York", "`America/New_York`"),
            ("", "IANA"),
            ("+02:00", "IANA"),
        ] {
            let error = zone(bad).expect_err(bad);
            let hint = error.hint.expect("a hint");
            assert!(hint.contains(likely), "{bad}: {hint}");
        }
    }

    #[test]
    fn seconds_round_down_before_1970() {
        let at: Timestamp = "1969-12-31T23:59:58.5Z".parse().expect("a timestamp");
        assert_eq!(floor_second(at), -2);
    }
}
