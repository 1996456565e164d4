//! Asks a person and waits: the actor is a shell over an inbox behind a port, the rules say which answers
//! an item takes, `render` puts it in words. It keeps no item, runs no notification and wakes no run; the
//! engine does, behind the ports.

mod actor;
mod rule;
mod show;

pub use actor::{AnswerError, Config, Handle, Inbox, Outside, spawn};
pub use rule::{fits, takes};
pub use show::render;
