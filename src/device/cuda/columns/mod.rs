//! Columns on a GPU (`kernels/columns`): their storage, transfer, gather, concatenation, selection and prefix sums.

pub(crate) mod borrowed;
pub(crate) mod bytes;
pub(crate) mod cast_on_upload;
pub(crate) mod column;
pub(crate) mod concat;
pub(crate) mod downloaded;
pub(crate) mod fixed_width;
pub(crate) mod gather;
pub(crate) mod indirect;
pub(crate) mod layout;
pub(crate) mod lazy;
pub(crate) mod minmax;
pub(crate) mod primitives;
pub(crate) mod rows;
pub(crate) mod scan;
pub(crate) mod shingles;
pub(crate) mod storage;
pub(crate) mod to_host;
pub(crate) mod transfer;
pub(crate) mod var_width;
