//! Compiled expressions, string predicates and filters on a GPU (`kernels/expr`).

pub(crate) mod filter;
pub(crate) mod primitives;
pub(crate) mod row_program;
pub(crate) mod shingles;
pub(crate) mod string_predicate;
