//! Theta joins.

pub(crate) mod brute_force;
pub(crate) mod matches;
pub(crate) mod pair_program;
pub(crate) mod range_fold;
pub(crate) mod wavelet_tree;
