//! Theta joins.

pub(crate) mod brute_force;
pub(crate) mod cross_product;
pub(crate) mod intervals;
pub(crate) mod pair_program;
pub(crate) mod partners;
pub(crate) mod range;
pub(crate) mod range_fold;
pub(crate) mod tested_fold;
pub(crate) mod wavelet_tree;
