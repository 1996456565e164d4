//! Models as the built-in agent sees them: what is asked and answered, what a call may cost, and the
//! client that pays before it calls.
//!
//! The turn loop and the engine's wiring use it. It knows no run, no journal and no tool; who keeps
//! the money is behind [`Purse`], who answers behind [`Model`].

pub mod client;
pub mod estimate;
mod model;
mod price;
pub mod scripted;
pub mod wire;

pub use client::{Client, Grant, Paid, Purse, Refusal, Sent, Want};
pub use model::{CallPlace, ErrorKind, Model, ModelError};
pub use price::Prices;
