//! Judges a snapshot it did not make.
