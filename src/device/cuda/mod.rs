//! An NVIDIA GPU as a device, through the driver API alone: a folder for each family of primitives, with the name of
//! its folder in `kernels/`.
//!
//! ```text
//! runtime/     driver, card, stream, memory, launches, staging through pinned memory
//! columns/     storage of columns; transfer, gather, concat, prefix sums, least and greatest values
//! rates/       the speed of the card and of its memory, measured once
//! keys/        order keys, group ids, tuples of words, sorting
//! theta/       ranges, zone maps, wavelet trees, brute force, pair programs, folds over ranges, cross products
//! equi/        equi-joins: key words, tables, partitions, indexes, single-pass joins
//! semi/        key bitmaps; semi joins of presorted sides
//! aggregate/   grouped aggregation: strategies, group ids, accumulators
//! expr/        row programs, string predicates, filters
//! codegen/     row programs as PTX, generated at run time
//! sets/        set joins: encoding, techniques, lists of matches
//! graph/       connected components
//! fallback.rs  work without a kernel, or on types that the GPU does not store: the host's primitive, on downloaded
//!              arguments
//! ```
//!
//! The work of one `CudaDevice` handle runs in order on one stream, so primitives do not wait for one another. They
//! wait only where the host needs a number. Errors of a kernel surface at the next wait.

#![allow(unsafe_code)]

pub(crate) mod aggregate;
pub(crate) mod codegen;
pub(crate) mod columns;
pub(crate) mod device;
pub(crate) mod equi;
pub(crate) mod expr;
pub(crate) mod fallback;
pub(crate) mod fast_paths;
pub(crate) mod graph;
pub(crate) mod keys;
pub(crate) mod rates;
pub(crate) mod runtime;
pub(crate) mod semi;
pub(crate) mod sets;
pub(crate) mod theta;

#[cfg(test)]
mod tests;
