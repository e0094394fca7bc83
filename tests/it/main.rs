//! Whole-query tests, in one binary: linking DataFusion many times is slow.
//!
//! The oracle is DataFusion itself: every query runs with `bowtie.offload = 'off'` and with `'force'`, and must give the
//! same rows. A test that forces also checks that the plan holds bowtie's nodes, so it cannot pass by not offloading.
//!
//! Modules have the names of the families and folders of `src` that they test.
//!
//! | module | tests |
//! |---|---|
//! | `join` | `theta`, `equi`, `semi` and `sets` joins; the `partners` that each row keeps; joins by an `OR` (`disjunctions`); the join nodes that are read (`source`); batches of `output`; right rows without a key of the left side, dropped first (`reduction`) |
//! | `aggregate`, `join_aggregate` | grouped aggregation; aggregations that are fused with a join |
//! | `rows`, `functions`, `text_functions`, `keys` | filters, projections, unions and expressions that fail; SQL functions of lists, and of text as sets; nested keys |
//! | `cache` | columns that stay on the device or in host memory between queries |
//! | `ranges`, `codec` | range joins that are exchanged by ranges; plans that are sent |
//! | `clusters` | connected components of pairs: `bowtie_clusters` |
//! | `memory`, `partition` | budgets, pools, spilling, concurrent and cancelled queries, faults on purpose; Grace partitioning |
//! | `sort` | ORDER BY and LIMIT |
//! | `plan`, `options`, `session` | plans, `bowtie_explain`, metrics and the optimizer rule; options; registration |
//! | `fuzz`, `slt`, `tpch`, `tpcds` | random queries; DataFusion's SQL tests; TPC-H; TPC-DS |
//! | `regressions` | a small query for each bug that was found |
//! | `docs` | the reference pages against the code |
//! | `support` | what tests share |

#![forbid(unsafe_code)]

mod aggregate;
mod cache;
mod clusters;
mod codec;
mod docs;
mod functions;
mod fuzz;
mod join;
mod join_aggregate;
mod keys;
mod memory;
mod options;
mod partition;
mod plan;
mod ranges;
mod regressions;
mod rows;
mod session;
mod slt;
mod sort;
mod support;
mod text_functions;
mod tpcds;
mod tpch;
