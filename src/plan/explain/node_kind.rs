//! [`NodeKind`]: what a node does, in DataFusion's plan as in the rewritten one.

use std::sync::Arc;

use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;

use crate::exec::aggregate::node::AggregateOperator;
use crate::exec::clusters::exec::ClustersExec;
use crate::exec::clusters::node::ClustersOperator;
use crate::exec::join::node::JoinOperator;
use crate::exec::join_aggregate::node::JoinAggregateOperator;
use crate::exec::node::DeviceNode;
use crate::exec::rows::filter::FilterOperator;
use crate::exec::rows::projection::ProjectionOperator;
use crate::exec::rows::union::UnionOperator;
use crate::exec::scan::node::ScanOperator;
use crate::exec::sort::limit::LimitOperator;
use crate::exec::sort::node::SortOperator;
use crate::exec::transfer::download::BowtieDownloadExec;
use crate::exec::transfer::upload::UploadOperator;
use crate::plan::recognise::sort::limit_spec;
use crate::plan::sources::join_nodes::join_source;

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
        let Self::Other(name) = self else {
            return false;
        };
        matches!(
            name.as_str(),
            "RepartitionExec"
                | "CoalescePartitionsExec"
                | "SortPreservingMergeExec"
                | "CoalesceBatchesExec"
                | "InterleaveExec"
                | "CooperativeExec"
                | "BufferExec"
                | "OutputRequirementExec"
        )
    }

    pub(crate) fn of(node: &Arc<dyn ExecutionPlan>) -> Self {
        let of_device = [
            (is_device::<JoinOperator>(node), Self::Join),
            (is_device::<JoinAggregateOperator>(node), Self::Aggregate),
            (is_device::<AggregateOperator>(node), Self::Aggregate),
            (is_device::<FilterOperator>(node), Self::Filter),
            (is_device::<ProjectionOperator>(node), Self::Projection),
            (is_device::<UnionOperator>(node), Self::Union),
            (is_device::<SortOperator>(node), Self::Sort),
            (is_device::<LimitOperator>(node), Self::Limit),
            (is_device::<ClustersOperator>(node), Self::Clusters),
            (is_device::<ScanOperator>(node), Self::Scan),
            (is_device::<UploadOperator>(node), Self::Upload),
            (node.is::<BowtieDownloadExec>(), Self::Download),
        ];
        if let Some((_, kind)) = of_device.into_iter().find(|(is, _)| *is) {
            return kind;
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

fn is_device<T: crate::exec::node::DeviceOperator>(node: &Arc<dyn ExecutionPlan>) -> bool {
    DeviceNode::find::<T>(node).is_some()
}
