//! The ronde binary.
fn main() {}
