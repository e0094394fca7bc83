//! The work that a device is told to do, as plain data without DataFusion's types.

pub(crate) mod comparison;
pub(crate) mod fold;
pub(crate) mod group_program;
pub(crate) mod limits;
pub(crate) mod pair_program;
pub(crate) mod partners;
pub(crate) mod physical_type;
pub(crate) mod possible;
pub(crate) mod program;
pub(crate) mod row_program;
pub(crate) mod set_predicate;
pub(crate) mod side;
pub(crate) mod strategies;
pub(crate) mod text_predicate;
