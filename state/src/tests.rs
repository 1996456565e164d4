//! Tests that concern more than one file.

#![expect(clippy::unwrap_used, reason = "tests")]

mod decisions;
mod index;
mod journal;
mod local;
mod power;

mod samples;
mod sim;
