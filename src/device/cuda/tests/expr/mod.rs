//! Compiled expressions and string predicates.

pub(crate) mod codegen;
pub(crate) mod filter;
pub(crate) mod program_writer;
pub(crate) mod row_program;
pub(crate) mod shingles;
pub(crate) mod string_predicate;
