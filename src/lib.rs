//! ⋈ Range, interval and set joins, equi-joins and grouped aggregation for Apache DataFusion, on a *device*: the host's
//! own cores, or an NVIDIA GPU.
//!
//! Registered in a session, the crate replaces join and aggregate nodes of the physical plan. SQL and DataFrame calls
//! stay the same, and so do the rows.
//!
//! ```text
//!  SQL, DataFrame
//!       │  DataFusion parses, plans, optimises
//!       ▼
//!  plan/      recognise a node ──► spec/ (plain data: what to join or group, by what, which columns to return)
//!       │                    └──► Decline(reason): the node stays
//!       ▼
//!  exec/      Upload ─► Join, Aggregate, Filter, Project, Union on the device ─► Download      ExecutionPlan nodes
//!       │     host batches │  device batches                             │ host batches
//!       ▼                  ▼                                             ▼
//!  ops/       theta and set joins, each algorithm once, as a sequence of device primitives
//!       ▼
//!  runtime/   one for each process: devices, their memory, what sessions share of them
//!       ▼
//!  device/    a trait for each family of primitives ──► host/ (plain Rust, all cores)
//!                                                  └─► cuda/ (an NVIDIA GPU through its driver; kernels/)
//!  ground     ir/ (what a device is told), list_sets/, options, error
//! ```
//!
//! Imports go downwards only, and neither two files nor two folders of a layer import each other, directly or in a circle:
//! `scripts/module_graph.py` checks it.
//!
//! Start with [`BowtieContextExt`] or [`BowtieSessionExt`]; every option is a field of [`BowtieOptions`]. Comments cite papers by a letter and
//! a section: **\[T\]** Bellas and Gounaris, *GPU processing of theta-joins* (2017); **\[D\]** Diamos, Wu, Lele, Wang
//! and Yalamanchili, *Relational Algorithms for Multi-Bulk-Synchronous Processors* (2012); **\[W\]** Wu, Koutsoukos and
//! Alonso, *Efficiently Processing Joins and Grouped Aggregations on GPUs* (2025); **\[B\]** Bellas, *Advanced Joins on
//! GPUs* (a doctoral thesis, 2022). ARCHITECTURE.md has the full references.

#![deny(unsafe_code)]
#![warn(missing_docs)]
// What every device shares has parts that the CUDA backend alone uses, the store some that files alone need, and plans some that workers alone do. The feature `parquet` implies
// `datafusion`, without which nobody uses the devices but their tests.
#![cfg_attr(
    not(all(feature = "cuda", feature = "parquet", feature = "stages")),
    allow(dead_code)
)]

mod device;
mod error;
mod ir;
mod list_sets;

#[cfg(feature = "datafusion")]
mod clusters;
#[cfg(feature = "datafusion")]
mod compat;
#[cfg(feature = "datafusion")]
mod exec;
#[cfg(feature = "datafusion")]
mod functions;
#[cfg(feature = "datafusion")]
mod ops;
#[cfg(feature = "datafusion")]
mod options;
#[cfg(feature = "datafusion")]
mod plan;
#[cfg(feature = "measure")]
#[doc(hidden)]
pub mod rates;
#[cfg(feature = "datafusion")]
mod report;
#[cfg(feature = "datafusion")]
mod runtime;
#[cfg(feature = "datafusion")]
mod session;
#[cfg(feature = "datafusion")]
mod spec;
#[cfg(feature = "datafusion")]
mod store;

#[cfg(feature = "faults")]
#[doc(hidden)]
pub use device::faults::{Fault, Faults};
#[cfg(feature = "datafusion")]
pub use options::{
    BowtieOptions, BroadcastRows, Bytes, CacheSize, ChunkRows, DeviceChoice, EquiJoinStrategy,
    GroupStrategy, MaterializationChoice, MinSpeedup, Offload, SetStrategy, ThetaStrategy,
};
#[cfg(feature = "codec")]
pub use plan::codec::BowtieCodec;
#[cfg(all(feature = "datafusion", feature = "faults"))]
#[doc(hidden)]
pub use plan::planning_faults::FailingRule;
#[cfg(feature = "stages")]
pub use plan::ranges::rule::ExchangeByRanges;
#[cfg(feature = "stages")]
pub use plan::stage::rule::BowtieStageRule;
#[cfg(feature = "datafusion")]
pub use report::explain::explain;
#[cfg(feature = "datafusion")]
pub use report::plan_report::{NodeReport, PlanReport, PlanSummary, Verdict};
#[cfg(feature = "datafusion")]
pub use report::profile::run::{Profile, profile};
#[cfg(feature = "datafusion")]
pub use runtime::list::{DeviceInfo, devices};
#[cfg(feature = "datafusion")]
pub use runtime::process::{BowtieRuntime, DeviceMemory};
#[cfg(feature = "datafusion")]
pub use session::{BowtieConfigExt, BowtieContextExt, BowtieSessionExt};

/// The README's code compiles.
#[cfg(all(doctest, feature = "datafusion"))]
#[doc = include_str!("../README.md")]
struct Readme;
