//! Whole attempts with real processes: any command, the presets over a stand-in program that speaks
//! their protocol, and the built-in agent over the scripted model.

mod built_in;
mod command;
mod presets;
mod support;
