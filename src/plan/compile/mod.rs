//! DataFusion's expressions: what they read, what a rewrite may do with them, and the programs for a device that they are compiled into.

pub(crate) mod calls;
pub(crate) mod choices;
pub(crate) mod comparison;
pub(crate) mod compiler;
pub(crate) mod constants;
pub(crate) mod date_parts;
pub(crate) mod decimals;
pub(crate) mod distinct;
pub(crate) mod early_value;
pub(crate) mod fallible;
pub(crate) mod float_bits;
pub(crate) mod key_types;
pub(crate) mod operators;
pub(crate) mod pair_program;
pub(crate) mod permitted;
pub(crate) mod read_again;
pub(crate) mod row_program;
pub(crate) mod sides;
#[cfg(test)]
pub(crate) mod test_expressions;
pub(crate) mod text;
pub(crate) mod text_case;
pub(crate) mod text_tests;
