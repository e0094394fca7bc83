//! Compiled expressions and string predicates on the host.

pub(crate) mod decimals;
pub(crate) mod primitives;
pub(crate) mod row_program;
pub(crate) mod shingles;
pub(crate) mod string_predicate;
pub(crate) mod values;
