//! Model adapters: the wire formats and the client that pays before it calls.
