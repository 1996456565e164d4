//! Real programs behind real keepers; this binary is its own keeper.

mod confine;
mod process;
mod shells;
mod support;
