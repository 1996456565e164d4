//! Laws of schedules, against slow but simple readings of the same rules: a scan over every minute.

use std::{collections::BTreeSet, time::Duration};

use jiff::{
    SignedDuration, Timestamp,
    civil::DateTime,
    tz::{AmbiguousOffset, TimeZone},
};
use proptest::prelude::*;
use ronde_trigger::{Cron, Due, Schedule, Skip, due, jitter, plan, zone};

/// One field: its text and the numbers it means.
#[derive(Debug, Clone)]
struct Field {
    text: String,
    set: BTreeSet<i8>,
}

impl Field {
    fn starred(&self) -> bool {
        self.text.starts_with('*')
    }
}

fn field(low: i8, high: i8) -> impl Strategy<Value = Field> {
    let star = (1..=high).prop_map(move |step| Field {
        text: if step == 1 {
            "*".to_owned()
        } else {
            format!("*/{step}")
        },
        set: (low..=high)
            .step_by(usize::try_from(step).expect("at least 1"))
            .collect(),
    });
    let listed = prop::collection::vec((low..=high, low..=high), 1..3).prop_map(|ranges| {
        let mut texts = Vec::new();
        let mut set = BTreeSet::new();
        for (a, b) in ranges {
            let (first, last) = (a.min(b), a.max(b));
            texts.push(if first == last {
                format!("{first}")
            } else {
                format!("{first}-{last}")
            });
            set.extend(first..=last);
        }
        Field {
            text: texts.join(","),
            set,
        }
    });
    prop_oneof![2 => star, 3 => listed]
}

#[derive(Debug, Clone)]
struct Fields {
    minute: Field,
    hour: Field,
    day: Field,
    month: Field,
    weekday: Field,
}

impl Fields {
    fn text(&self) -> String {
        let Self {
            minute,
            hour,
            day,
            month,
            weekday,
        } = self;
        format!(
            "{} {} {} {} {}",
            minute.text, hour.text, day.text, month.text, weekday.text
        )
    }

    fn holds(&self, at: DateTime) -> bool {
        let weekday = at.weekday().to_sunday_zero_offset();
        let by_day = self.day.set.contains(&at.day());
        let by_weekday = self.weekday.set.contains(&weekday);
        let day = if self.day.starred() || self.weekday.starred() {
            by_day && by_weekday
        } else {
            by_day || by_weekday
        };
        day && self.month.set.contains(&at.month())
            && self.hour.set.contains(&at.hour())
            && self.minute.set.contains(&at.minute())
    }

    /// Every instant after `from` and not after `until`, by looking at each minute.
    fn scan(&self, zone: &TimeZone, from: Timestamp, until: Timestamp) -> Vec<Timestamp> {
        let minute = SignedDuration::from_mins(1);
        let mut found = BTreeSet::new();
        if self.minute.starred() || self.hour.starred() {
            let mut at = from;
            while at <= until {
                if self.holds(zone.to_datetime(at)) {
                    found.insert(at);
                }
                at += minute;
            }
        } else {
            let day = SignedDuration::from_hours(24);
            let mut wall = zone.to_datetime(from - day);
            let end = zone.to_datetime(until + day);
            while wall <= end {
                if self.holds(wall) {
                    let read = zone.to_ambiguous_timestamp(wall);
                    found.insert(match read.offset() {
                        // Right after the gap: where the offset changes.
                        AmbiguousOffset::Gap { before, after } => {
                            let early = after.to_timestamp(wall).expect("in range");
                            let late = before.to_timestamp(wall).expect("in range");
                            let change = zone.following(early).next().expect("a change");
                            assert!(change.timestamp() <= late);
                            change.timestamp()
                        }
                        _ => read.compatible().expect("in range"),
                    });
                }
                wall = wall.checked_add(minute).expect("in range");
            }
        }
        found
            .into_iter()
            .filter(|at| *at > from && *at <= until)
            .collect()
    }
}

fn fields() -> impl Strategy<Value = Fields> {
    (
        field(0, 59),
        field(0, 23),
        field(1, 31),
        field(1, 12),
        field(0, 6),
    )
        .prop_map(|(minute, hour, day, month, weekday)| Fields {
            minute,
            hour,
            day,
            month,
            weekday,
        })
}

/// Zones with their changes of the clock, each with the first day of a week around one.
const WEEKS: [(&str, &str); 10] = [
    ("UTC", "2026-03-25T00:00:00Z"),
    ("Europe/Paris", "2026-03-26T00:00:00Z"),
    ("Europe/Paris", "2026-10-22T00:00:00Z"),
    ("America/New_York", "2026-03-05T00:00:00Z"),
    ("America/New_York", "2026-10-29T00:00:00Z"),
    ("Australia/Lord_Howe", "2026-04-02T00:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-01T00:00:00Z"),
    ("America/Sao_Paulo", "2018-11-01T00:00:00Z"),
    ("Asia/Tehran", "2022-03-19T00:00:00Z"),
    ("Asia/Kolkata", "2026-03-25T00:00:00Z"),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_week_is_what_a_scan_of_its_minutes_finds(
        mut fields in fields(),
        (name, start) in prop::sample::select(WEEKS.to_vec()),
        skip in 0..3000_i64,
    ) {
        // Months would leave most weeks empty; the half hour of Lord Howe has a rule of its own.
        fields.month = Field { text: "*".to_owned(), set: (1..=12).collect() };
        if name.contains("Howe") && fields.minute.starred() {
            fields.hour = Field { text: "*".to_owned(), set: (0..24).collect() };
        }
        let zone = zone(name).expect("a zone");
        let start: Timestamp = start.parse().expect("an instant");
        let from = start + SignedDuration::from_mins(skip);
        let until = start + SignedDuration::from_hours(7 * 24);
        let cron = Cron::parse(&fields.text()).expect("a cron text");
        let want = fields.scan(&zone, from, until);
        let mut have = Vec::new();
        let mut at = from;
        while let Some(next) = cron.next(&zone, at).filter(|next| *next <= until) {
            prop_assert!(next > at);
            have.push(next);
            at = next;
        }
        prop_assert_eq!(&have, &want, "{} in {} from {}", fields.text(), name, from);
        prop_assert_eq!(cron.count(&zone, from, until), want.len() as u64);
        prop_assert_eq!(cron.last(&zone, from, until), want.last().copied());
    }

    #[test]
    fn next_is_the_same_from_anywhere_before_it(fields in fields(), part in 0.0..1.0_f64, seconds in 0..8_000_000_000_i64) {
        let zone = zone("Europe/Paris").expect("a zone");
        let cron = Cron::parse(&fields.text()).expect("a cron text");
        let after = Timestamp::from_second(seconds).expect("in range");
        if let Some(next) = cron.next(&zone, after) {
            prop_assert!(next > after);
            let between = after.as_second() + ((next.as_second() - after.as_second()) as f64 * part) as i64;
            let between = Timestamp::from_second(between).expect("in range").min(next - SignedDuration::from_nanos(1));
            prop_assert_eq!(cron.next(&zone, between), Some(next));
            prop_assert_eq!(cron.count(&zone, after, next), 1);
            prop_assert_eq!(cron.last(&zone, after, next), Some(next));
        }
    }

    #[test]
    fn every_instant_is_accounted_for_once(
        rule in 0..4usize,
        spread in 0..7200_u64,
        window in 1..400_000_u64,
        jumps in prop::collection::vec(-200_000..400_000_i64, 1..30),
    ) {
        let start: Timestamp = "2026-03-27T10:00:00Z".parse().expect("an instant");
        let paris = |text: &str| Schedule::Cron {
            cron: Cron::parse(text).expect("a cron text"),
            zone: zone("Europe/Paris").expect("a zone"),
        };
        let schedule = match rule {
            0 => paris("*/7 * * * *"),
            1 => paris("30 2 * * *"),
            2 => paris("15 */5 * * 1-5"),
            _ => Schedule::Every { period: Duration::from_millis(1_700_500), anchor: start },
        };
        let (spread, window) = (Duration::from_secs(spread), Duration::from_secs(window));
        let (mut now, mut highest, mut watermark) = (start, start, start);
        let (mut fired, mut skipped) = (Vec::new(), 0);
        for jump in jumps {
            now += SignedDuration::from_secs(jump);
            highest = highest.max(now);
            let told: Due = due(&schedule, spread, watermark, now, window);
            prop_assert!(told.watermark >= watermark);
            if let Some(fire) = told.fire {
                prop_assert!(fire > watermark && fire <= told.watermark);
                let came_due = fire + SignedDuration::try_from(spread).expect("short");
                prop_assert!(came_due <= now && now.duration_since(came_due) <= SignedDuration::try_from(window).expect("short"));
                fired.push(fire);
            }
            for row in &told.skipped {
                prop_assert!(row.first <= row.last && row.first > watermark && row.last <= told.watermark);
                prop_assert_eq!(row.count == 1, row.first == row.last);
                if row.why == Skip::Superseded {
                    prop_assert!(told.fire.is_some_and(|fire| row.last < fire));
                }
                skipped += row.count;
            }
            if let Some(next) = told.next {
                prop_assert!(next > now || told.watermark == watermark);
            }
            watermark = told.watermark;
        }
        let mut unique = fired.clone();
        unique.dedup();
        prop_assert_eq!(&unique, &fired, "in order, none twice");
        prop_assert_eq!(schedule.count(start, watermark), fired.len() as u64 + skipped);
        let reached = highest - SignedDuration::try_from(spread).expect("short");
        prop_assert_eq!(watermark, reached.max(start));
    }

    #[test]
    fn any_text_is_read_or_refused_at_a_place(text in "[-0-9*/,a-zA-Z@ #?é\t]{0,20}") {
        if let Err(error) = Cron::parse(&text) {
            prop_assert!(text.get(error.span.clone()).is_some(), "{error:?}");
        }
    }

    #[test]
    fn jitter_is_stable_and_below_its_limit(seed in ".*", most in 0..10_000_000_u64) {
        let most = Duration::from_millis(most);
        let offset = jitter(&seed, most);
        prop_assert!(offset < most || offset.is_zero());
        prop_assert_eq!(offset, jitter(&seed, most));
    }
}

fn at(text: &str) -> Timestamp {
    text.parse().expect("an instant")
}

fn cron(text: &str, zone_name: &str) -> Schedule {
    Schedule::Cron {
        cron: Cron::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")),
        zone: zone(zone_name).expect("a zone"),
    }
}

#[test]
fn what_never_comes_is_known() {
    for text in ["0 0 31 4 *", "0 0 30 2 *", "0 0 31 2,4,6,9,11 */7"] {
        assert_eq!(
            cron(text, "Europe/Paris").next(at("2026-01-01T00:00:00Z")),
            None,
            "{text}"
        );
    }
    // A leap day that is a Monday, over the year 2100.
    let leap = cron("0 0 29 2 */6,1", "UTC");
    assert!(leap.next(at("2096-03-01T00:00:00Z")).is_some());
    // Near the end of the calendar nothing overflows.
    assert_eq!(leap.next(Timestamp::MAX), None);
    assert!(
        cron("* * * * *", "Europe/Paris")
            .next(Timestamp::MIN)
            .is_some()
    );
}

#[test]
fn years_of_seconds_are_counted_without_walking_them() {
    let seconds = cron("* * * * * *", "Europe/Paris");
    let (from, until) = (at("2000-01-01T00:00:00Z"), at("2026-01-01T00:00:00Z"));
    let told = due(
        &seconds,
        Duration::ZERO,
        from,
        until,
        Duration::from_secs(60),
    );
    assert_eq!(told.fire, Some(until));
    let counts: Vec<(Skip, u64)> = told
        .skipped
        .iter()
        .map(|row| (row.why, row.count))
        .collect();
    let all = u64::try_from(until.as_second() - from.as_second()).expect("forwards");
    assert_eq!(counts, [(Skip::Missed, all - 61), (Skip::Superseded, 60)]);
}

#[test]
fn what_a_reading_of_the_clock_means() {
    let hourly = cron("0 * * * *", "UTC");
    let hours = |n: u64| Duration::from_secs(n * 3600);
    let ten = at("2026-01-01T10:00:00Z");
    // Nothing yet.
    let told = due(
        &hourly,
        Duration::ZERO,
        ten,
        at("2026-01-01T10:59:59Z"),
        hours(2),
    );
    assert_eq!(
        (told.fire, told.next),
        (None, Some(at("2026-01-01T11:00:00Z")))
    );
    // On time.
    let told = due(
        &hourly,
        Duration::ZERO,
        ten,
        at("2026-01-01T11:00:00Z"),
        hours(2),
    );
    assert_eq!(told.fire, Some(at("2026-01-01T11:00:00Z")));
    assert_eq!(told.skipped, []);
    assert_eq!(told.next, Some(at("2026-01-01T12:00:00Z")));
    // After a sleep: the latest starts, the window holds both its ends, the rest was missed.
    let told = due(
        &hourly,
        Duration::ZERO,
        ten,
        at("2026-01-01T15:00:00Z"),
        hours(2),
    );
    assert_eq!(told.fire, Some(at("2026-01-01T15:00:00Z")));
    let rows: Vec<_> = told
        .skipped
        .iter()
        .map(|r| (r.why, r.first, r.last, r.count))
        .collect();
    assert_eq!(
        rows,
        [
            (
                Skip::Missed,
                at("2026-01-01T11:00:00Z"),
                at("2026-01-01T12:00:00Z"),
                2
            ),
            (
                Skip::Superseded,
                at("2026-01-01T13:00:00Z"),
                at("2026-01-01T14:00:00Z"),
                2
            ),
        ]
    );
    // Too late for all of them.
    let daily = cron("0 11 * * *", "UTC");
    let told = due(
        &daily,
        Duration::ZERO,
        ten,
        at("2026-01-01T15:00:00Z"),
        hours(2),
    );
    assert_eq!((told.fire, told.skipped.len()), (None, 1));
    // The clock was set back: nothing, and the watermark stays.
    let told = due(
        &hourly,
        Duration::ZERO,
        ten,
        at("2025-12-31T00:00:00Z"),
        hours(2),
    );
    assert_eq!(
        (told.fire, told.watermark, told.skipped.len()),
        (None, ten, 0)
    );
    assert_eq!(told.next, Some(at("2026-01-01T11:00:00Z")));
    // With jitter the slot keeps its own instant, and comes due later.
    let late = Duration::from_secs(600);
    let told = due(&hourly, late, ten, at("2026-01-01T11:09:59Z"), hours(2));
    assert_eq!(
        (told.fire, told.next),
        (None, Some(at("2026-01-01T11:10:00Z")))
    );
    let told = due(&hourly, late, ten, at("2026-01-01T11:10:00Z"), hours(2));
    assert_eq!(told.fire, Some(at("2026-01-01T11:00:00Z")));
    assert_eq!(told.next, Some(at("2026-01-01T12:10:00Z")));
}

#[test]
fn an_interval_begins_after_its_anchor() {
    let anchor = at("2026-01-01T10:00:00.5Z");
    let every = Schedule::Every {
        period: Duration::from_secs(1800),
        anchor,
    };
    assert_eq!(
        every.next(at("1999-01-01T00:00:00Z")),
        Some(at("2026-01-01T10:30:00.5Z"))
    );
    assert_eq!(
        every.next(at("2026-01-01T10:30:00.5Z")),
        Some(at("2026-01-01T11:00:00.5Z"))
    );
    assert_eq!(every.count(anchor, at("2026-01-01T11:00:00.5Z")), 2);
    let never = Schedule::Every {
        period: Duration::ZERO,
        anchor,
    };
    assert_eq!(
        (never.next(anchor), never.count(anchor, Timestamp::MAX)),
        (None, 0)
    );
}

#[test]
fn a_plan_merges_schedules() {
    let schedules = [
        (3, cron("0 */2 * * *", "UTC")),
        (7, cron("0 3,4 * * *", "UTC")),
    ];
    let from = at("2026-01-01T02:00:00Z");
    let plan = plan(&schedules, from, 3);
    assert_eq!(
        plan,
        [
            (at("2026-01-01T03:00:00Z"), 7),
            (at("2026-01-01T04:00:00Z"), 3),
            (at("2026-01-01T04:00:00Z"), 7),
        ]
    );
    assert!(ronde_trigger::plan(&[], from, 3).is_empty());
}

#[test]
fn texts_and_what_they_are_short_for() {
    for (short, long) in [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 7"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 jan *"),
        ("  5/20\t* * * MON-fri ", "5,25,45 * * * 1-5"),
        ("0 5 4 * * *", "5 4 * * *"),
        ("*/90 * * * *", "0/60 * * * *"),
    ] {
        let from = at("2026-01-01T00:00:01Z");
        let count = 20;
        let instants = |text: &str| plan(&[(0, cron(text, "Europe/Paris"))], from, count);
        assert_eq!(instants(short), instants(long), "{short}");
    }
    // Both forms name their seconds.
    let halves = plan(
        &[(0, cron("*/30 0 0 * * *", "UTC"))],
        at("2026-01-01T12:00:00Z"),
        2,
    );
    assert_eq!(halves[1].0, at("2026-01-02T00:00:30Z"));
}

#[test]
fn errors_say_what_and_where() {
    let mut shown = String::new();
    for text in [
        "",
        "  ",
        "* * * *",
        "* * * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "* * * * fri-sun",
        "50-10 * * * *",
        "* * * * sun-",
        "a * * * *",
        "* * * january *",
        "* * L * *",
        "* * * * 5#3",
        "*/0 * * * *",
        "*/x * * * *",
        "1,,2 * * * *",
        "-5 * * * *",
        "* * * mon *",
        "@reboot",
        "@dayly",
        "@every 5m",
        "é * * * *",
        "+1 * * * *",
        "* * ? * *",
    ] {
        let error = Cron::parse(text).expect_err(text);
        let hint = error.hint.as_deref().unwrap_or("-");
        shown += &format!(
            "{text:?} {:?}\n  {error}\n  {hint}\n",
            &text[error.span.clone()]
        );
    }
    insta::assert_snapshot!(shown);
}
