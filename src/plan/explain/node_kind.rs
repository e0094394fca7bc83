//! [`NodeKind`]: what a node does, in DataFusion's plan as in the rewritten one.

use std::sync::Arc;

use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;

use crate::compat::node_names;
use crate::exec::clusters::exec::ClustersExec;
use crate::exec::node::DeviceNode;
use crate::exec::transfer::download::BowtieDownloadExec;
use crate::plan::recognise::sort::limit_spec;
use crate::plan::sources::join_nodes::join_source;
use crate::spec::operator_kind::OperatorKind;

/// What a node does, whether DataFusion does it or a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodeKind {
    Join,
    /// An aggregation from rows to results, or its last stage.
    Aggregate,
    /// The first stage of an aggregation.
    PartialAggregate,
    Filter,
    Projection,
    Union,
    Sort,
    Limit,
    /// Of pairs.
    Clusters,
    Scan,
    /// To a device.
    Upload,
    /// From a device.
    Download,
    /// A node that became a part of the one above it.
    Merged,
    /// A node of DataFusion that is none of these, by its name.
    Other(String),
}

impl NodeKind {
    /// Whether bowtie decides on such nodes one by one.
    pub(crate) fn is_decided(&self) -> bool {
        matches!(
            self,
            Self::Join | Self::Aggregate | Self::Sort | Self::Limit | Self::Clusters
        )
    }

    /// Whether such a node only moves rows between the host's threads.
    pub(crate) fn only_moves(&self) -> bool {
        matches!(self, Self::Other(name) if node_names::only_moves(name))
    }

    pub(crate) fn of(node: &Arc<dyn ExecutionPlan>) -> Self {
        if let Some(of_device) = node.downcast_ref::<DeviceNode>() {
            return of_device.operator().kind().into();
        }
        if node.is::<BowtieDownloadExec>() {
            return Self::Download;
        }
        if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
            return match aggregate.mode() {
                AggregateMode::Partial => Self::PartialAggregate,
                _ => Self::Aggregate,
            };
        }
        if join_source(node).is_some() {
            return Self::Join;
        }
        if limit_spec(node).is_some() {
            return Self::Limit;
        }
        let of_datafusion = [
            (node.is::<FilterExec>(), Self::Filter),
            (node.is::<ProjectionExec>(), Self::Projection),
            (node.is::<UnionExec>(), Self::Union),
            (node.is::<SortExec>(), Self::Sort),
            (node.is::<ClustersExec>(), Self::Clusters),
            (node.is::<DataSourceExec>(), Self::Scan),
        ];
        let known = of_datafusion.into_iter().find(|(is, _)| *is);
        known.map_or_else(|| Self::Other(node.name().into()), |(_, kind)| kind)
    }
}

impl From<OperatorKind> for NodeKind {
    fn from(kind: OperatorKind) -> Self {
        match kind {
            OperatorKind::Join => Self::Join,
            OperatorKind::JoinAggregate | OperatorKind::Aggregate => Self::Aggregate,
            OperatorKind::Filter => Self::Filter,
            OperatorKind::Projection => Self::Projection,
            OperatorKind::Union => Self::Union,
            OperatorKind::Sort => Self::Sort,
            OperatorKind::Limit => Self::Limit,
            OperatorKind::Clusters => Self::Clusters,
            OperatorKind::Scan => Self::Scan,
            OperatorKind::Upload => Self::Upload,
        }
    }
}
