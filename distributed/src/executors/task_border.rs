//! [`TaskBorderExec`]: keeps Ballista from dividing a node among tasks that would give wrong rows together.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Statistics, exec_err, internal_err, not_impl_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::Distribution;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PhysicalExpr,
    PlanProperties, StatisticsArgs,
};
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};

type Plan = Arc<dyn ExecutionPlan>;

/// What an input of a node needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Border {
    /// How many rows it has is not known, as in a stage that reads them: whether they are exchanged is the same there.
    RowsUnknown,
    /// One task reads all of it.
    OneTask,
}

/// The rows of its input. It is there while a query is planned, and in what is sent.
#[derive(Debug)]
pub(super) struct TaskBorderExec {
    input: Plan,
    border: Border,
}

impl TaskBorderExec {
    pub(super) fn above(input: Plan, border: Border) -> Plan {
        Arc::new(Self { input, border })
    }

    /// A stage without borders.
    pub(super) fn removed(stage: Plan) -> Result<Plan> {
        let remove = |node: Plan| {
            Ok(match node.downcast_ref::<Self>() {
                Some(border) => Transformed::yes(Arc::clone(&border.input)),
                None => Transformed::no(node),
            })
        };
        stage.transform_up(remove).data()
    }
}

impl DisplayAs for TaskBorderExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskBorderExec: {:?}", self.border)
    }
}

impl ExecutionPlan for TaskBorderExec {
    fn name(&self) -> &str {
        "TaskBorderExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![match self.border {
            Border::RowsUnknown => Distribution::UnspecifiedDistribution,
            Border::OneTask => Distribution::SinglePartition,
        }])
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Plan>) -> Result<Plan> {
        match children.pop() {
            Some(input) => Ok(Self::above(input, self.border)),
            None => internal_err!("TaskBorderExec has an input"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema())))
    }
}

/// Encodes borders.
#[derive(Debug)]
pub(super) struct TaskBorderCodec;

const MESSAGE: &[u8] = b"BOWTIE TaskBorderExec 1 ";

impl PhysicalExtensionCodec for TaskBorderCodec {
    fn try_encode(
        &self,
        node: Plan,
        buffer: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(border) = node.downcast_ref::<TaskBorderExec>() else {
            return not_impl_err!("{} is no TaskBorderExec", node.name());
        };
        buffer.extend_from_slice(MESSAGE);
        buffer.push(match border.border {
            Border::RowsUnknown => 0,
            Border::OneTask => 1,
        });
        Ok(())
    }

    fn try_decode(
        &self,
        buffer: &[u8],
        inputs: &[Plan],
        _: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Plan> {
        let border = match buffer.strip_prefix(MESSAGE) {
            Some([0]) => Border::RowsUnknown,
            Some([1]) => Border::OneTask,
            _ => {
                return exec_err!(
                    "a node of a stage that arrived is not known: run the same version of datafusion-bowtie-distributed on all machines"
                );
            }
        };
        match inputs {
            [input] => Ok(TaskBorderExec::above(Arc::clone(input), border)),
            _ => internal_err!("TaskBorderExec has an input"),
        }
    }
}
