//! Private clones, snapshots, checkouts and delivery.
