//! Offloading in stages that others have planned: by Ballista, by datafusion-distributed, or by DataFusion's own rules.
//!
//! ```text
//! stage ─► pipelines (members.rs, hidden_order.rs) ─► planned as DataFusion had them before (unplanned.rs, aggregates.rs) ─► rule ─► a node for each node (pipeline.rs)
//! ```

pub(crate) mod aggregates;
pub(crate) mod hidden_order;
pub(crate) mod members;
pub(crate) mod part_scan;
pub(crate) mod pipeline;
pub(crate) mod rule;
pub(crate) mod unplanned;
