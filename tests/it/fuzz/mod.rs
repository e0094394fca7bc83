//! Random tables, conditions, join types, aggregates, queries and options: forced and stock give the same rows.
//!
//! `BOWTIE_FUZZ_SEED` and `BOWTIE_FUZZ_CASES` say which cases, and how many. Where they are not set, each module has the same cases every time.

mod aggregate;
mod cases;
mod evictions;
mod joins;
mod plans;
mod queries;
mod sets;
mod text;
