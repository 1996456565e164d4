//! The integration target.
