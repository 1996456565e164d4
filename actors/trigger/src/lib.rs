//! When a run of a loop starts.
