//! Journals, folds, the index, artefacts and the store: everything durable. A journal is the truth, a
//! fold is what it means, and all else can be made again from them. It knows the shared vocabulary and
//! no actor, reads no clock of its own, and decides nothing about what a loop does next.

mod artefacts;
mod backend;
mod book;
mod crash;
mod decide;
mod files;
mod index;
mod line;
mod pairs;
mod reader;
mod runfiles;
mod runs;
mod segments;
mod slots;
mod snapshot;

#[cfg(test)]
mod tests;

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod disk;
pub mod event;
pub mod home;
pub mod inbox;
pub mod journal;
pub mod leases;
pub mod ledger;
pub mod local;
pub mod memory;
pub mod queue;
pub mod run;
pub mod store;
