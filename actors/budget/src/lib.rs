//! Reserves and settles what model calls may spend: the prices are pure, the actor a shell that orders the
//! calls to a [`Ledger`]. It keeps no book, makes no model call and never gives a call out twice; the
//! ledger behind the port is the engine's.

mod actor;
mod price;

pub use actor::{Grant, Handle, Ledger, Refusal, Reserve, Want, spawn};
pub use price::{Rates, amount, fit};
