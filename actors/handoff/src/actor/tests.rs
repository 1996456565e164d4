//! The actor over an inbox in memory, a clock set by hand, and ports that break.

use std::{
    pin::Pin,
    sync::{Mutex, MutexGuard},
};

use ronde_protocol::{LoopName, ProjectId};
use tokio::sync::{mpsc, watch};

use super::*;

/// Minute `minute` of the day of these tests.
pub(crate) fn at(minute: u32) -> Timestamp {
    let text = format!("2026-12-01T{:02}:{:02}:00Z", minute / 60, minute % 60);
    text.parse().expect("a timestamp")
}

/// An open item, asked at minute 0.
pub(crate) fn entry(number: ItemNumber, reason: Reason, expires: Option<u32>) -> Entry {
    let item = Item {
        key: format!("green-0badcafe/{number}"),
        run: "green-0badcafe".into(),
        project: ProjectId::new("0123456789ab"),
        loop_name: LoopName::new("green").expect("a good name"),
        reason,
        title: "a title".into(),
        evidence: String::new(),
        branch: None,
        tried: vec![],
        action: None,
        opened: at(0),
        expires: expires.map(at),
        blocks: true,
    };
    Entry { number, item, answer: None, answered: None }
}
