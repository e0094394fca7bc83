//! Whole-query tests, in one binary: linking DataFusion many times is slow.
//!
//! The oracle is DataFusion itself: every query runs with `bowtie.offload = 'off'` and with `'force'`, and must give the
//! same rows. A test that forces also checks that the plan holds bowtie's nodes, so it cannot pass by not offloading.

mod answer;
mod domains;
mod equi;
mod session;
mod statistics;
mod tables;
mod text;

mod ascending;
mod cancel;
mod chains;
mod differential;
mod errors;
mod existence;
mod fused;
mod fuzz;
mod group_strategies;
mod group_text;
mod groups;
mod limits;
mod nested_keys;
mod options;
mod parts;
mod plans;
mod reference;
mod regressions;
mod sets;
mod slt;
mod spill;
mod tpch;
