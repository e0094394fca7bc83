//! Filters that test and compact rows in one pass.

pub(crate) mod compaction;
pub(crate) mod deciding;
pub(crate) mod distinct;
pub(crate) mod key_bitmap;
pub(crate) mod look_back;
pub(crate) mod one_pass;
pub(crate) mod run_heads;
pub(crate) mod staging;
pub(crate) mod tiles;

pub(crate) mod bit_test;
