//! Tests that concern more than one file.

#![expect(clippy::unwrap_used, reason = "tests")]

mod journal;
mod local;
mod power;
mod sim;
