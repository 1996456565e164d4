//! One attempt: the built-in agent, or an agent that is a program of its own.
//!
//! Each attempt is one actor. The run starts it with a [`Config`], and the end comes as an
//! [`AttemptEnd`](ronde_protocol::work::AttemptEnd), whatever happens inside: a panic ends this attempt
//! as unknown and nothing else. It never judges the result, writes no journal of its own and keeps
//! nothing for the next attempt.

mod actor;
mod built_in;
mod external;
mod lines;
mod preset;
mod request;

pub use actor::{Config, Error, Handle, spawn};
pub use request::{Agent, BuiltIn, QUESTION_FILE, Request, TimeLimit};
