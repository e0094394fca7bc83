//! An NVIDIA GPU as a device, through the driver alone: a folder for each family of primitives, with the name of its folder in
//! `kernels/`.
//!
//! ```text
//! runtime/     driver, card, stream, memory, launches, staging through pinned memory
//! columns/     how columns are stored; transfer, gather, concat, prefix sums, least and greatest values
//! keys/        order keys, group ids, tuples of words, sorting
//! theta/       ranges, zone maps, wavelet trees, brute force, pair programs, folds over ranges, cross products
//! equi/        equi-joins: key words, tables, partitions, indexes, single-pass joins
//! semi/        key bitmaps; joins of presorted sides
//! aggregate/   grouped aggregation
//! expr/        row programs, string predicates, filters
//! codegen/     row programs as PTX, made at run time
//! sets/        set joins
//! fallback.rs  what has no kernel, or no type here: the host's primitive, on arguments that are downloaded
//! ```
//!
//! Work of one `CudaDevice` handle runs in order on one stream, so primitives need not wait for one another; they wait
//! only where the host needs a number. Errors of a kernel surface at the next such place.

#![allow(unsafe_code)]

pub(crate) mod aggregate;
pub(crate) mod codegen;
pub(crate) mod columns;
pub(crate) mod device;
pub(crate) mod equi;
pub(crate) mod expr;
pub(crate) mod fallback;
pub(crate) mod keys;
pub(crate) mod runtime;
pub(crate) mod semi;
pub(crate) mod sets;
pub(crate) mod theta;

#[cfg(test)]
mod tests;
