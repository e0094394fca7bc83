//! SQL functions that make sets of text: `tokens` and `shingles` give lists for the functions and joins of sets, `minhash`
//! makes a list of fixed length of a set. A batch of arguments enters (`arguments.rs`), a column of lists leaves.

pub(crate) mod arguments;
pub(crate) mod element_hashes;
pub(crate) mod minhash;
pub(crate) mod shingles;
pub(crate) mod signatures;
pub(crate) mod text_lists;
pub(crate) mod tokens;
pub(crate) mod windows;
