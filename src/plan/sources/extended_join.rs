//! [`ExtendedJoinExec`]: a join that does more than DataFusion's, between its plan and ours: it keeps some partners of each row, or gives
//! the values of sets.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    StatisticsArgs, replace_children_if_necessary,
};

use crate::exec::clusters::exec::ClustersExec;
use crate::exec::transfer::download::BowtieDownloadExec;
use crate::plan::snapshots::scans::without_snapshots;
use crate::plan::sources::join_source::JoinSource;
use crate::plan::sources::lone_stage::LoneStageExec;

type Plan = Arc<dyn ExecutionPlan>;

/// What an extended join stands for.
#[derive(Debug, Clone)]
pub(crate) struct Original {
    /// DataFusion's join.
    pub(crate) join: Plan,
    /// Whether its sides are those of the extended join exchanged.
    pub(crate) is_swapped: bool,
    /// A node above the join, of the same schema as the extended join.
    pub(crate) above: Option<Plan>,
}

/// Stands for a join of DataFusion, and for the nodes above it that do the rest. It is there while a plan is rewritten: either a node of a
/// device takes its place, or [`ExtendedJoinExec::original`].
#[derive(Debug)]
pub(crate) struct ExtendedJoinExec {
    source: JoinSource,
    original: Option<Original>,
    /// A plan of DataFusion with the same rows and columns, where that is not [`original`](Self::original).
    instead: Option<Plan>,
    properties: Arc<PlanProperties>,
}

impl ExtendedJoinExec {
    /// `original`: `None` if only a device runs it, which must be known then.
    pub(crate) fn new(source: JoinSource, original: Option<Original>, schema: SchemaRef) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Both,
            Boundedness::Bounded,
        );
        Self {
            source,
            original,
            instead: None,
            properties: Arc::new(properties),
        }
    }

    /// The same, in whose place `instead` runs if no device does.
    pub(crate) fn with_instead(self, instead: Plan) -> Self {
        Self {
            instead: Some(instead),
            ..self
        }
    }

    /// The plan of DataFusion in its place, where that is above other inputs.
    pub(crate) fn instead(&self) -> Option<&Plan> {
        self.instead.as_ref()
    }

    pub(crate) fn source(&self) -> &JoinSource {
        &self.source
    }

    /// DataFusion's nodes in its place, if there are any.
    #[cfg(feature = "codec")]
    pub(crate) fn stands_for(&self) -> Option<&Original> {
        self.original.as_ref()
    }

    /// Whether DataFusion has no nodes in its place.
    pub(crate) fn runs_on_device_only(&self) -> bool {
        self.original.is_none()
    }

    /// DataFusion's nodes above other inputs.
    pub(crate) fn original(&self, [left, right]: [Plan; 2]) -> Result<Plan> {
        let original = self.original.as_ref().ok_or_else(|| {
            DataFusionError::Internal("bowtie: a join that only a device runs was declined".into())
        })?;
        let sides = match original.is_swapped {
            true => vec![right, left],
            false => vec![left, right],
        };
        let join = replace_children_if_necessary(Arc::clone(&original.join), sides)?;
        match &original.above {
            Some(above) => replace_children_if_necessary(Arc::clone(above), vec![join]),
            None => Ok(join),
        }
    }
}

impl DisplayAs for ExtendedJoinExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExtendedJoinExec: {:?}", self.source.kind)
    }
}

impl ExecutionPlan for ExtendedJoinExec {
    fn name(&self) -> &str {
        let original = self.original.as_ref();
        original.map_or("ExtendedJoinExec", |original| original.join.name())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.source.left, &self.source.right]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        let [left, right] = <[Plan; 2]>::try_from(children).map_err(|children| {
            DataFusionError::Internal(format!("bowtie: {} inputs of a join", children.len()))
        })?;
        Ok(Arc::new(Self {
            source: JoinSource {
                left,
                right,
                ..self.source.clone()
            },
            original: self.original.clone(),
            instead: self.instead.clone(),
            properties: Arc::clone(&self.properties),
        }))
    }

    fn child_stats_requests(&self, _: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(None); 2]
    }

    /// Rows alone: those of DataFusion's join, or the partners of the right side's.
    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let rows = match (&self.source.partners, &self.original, inputs) {
            (Some(partners), _, [_, right]) => {
                let most = Precision::Exact(partners.most as usize);
                right.num_rows.multiply(&most)
            }
            (None, Some(original), _) => {
                original.join.statistics_from_inputs(inputs, args)?.num_rows
            }
            _ => Precision::Absent,
        };
        let mut statistics = Statistics::new_unknown(&self.schema());
        statistics.num_rows = rows.to_inexact();
        Ok(Arc::new(statistics))
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Err(DataFusionError::Internal(
            "bowtie: a join that only a device runs was left in the plan".into(),
        ))
    }
}

/// A plan of DataFusion alone for one with extended joins and scans of snapshots. `None` where a part was planned apart: the pairs of clusters, and
/// nodes of a stage.
///
/// # Errors
/// If DataFusion cannot rebuild a node, or has none for a join.
pub(crate) fn of_datafusion(plan: &Plan) -> Result<Option<Plan>> {
    let is_apart = |node: &Plan| {
        node.is::<ClustersExec>() || node.is::<BowtieDownloadExec>() || node.is::<LoneStageExec>()
    };
    if plan.exists(|node| Ok(is_apart(node)))? {
        return Ok(None);
    }
    let original = |node: Plan| {
        let Some(extended) = node.downcast_ref::<ExtendedJoinExec>() else {
            return Ok(Transformed::no(node));
        };
        let sides = [&extended.source.left, &extended.source.right];
        let original = match &extended.instead {
            Some(instead) => Arc::clone(instead),
            None => extended.original(sides.map(Arc::clone))?,
        };
        Ok(Transformed::yes(original))
    };
    without_snapshots(Arc::clone(plan).transform_down(original).data()?).map(Some)
}
