//! ⋈ Theta joins, equi-joins and grouped aggregation for Apache DataFusion, on a *device*: the host's own cores, or an NVIDIA GPU.
//!
//! Registered in a session, the crate replaces join and aggregate nodes of the physical plan. SQL and DataFrame calls stay
//! as they are, and so do the rows.
//!
//! ```text
//!  SQL, DataFrame
//!       │  DataFusion parses, plans, optimises
//!       ▼
//!  plan/      recognise a node ──► Spec (plain data: what to join or group, on what, what comes out)
//!       │                    └──► Decline(reason): the node stays as it was
//!       ▼
//!  exec/      Upload ─► device nodes (Join, Aggregate, Filter, Union) ─► Download      ExecutionPlan nodes
//!       │     host batches │  device batches                │ host batches
//!       ▼                  ▼                                ▼
//!  stream/    batches → chunks sized to the device budget
//!       ▼
//!  column/    batches whose columns lie on the device
//!       ▼
//!  ops/       theta/: each algorithm once, as a sequence of device primitives
//!       ▼
//!  device/    trait Device: memory + primitives ──► host/ (plain Rust, all cores)
//!                                              └─► cuda/ (an NVIDIA GPU through its driver; kernels/*.cu)
//! ```
//!
//! Start with [`BowtieSessionExt`]; every option is a field of [`BowtieOptions`]. In the comments, **\[T\]** is Bellas and
//! Gounaris, *GPU processing of theta-joins* (2017), **\[W\]** Wu, Koutsoukos and Alonso, *Efficiently Processing Joins
//! and Grouped Aggregations on GPUs* (2024), and **\[B\]** Bellas, *Advanced
//! Joins on GPUs* (a doctoral thesis).

#![deny(unsafe_code)]
#![warn(missing_docs)]

pub(crate) mod runtime;

pub(crate) mod device;
pub(crate) mod error;
pub(crate) mod exec;
pub(crate) mod functions;
pub(crate) mod ir;
pub(crate) mod list_sets;
pub(crate) mod ops;
pub(crate) mod options;
pub(crate) mod plan;
#[doc(hidden)]
pub mod rates;
pub(crate) mod session;
pub(crate) mod spec;

pub use crate::options::Bytes;
pub use crate::options::ChunkRows;
pub use crate::options::DeviceChoice;
pub use crate::options::GroupStrategy;
pub use crate::options::JoinStrategy;
pub use crate::options::MaterializationChoice;
pub use crate::options::Offload;
pub use crate::options::SetStrategy;
pub use crate::options::ThetaStrategy;
pub use crate::session::BowtieSessionExt;
pub use options::BowtieOptions;
