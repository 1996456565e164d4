//! The loop file: raw shape, checked shape, and every error at once.
//!
//! [`parse`] turns the bytes of a loop file into a [`Definition`], [`parse_config`] those of a project's
//! `config.toml` into a [`Config`]. Both work in two stages: first the text is read against one table of
//! keys (types, unknown keys, keys of parts not built yet), then what was read is checked as a whole and
//! resolved with defaults. Errors of both stages come together, each with its place in the file.
//!
//! Nothing here touches a disk or a clock: the caller reads the files, and brings what it knows about
//! cron texts, time zones, permission rules and patterns of paths as [`Validators`].

mod check;
pub mod config;
pub mod definition;
pub mod diagnostic;
pub mod goal;
mod keys;
mod read;
mod schema;
pub mod template;
mod units;
pub mod validators;

pub use check::parse;
pub use config::{Config, parse_config};
pub use definition::{
    Agent, DayLimits, Definition, Deliver, Goal, HandoffSpec, Isolation, Limits, Overlap, Trigger,
    TriggerSpec, WorkerSpec, WorkspaceSpec,
};
pub use diagnostic::{Diagnostic, Errors};
pub use schema::{config_schema, schema};
pub use validators::{Lenient, Refusal, Validators};
