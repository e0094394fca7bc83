//! `bowtie_clusters`: the connected components of a query's pairs, such as near-duplicates, with one id for each.
//!
//! ```text
//!  function.rs     the table function, and its table
//!       │
//!  pairs_query.rs  a text ──► the logical plan of a query with two columns of one type
//!       ▼
//!  exec.rs         ClustersExec, above the plan of that query: pairs in, ids with their clusters out
//!       │
//!  components.rs   pairs, batch by batch: ids ──► numbers (ids.rs) ──► sets (union_find.rs); the least id of each set
//! ```
//!
//! `ids.rs` numbers values and knows no sets; `union_find.rs` has sets of numbers and knows no values. Pairs are never kept.

mod byte_ids;
mod components;
mod exec;
pub(crate) mod function;
mod ids;
mod numbers;
mod pairs_query;
mod table_memory;
mod union_find;
mod word_ids;
