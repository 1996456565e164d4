//! The one HTTP client: a [`Client`] with time and size limits that speaks over a Unix socket, and
//! server-sent events. It knows nothing of what is said, retries nothing and never looks at the proxies
//! of the environment.

mod client;
mod error;
mod socket;
pub mod sse;

pub use client::Client;
pub use error::Error;
pub use socket::short_socket;
pub use sse::Sse;
