//! Kernels of [`GroupProgram`](crate::ir::group_program::GroupProgram)s: filters, expressions and an aggregation of few groups in one pass. Host
//! counterpart: `device/host/aggregate/group_program.rs`.
//!
//! ```text
//! kernel.rs     a loop over tiles: load columns, run the program, add each row that passes to the words of its group
//! words.rs      words of groups in shared memory: each thread's own, or each block's
//! flush.rs      at the end of a block, its words are merged into those of the card
//! ```

pub(crate) mod flush;
pub(crate) mod kernel;
pub(crate) mod words;
