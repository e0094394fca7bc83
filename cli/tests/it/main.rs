//! The real binary: by its arguments and files, and typed at in a terminal.

mod support;

mod commands;
mod terminal;
