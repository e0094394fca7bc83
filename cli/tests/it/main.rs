//! The real binary: by its arguments and files, and typed at in a terminal.

#![forbid(unsafe_code)]

mod support;

mod commands;
mod terminal;
