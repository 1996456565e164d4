//! The cases of `tests/cases/cron.json`: texts, zones and the instants a reference implementation of
//! Debian's rules gives for them, many around changes of the clock.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ronde_trigger::{Cron, Schedule, plan};
use serde::Deserialize;

/// Zones by the rules that were law when the cases were made. Morocco has changed its since, and a
/// machine may have either.
fn zone(name: &str) -> TimeZone {
    match name {
        "Africa/Casablanca" => {
            let rules = include_bytes!("cases/casablanca-2025b.tzif");
            TimeZone::tzif(name, rules).expect("a zone file")
        }
        _ => ronde_trigger::zone(name).expect("a zone"),
    }
}

#[derive(Deserialize)]
struct Case {
    cron: String,
    timezone: String,
    after: Timestamp,
    next: Option<Vec<Timestamp>>,
    #[serde(default)]
    error: bool,
}

#[test]
fn every_case_holds() {
    let cases: Vec<Case> =
        serde_json::from_str(include_str!("cases/cron.json")).expect("the cases are JSON");
    assert_eq!(cases.len(), 505);
    let mut wrong = Vec::new();
    for case in &cases {
        let zone = zone(&case.timezone);
        let cron = Cron::parse(&case.cron);
        let Some(next) = &case.next else {
            assert!(case.error);
            if cron.is_ok() {
                wrong.push(format!("{:?} was accepted", case.cron));
            }
            continue;
        };
        let cron = cron.unwrap_or_else(|error| panic!("{:?}: {error}", case.cron));
        let schedule = Schedule::Cron { cron, zone };
        let planned: Vec<Timestamp> = plan(&[(0, schedule.clone())], case.after, next.len())
            .into_iter()
            .map(|(at, _)| at)
            .collect();
        if planned != *next {
            wrong.push(format!(
                "{:?} in {} after {}:\n  want {next:?}\n  have {planned:?}",
                case.cron, case.timezone, case.after
            ));
        }
        if let Some(last) = next.last() {
            let count = schedule.count(case.after, *last);
            if count != next.len() as u64 || schedule.last(case.after, *last) != Some(*last) {
                wrong.push(format!(
                    "{:?} in {}: count {count}",
                    case.cron, case.timezone
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} cases:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
