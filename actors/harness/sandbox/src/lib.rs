//! The gate, the keeper process and the only process spawner.
