//! The gate, the keeper process and the only process spawner.
//!
//! Every program ronde runs is started here, by a [`Spawner`], with a [`Permit`] that only the
//! [`gate`] makes. Between ronde and the program stands one [`keeper`] process, which confines the
//! program (Landlock, seccomp, limits), holds its time limit, and kills its whole tree when ronde
//! asks, when ronde dies, or when the program ends. This crate knows nothing of runs, attempts or
//! models, and decides nothing about what is worth running.

mod capture;
mod carve;
mod command;
mod confine;
pub mod doctor;
mod environment;
pub mod gate;
pub mod keeper;
mod pattern;
mod policy;
mod seccomp;
#[cfg(feature = "selfexec")]
mod selfexec;
mod shell;
mod spawn;
mod spec;

pub use capture::Captured;
pub use command::{Capture, Command, Stdin};
pub use environment::env_allow;
pub use gate::Permit;
pub use policy::{Limits, Policy};
#[cfg(feature = "selfexec")]
pub use selfexec::test_spawner;
pub use spawn::{Error, Finished, Running, Spawner, Stopper, Whole};
