//! What of DataFusion is known by its name, by its place among others, or as a private type: where an upgrade is felt first. Each has a test
//! whose message says what to look at when it fails.

pub(crate) mod node_names;
pub(crate) mod private_types;
pub(crate) mod repeated_rules;
pub(crate) mod rule_places;
