//! What is written to the journals, for ever.
//!
//! Two vocabularies: [`RunEvent`] in a run's own journal and [`HomeEvent`] in the home journal. A shape
//! that was released is never changed but by adding a field with a default; a new meaning is a new
//! variant. Neither enum is what screens see: that projection is the engine's.

mod home;
mod run;

pub use home::{HomeEvent, QueueItem, Scope, ScopeLimit};
pub use run::{RunEvent, Step, WakeReason};

/// The version written into every record. A program refuses records with a higher one.
pub const VERSION: u16 = 1;
