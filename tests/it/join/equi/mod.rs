//! Equi-joins.

mod null_aware;
mod skew;
mod strategies;
