//! One attempt: the built-in agent or an external command.
