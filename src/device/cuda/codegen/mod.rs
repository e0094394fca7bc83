//! Row programs as kernels of their own: PTX generated from a program at run time, which the driver compiles.

pub(crate) mod arithmetic;
pub(crate) mod casts;
pub(crate) mod columns;
pub(crate) mod dates;
pub(crate) mod decimals;
pub(crate) mod decode;
pub(crate) mod filter;
pub(crate) mod groups;
pub(crate) mod kernel;
pub(crate) mod launch;
pub(crate) mod layout;
pub(crate) mod logic;
pub(crate) mod ptx;
pub(crate) mod registers;
pub(crate) mod row_masks;
pub(crate) mod shape;
pub(crate) mod translate;
