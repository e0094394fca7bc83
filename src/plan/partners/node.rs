//! [`PartnersExec`]: a join with a limit of partners, between DataFusion's plan and ours.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    replace_children_if_necessary,
};

use crate::plan::recognise::join_source::JoinSource;

type Plan = Arc<dyn ExecutionPlan>;

/// Stands for a join of DataFusion, and for nodes above it if they are the limit. It is there while a plan is rewritten: either a node of a
/// device takes its place, or [`PartnersExec::original`].
#[derive(Debug)]
pub(crate) struct PartnersExec {
    source: JoinSource,
    /// DataFusion's join.
    join: Plan,
    /// Whether the sides of `source` are those of `join` exchanged.
    is_swapped: bool,
    /// The nodes above the join that this one stands for, the lowest one first. Each has one input.
    above: Vec<Plan>,
    properties: Arc<PlanProperties>,
}

impl PartnersExec {
    pub(crate) fn new(
        source: JoinSource,
        join: Plan,
        is_swapped: bool,
        above: Vec<Plan>,
        schema: SchemaRef,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Both,
            Boundedness::Bounded,
        );
        Self {
            source,
            join,
            is_swapped,
            above,
            properties: Arc::new(properties),
        }
    }

    pub(crate) fn source(&self) -> &JoinSource {
        &self.source
    }

    /// DataFusion's nodes above other inputs.
    pub(crate) fn original(&self, [left, right]: [Plan; 2]) -> Result<Plan> {
        let sides = match self.is_swapped {
            true => vec![right, left],
            false => vec![left, right],
        };
        let join = replace_children_if_necessary(Arc::clone(&self.join), sides)?;
        self.above.iter().try_fold(join, |below, node| {
            replace_children_if_necessary(Arc::clone(node), vec![below])
        })
    }
}

impl DisplayAs for PartnersExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartnersExec: {:?}", self.source.kind)
    }
}

impl ExecutionPlan for PartnersExec {
    fn name(&self) -> &str {
        self.join.name()
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
            join: Arc::clone(&self.join),
            is_swapped: self.is_swapped,
            above: self.above.clone(),
            properties: Arc::clone(&self.properties),
        }))
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Err(DataFusionError::Internal(
            "bowtie: a join with a limit of partners was left in the plan".into(),
        ))
    }
}
