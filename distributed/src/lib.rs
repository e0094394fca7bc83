//! datafusion-bowtie on more than one machine: inside the engines of DataFusion's own world, with its operators on every worker.
//!
//! | engine | here |
//! |---|---|
//! | [datafusion-distributed](https://github.com/datafusion-contrib/datafusion-distributed) | [`workers::worker`], [`workers::coordinator`] |
//! | [Ballista](https://github.com/apache/datafusion-ballista) | [`executors::executor`], [`executors::scheduler`], [`executors::start_scheduler`], [`client::connect`] |
//!
//! Each is a function for a program of your own. The binary `bowtie-cluster` starts each of them with one command.
//!
//! The engine plans, cuts the plan to stages and sends them, as nodes of DataFusion. Who gets a stage offloads in it what its own devices
//! are good for (`BowtieStageRule`), so workers with a GPU and workers without one serve the same query. `SET bowtie.…` of a session reaches
//! all workers.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[cfg(feature = "ballista-client")]
pub mod client;
#[cfg(feature = "ballista")]
pub mod executors;
#[cfg(any(feature = "ballista", feature = "datafusion-distributed"))]
mod files;
#[cfg(any(feature = "ballista", feature = "datafusion-distributed"))]
mod gpus;
#[cfg(any(feature = "ballista", feature = "datafusion-distributed"))]
mod options;
#[cfg(feature = "stores")]
pub mod stores;
#[cfg(feature = "datafusion-distributed")]
pub mod workers;
