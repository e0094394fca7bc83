//! A device: memory and primitives behind one trait object.
//!
//! Keys are order-preserving words, rows are `u32` ids inside a chunk (fewer than 2^32 - 1 rows), match counts are
//! `u64`. Nothing here depends on SQL or plans.

pub(crate) mod batches;
pub(crate) mod budget;
pub(crate) mod counters;
#[cfg(feature = "cuda")]
pub(crate) mod cuda;
pub(crate) mod data;
#[cfg(feature = "faults")]
pub(crate) mod faults;
#[cfg(not(feature = "faults"))]
#[path = "no_faults.rs"]
pub(crate) mod faults;
pub(crate) mod gpu_info;
pub(crate) mod host;
pub(crate) mod key_bitmap;
pub(crate) mod lane;
pub(crate) mod lazy_column;
pub(crate) mod machine_rates;
pub(crate) mod presorted;
pub(crate) mod primitives;
pub(crate) mod profile;
pub(crate) mod row_width;
pub(crate) mod set_profile;
pub(crate) mod threads;
pub(crate) mod trace;
#[cfg(feature = "tracing")]
pub(crate) mod tracing_spans;
#[cfg(not(feature = "tracing"))]
#[path = "no_tracing_spans.rs"]
pub(crate) mod tracing_spans;
pub(crate) mod wavelet;
