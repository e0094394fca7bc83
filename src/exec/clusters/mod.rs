//! Clusters: the connected components of pairs of ids. In: pairs. Out: each distinct id with the least id of its component.
//!
//! ```text
//!  pairs on the host                              pairs on a device
//!       ▼                                              ▼
//!  exec.rs        ClustersExec                    node.rs             BowtieClustersExec
//!       │                                              │
//!       │                                         run.rs              gathers chunks of pairs
//!       │               too many pairs for the device  │
//!       │         ┌────────────────────────────────────┤
//!       ▼         ▼                                    ▼
//!  components.rs  ids ──► numbers (ids.rs)        on_device.rs        numbers, components and least ids by primitives of the device;
//!                 ──► sets (union_find.rs);                           columns piece by piece
//!                 the least id of each set
//! ```
//!
//! `ids.rs` numbers values and knows no sets; `union_find.rs` has sets of numbers and knows no values. On the host pairs are never kept.

mod byte_ids;
mod components;
pub(crate) mod exec;
pub(crate) mod ids;
pub(crate) mod node;
mod numbers;
mod on_device;
mod run;
mod table_memory;
mod union_find;
mod word_ids;
