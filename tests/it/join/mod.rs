//! Joins: forced and stock give the same rows.
//!
//! The product of join types, conditions, strategies, key types, NULL densities, empty sides, batch sizes, partitions,
//! device memory and chunk sizes is too large to run. It is covered so:
//!
//! | module | in full | in rotation |
//! |---|---|---|
//! | `conditions` | join type × condition × strategy | tuning, and which side is larger |
//! | `key_types` | key type × operator × NULL density | join type, tuning, strategy |
//! | `tunings` | batch size × chunk size × memory × partitions | – |
//! | `empty_sides` | join type × empty side × strategy | tuning |
//! | `programs` | join type × condition that mixes the sides | tuning, and which side is larger |
//! | `sources` | DataFusion's join node × join type × NULL density | tuning |
//! | `uncorrelated` | two inequalities on 20,000 rows a side, against counts of our own | – |
//!
//! Tuning `n` of a rotation is [`Tuning::nth`]: 140 consecutive ones are the full product of tunings.
//!
//! [`Tuning::nth`]: crate::session::Tuning::nth

mod equi;
mod output;
mod semi;
mod sets;
mod source;
mod theta;
