//! Asks a person and waits.
