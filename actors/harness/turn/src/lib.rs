//! The turn loop of the built-in agent: context, tools and model calls.
