//! The words the parts of ronde speak to each other: ids, amounts, requests and results.
//!
//! Everything here is plain data with serde. These types are also what the journals record, so their
//! serialised form is permanent: a field is only ever added, with a default. No part of this crate
//! reads a clock, a disk or a network, and none knows an actor.

pub mod access;
pub mod amount;
pub mod clock;
pub mod firing;
pub mod handoff;
pub mod id;
pub mod outcome;
pub mod verdict;
pub mod work;

pub use amount::{Amount, MicroUsd, Usage};
pub use clock::Clock;
pub use id::{
    ArtefactId, CallId, CheckName, CommitId, Digest, Epoch, InvalidName, ItemNumber, LoopName,
    ProjectId, RunId, Seq, SlotId, TreeId, WorkerName,
};
pub use jiff::Timestamp;
