//! What the plans of small queries look like, and what `bowtie_explain` says of them.
//!
//! The expected texts stand in the tests. When a change of them is meant, `INSTA_UPDATE=always` and `cargo insta accept`
//! put the new ones there.

mod analyze;
mod decline;
mod nodes;
mod tree;
mod untouched;
