//! Conditions that mix the sides, as comparisons of one side with the other.

pub(crate) mod band;
pub(crate) mod common_width;
pub(crate) mod exact_casts;
pub(crate) mod overlap_length;
