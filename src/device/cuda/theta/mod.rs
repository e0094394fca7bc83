//! Theta joins on a GPU (`kernels/theta`). Order keys enter; ranges of build positions per probe row, counts, row ids
//! of matches and aggregates over ranges leave.

pub(crate) mod choose_count;
pub(crate) mod cover_fold;
pub(crate) mod cross_product;
pub(crate) mod intervals;
pub(crate) mod matches_on_host;
pub(crate) mod pair_program;
pub(crate) mod pair_program_arg;
pub(crate) mod partners;
pub(crate) mod primitives;
pub(crate) mod published;
pub(crate) mod range;
pub(crate) mod range_fold;
pub(crate) mod range_tree;
pub(crate) mod sum_kernels;
pub(crate) mod tested_fold;
pub(crate) mod testers;
pub(crate) mod walked_fold;
pub(crate) mod wavelet_index;
pub(crate) mod wavelet_tree;
pub(crate) mod zone_map;
