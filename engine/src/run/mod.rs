//! One run, from its firing to its end.

pub(crate) mod act;
pub(crate) mod actor;
mod ask;
pub(crate) mod journal;
pub(crate) mod judge;
pub(crate) mod next;
mod notes;
pub(crate) mod prompt;
pub(crate) mod work;
