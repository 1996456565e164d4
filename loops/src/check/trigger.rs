//! What starts runs.

use std::time::Duration;

use ronde_protocol::Digest;

use super::Checker;
use crate::{
    definition::{Trigger, TriggerSpec},
    read::Raw,
};

const CATCH_UP: Duration = Duration::from_secs(12 * 3600);
/// The shortest interval.
const SHORTEST: Duration = Duration::from_secs(1);

impl Checker<'_> {
    pub(super) fn triggers(&mut self, raw: &Raw) -> Vec<Trigger> {
        let mut triggers: Vec<Trigger> = Vec::new();
        for (index, table) in raw.tables("trigger").iter().enumerate() {
            let Some(trigger) = self.trigger(index, table) else {
                continue;
            };
            if let Some(twin) = triggers.iter().find(|other| other.hash == trigger.hash) {
                let message = format!("trigger {} repeats trigger {}", index + 1, twin.index + 1);
                self.error(&table.span, message, "leave one of the two out".to_owned());
            }
            triggers.push(trigger);
        }
        triggers
    }

    fn trigger(&mut self, index: usize, raw: &Raw) -> Option<Trigger> {
        let spec = match (raw.mention("cron"), raw.mention("every")) {
            (Some(_), Some(every)) => {
                let every = every.clone();
                let hint = "write two `[[trigger]]`".to_owned();
                self.error(&every, "`cron` and `every` exclude each other", hint);
                None
            }
            (None, None) => {
                if !raw.mentions_unbuilt() {
                    let hint = "add `cron = \"0 2 * * *\"` or `every = \"30m\"`".to_owned();
                    self.error(
                        &raw.span,
                        "the trigger does not say when it comes due",
                        hint,
                    );
                }
                None
            }
            (Some(_), None) => self.cron(raw),
            (None, Some(_)) => self.every(raw),
        };
        let timezone = self.timezone(raw);
        let spec = spec?;
        let named = match &spec {
            TriggerSpec::Cron(text) => {
                format!("cron {text} {}", timezone.as_deref().unwrap_or("local"))
            }
            TriggerSpec::Every(period) => format!("every {}", period.as_millis()),
        };
        Some(Trigger {
            index,
            spec,
            timezone,
            hash: Digest::of(named),
            catch_up: raw.duration("catch_up").map_or(CATCH_UP, |at| at.value),
            jitter: raw.duration("jitter").map_or(Duration::ZERO, |at| at.value),
        })
    }

    fn cron(&mut self, raw: &Raw) -> Option<TriggerSpec> {
        let text = raw.text("cron")?;
        match self.validators.cron(&text.value) {
            Ok(()) => {
                let words: Vec<&str> = text.value.split_whitespace().collect();
                Some(TriggerSpec::Cron(words.join(" ")))
            }
            Err(refusal) => {
                self.refuse(&text, refusal);
                None
            }
        }
    }

    fn every(&mut self, raw: &Raw) -> Option<TriggerSpec> {
        let period = raw.duration("every")?;
        if period.value < SHORTEST {
            let hint = "the shortest interval is `1s`".to_owned();
            self.error(&period.span, "the interval is shorter than a second", hint);
            return None;
        }
        Some(TriggerSpec::Every(period.value))
    }

    fn timezone(&mut self, raw: &Raw) -> Option<String> {
        let span = raw.mention("timezone")?;
        if raw.mention("every").is_some() && raw.mention("cron").is_none() {
            let span = span.clone();
            self.error(
                &span,
                "`timezone` has no meaning with `every`",
                "leave it out".to_owned(),
            );
            return None;
        }
        let zone = raw.text("timezone")?;
        if let Err(refusal) = self.validators.zone(&zone.value) {
            self.refuse(&zone, refusal);
        }
        Some(zone.value)
    }
}
