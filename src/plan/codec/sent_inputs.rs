//! [`SentInputsExec`]: the inputs of a region on their way to it, while a plan is decoded.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

type Plan = Arc<dyn ExecutionPlan>;

/// Stands for a device node: all that was sent of it. It is never executed.
#[derive(Debug)]
pub(super) struct SentInputsExec {
    pub(super) inputs: Vec<Plan>,
    properties: Arc<PlanProperties>,
}

impl SentInputsExec {
    /// The inputs of the nodes below, from left to right.
    pub(super) fn of(below: &[Plan]) -> Self {
        let inputs = below.iter().flat_map(Self::inputs_of);
        Self {
            inputs: inputs.collect(),
            properties: Arc::new(PlanProperties::new(
                EquivalenceProperties::new(Arc::new(Schema::empty())),
                Partitioning::UnknownPartitioning(1),
                EmissionType::Incremental,
                Boundedness::Bounded,
            )),
        }
    }

    /// The inputs that `plan` stands for, or itself.
    pub(super) fn inputs_of(plan: &Plan) -> Vec<Plan> {
        match plan.downcast_ref::<Self>() {
            Some(sent) => sent.inputs.clone(),
            None => vec![Arc::clone(plan)],
        }
    }
}

impl DisplayAs for SentInputsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SentInputsExec")
    }
}

impl ExecutionPlan for SentInputsExec {
    fn name(&self) -> &str {
        "SentInputsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        self.inputs.iter().collect()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        Ok(Arc::new(Self::of(&children)))
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("bowtie: a device node was sent without the download above it")
    }
}
