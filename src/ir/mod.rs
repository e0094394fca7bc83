//! What a device is told, as plain data without a type of DataFusion's.

pub(crate) mod comparison;
pub(crate) mod fold;
pub(crate) mod limits;
pub(crate) mod pair_program;
pub(crate) mod row_program;
pub(crate) mod set_predicate;
pub(crate) mod side;
pub(crate) mod strategies;
pub(crate) mod text_predicate;
