//! Whole-query tests, in one binary: linking DataFusion many times is slow.
//!
//! The oracle is DataFusion itself: every query runs with `bowtie.offload = 'off'` and with `'force'`, and must give the
//! same rows. A test that forces also checks that the plan holds bowtie's nodes, so it cannot pass by not offloading.

mod aggregate;
mod docs;
mod functions;
mod fuzz;
mod join;
mod join_aggregate;
mod keys;
mod memory;
mod options;
mod partition;
mod plan;
mod regressions;
mod rows;
mod session;
mod slt;
mod support;
mod tpch;
