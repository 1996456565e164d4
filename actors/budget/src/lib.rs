//! Reserves and settles what a run may spend.
