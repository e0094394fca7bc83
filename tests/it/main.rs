//! Whole-query tests, in one binary: linking DataFusion many times is slow.

mod text;

mod options;
mod plans;
mod regressions;
mod slt;
