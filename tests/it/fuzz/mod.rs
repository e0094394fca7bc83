//! Random tables, conditions, join types, aggregates and options: forced and stock give the same rows.
//!
//! 200 cases, or as many as `PROPTEST_CASES` says; always the same ones, so that a failure can be reproduced.

mod aggregate;
mod cases;
mod evictions;
mod joins;
mod plans;
mod queries;
mod sets;
mod text;
