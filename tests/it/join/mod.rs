//! Joins: forced and stock give the same rows.
//!
//! The product of join types, conditions, strategies, key types, NULL densities, empty sides, batch sizes, partitions,
//! device memory and chunk sizes is too large to run. Theta joins cover it so:
//!
//! | module | in full | in rotation |
//! |---|---|---|
//! | `theta::conditions` | join type × condition × strategy | tuning, and which side is larger |
//! | `theta::key_types` | key type × operator × NULL density | join type, tuning, strategy |
//! | `theta::tunings` | batch size × chunk size × memory × partitions | – |
//! | `theta::empty_sides` | join type × empty side × strategy | tuning |
//! | `theta::pair_program` | join type × condition that mixes the sides | tuning, and which side is larger |
//! | `source` | DataFusion's join node × join type × NULL density | tuning |
//! | `partners` | form of a query × condition | tuning |
//! | `types_without_keys` | type × join type | tuning |
//! | `disjunctions` | join type × condition with an OR across the sides | tuning |
//! | `theta::wavelet_tree` | two inequalities on 20,000 rows a side, against counts of our own | – |
//!
//! Tuning `n` of a rotation is [`Tuning::nth`]: 140 consecutive ones are the full product of tunings.
//!
//! [`Tuning::nth`]: crate::support::tuning::Tuning::nth

mod disjunctions;
mod equi;
mod output;
mod partners;
mod reduction;
mod semi;
mod sets;
mod source;
mod theta;
mod types_without_keys;
