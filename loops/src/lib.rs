//! The loop file: raw shape, checked shape, and every error at once.
