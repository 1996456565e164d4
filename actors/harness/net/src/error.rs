//! Why a request has no answer. A message names the path that was asked for, never its query, a header
//! or a body.

use std::{error::Error as _, path::PathBuf, time::Duration};

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The client cannot be made.
    #[error("cannot make an HTTP client: {reason}")]
    Client {
        /// Why.
        reason: String,
    },
    /// The socket's folder cannot be opened, or its name is too long.
    #[error("cannot use the socket {}: {source}", socket.display())]
    Socket {
        /// The socket.
        socket: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The request itself cannot be made: its path, a header or its body.
    #[error("cannot ask for {path}: {reason}")]
    Request {
        /// What was asked for, without its query.
        path: String,
        /// Why.
        reason: String,
    },
    /// Nobody answers.
    #[error("cannot reach the server for {path}: {reason}")]
    Unreachable {
        /// What was asked for, without its query.
        path: String,
        /// Why.
        reason: String,
    },
    /// The answer was not whole in time.
    #[error("no answer to {path} within {} s", limit.as_secs())]
    TimedOut {
        /// What was asked for, without its query.
        path: String,
        /// The time limit.
        limit: Duration,
    },
    /// The server says no.
    #[error("the server answers {path} with status {status}")]
    Status {
        /// What was asked for, without its query.
        path: String,
        /// The status, anything but 2xx.
        status: u16,
        /// What the server says, cut at the largest answer there may be.
        body: Vec<u8>,
    },
    /// The answer, or one event of it, is larger than it may be.
    #[error("the answer to {path} is larger than {limit} bytes")]
    TooLarge {
        /// What was asked for, without its query.
        path: String,
        /// The largest size, in bytes.
        limit: usize,
    },
    /// The answer broke off, or is not what was expected.
    #[error("the answer to {path} cannot be used: {reason}")]
    Body {
        /// What was asked for, without its query.
        path: String,
        /// Why.
        reason: String,
    },
}

/// A path as messages show it: without the query, which may hold anything.
pub(crate) fn shown(path: &str) -> String {
    path.split(['?', '#']).next().unwrap_or_default().to_owned()
}

/// A failed exchange. `answered` says that the head of an answer had come.
pub(crate) fn failed(path: &str, error: reqwest::Error, limit: Duration, answered: bool) -> Error {
    let path = shown(path);
    if error.is_timeout() && !error.is_connect() {
        return Error::TimedOut { path, limit };
    }
    let unreachable = !answered && !error.is_builder();
    let builder = error.is_builder();
    // The URL would bring the query with it.
    let reason = innermost(&error.without_url());
    if builder {
        Error::Request { path, reason }
    } else if unreachable {
        Error::Unreachable { path, reason }
    } else {
        Error::Body { path, reason }
    }
}

/// The words of the last cause: what the operating system said, mostly.
pub(crate) fn innermost(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    text
}
