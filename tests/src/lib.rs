//! The test engine: a home of its own, a scripted model, a set clock.
