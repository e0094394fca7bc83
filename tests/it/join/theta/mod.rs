//! Theta joins.

mod conditions;
mod empty_sides;
mod key_types;
mod overlap_length;
mod overlaps;
mod pair_program;
mod tunings;
mod wavelet_tree;
