//! The integration target: the real binary, real git, real processes.

mod api;
mod architecture;
mod examples;
mod input;
mod kill;
mod verbs;

use ronde_tests::Bench;

/// A bench for the binary under test.
fn bench() -> Bench {
    Bench::new(env!("CARGO_BIN_EXE_ronde"))
}
