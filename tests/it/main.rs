//! Whole-query tests, in one binary: linking DataFusion many times is slow.

mod smoke;
