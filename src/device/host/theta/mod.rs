//! Theta joins on the host: ranges, zone maps, wavelet trees, pair programs, folds over ranges.

pub(crate) mod choose_count;
pub(crate) mod cover_fold;
pub(crate) mod directory;
pub(crate) mod expand;
pub(crate) mod intervals;
pub(crate) mod merged_fold;
pub(crate) mod pair_program;
pub(crate) mod partners;
pub(crate) mod primitives;
pub(crate) mod range;
pub(crate) mod range_fold;
pub(crate) mod tested_fold;
pub(crate) mod walked_fold;
pub(crate) mod wavelet_tree;
pub(crate) mod zone_map;
