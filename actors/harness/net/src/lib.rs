//! The one HTTP client: time limits, size limits and the Unix socket.
