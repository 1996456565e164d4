//! The wall clock as a trait. The only implementation that reads the real one is in the engine.

use std::{future::Future, pin::Pin};

use jiff::Timestamp;

/// Tells the time and wakes at an instant of it.
pub trait Clock: Send + Sync + 'static {
    /// The wall clock, in UTC.
    fn now(&self) -> Timestamp;

    /// Resolves once the wall clock shows `at` or later, and also when somebody sets the clock: the
    /// caller looks at [`Clock::now`] again. Never early without such a change.
    fn reached(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}
