//! One run, from its firing to its end.

pub(crate) mod act;
pub(crate) mod actor;
pub(crate) mod judge;
pub(crate) mod next;
pub(crate) mod prompt;
pub(crate) mod work;
