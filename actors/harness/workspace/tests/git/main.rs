//! The workspace against real git and real repositories, in temporary folders.

#![expect(clippy::unwrap_used, reason = "tests")]

mod checkout;
mod crash;
mod deliver;
mod fetch;
mod hostile;
mod kinds;
mod seed;
mod snapshot;
mod support;
