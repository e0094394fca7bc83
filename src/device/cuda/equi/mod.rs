//! Equi-joins on a GPU (`kernels/equi`): keys to words, a strategy, then matches as ranges or materialised columns.

pub(crate) mod choose;
pub(crate) mod column_sources;
pub(crate) mod index;
pub(crate) mod key_words;
pub(crate) mod materialize;
pub(crate) mod output;
pub(crate) mod partition;
pub(crate) mod presorted;
pub(crate) mod primitives;
pub(crate) mod sample;
pub(crate) mod single_pass;
pub(crate) mod tables;
pub(crate) mod validity_words;
