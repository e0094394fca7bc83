//! The plans of small queries, and what `bowtie_explain` shows of them.
//!
//! The expected texts are in the tests. When a change of them is meant, `INSTA_UPDATE=always` and `cargo insta accept`
//! put the new ones there.

mod analyze;
mod choose;
mod devices_function;
mod early;
mod explain_function;
mod failing_rules;
mod nodes;
mod partitions;
mod profile;
mod reasons;
mod rule;
#[cfg(feature = "tracing")]
mod spans;
mod stats_function;
mod strategy;
mod tree;
