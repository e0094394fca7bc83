//! The profile of a query: it runs, and what its nodes and its device did is shown.

mod json;
mod memory;
mod node_profile;
mod page;
pub mod run;
