//! [`TaskBorderExec`]: keeps Ballista from dividing a node among tasks that would give wrong rows together.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Statistics, exec_err, internal_err, not_impl_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements,
};
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PhysicalExpr, PlanProperties, StatisticsArgs,
};
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};

type Plan = Arc<dyn ExecutionPlan>;

/// What nodes above may rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Border {
    /// Not on their number or order, nor on which columns are equal: a stage that reads them knows none of it either. It is there until exchanges are
    /// planned.
    Unknown,
    /// Not on their order, nor on which columns are equal.
    Unordered,
    /// One task reads all of them.
    OneTask,
    /// One task reads all of them, in the order that the input had when the border was planned, whatever is exchanged below later.
    InOrder,
}

/// The rows of its input. It is there while a query is planned, and in what is sent.
#[derive(Debug)]
pub(super) struct TaskBorderExec {
    input: Plan,
    border: Border,
    /// What [`Border::InOrder`] requires.
    order: Option<LexOrdering>,
    properties: Arc<PlanProperties>,
}

impl TaskBorderExec {
    pub(super) fn above(input: Plan, border: Border) -> Plan {
        let order = match border {
            Border::InOrder => input.output_ordering().cloned(),
            Border::Unknown | Border::Unordered | Border::OneTask => None,
        };
        Self::with_order(input, border, order)
    }

    fn with_order(input: Plan, border: Border, order: Option<LexOrdering>) -> Plan {
        let properties = Arc::clone(input.properties());
        let properties = match border {
            Border::Unknown | Border::Unordered => {
                let nothing = EquivalenceProperties::new(input.schema());
                let mut unordered = PlanProperties::clone(&properties);
                unordered.set_eq_properties(nothing);
                Arc::new(unordered)
            }
            Border::OneTask | Border::InOrder => properties,
        };
        Arc::new(Self {
            input,
            border,
            order,
            properties,
        })
    }

    /// A stage without borders.
    pub(super) fn removed(stage: Plan) -> Result<Plan> {
        Self::removed_if(stage, |_| true)
    }

    /// A plan without those of this kind.
    pub(super) fn without(plan: Plan, kind: Border) -> Result<Plan> {
        Self::removed_if(plan, |border| border == kind)
    }

    fn removed_if(plan: Plan, unwanted: impl Fn(Border) -> bool) -> Result<Plan> {
        let remove = |node: Plan| {
            Ok(match node.downcast_ref::<Self>() {
                Some(border) if unwanted(border.border) => {
                    Transformed::yes(Arc::clone(&border.input))
                }
                _ => Transformed::no(node),
            })
        };
        plan.transform_up(remove).data()
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
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![match self.border {
            Border::Unknown | Border::Unordered => Distribution::UnspecifiedDistribution,
            Border::OneTask | Border::InOrder => Distribution::SinglePartition,
        }])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![self.order.clone().map(OrderingRequirements::from)]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![match self.border {
            Border::Unknown | Border::Unordered => false,
            Border::OneTask | Border::InOrder => true,
        }]
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
            Some(input) => Ok(Self::with_order(input, self.border, self.order.clone())),
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

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![match self.border {
            Border::Unordered | Border::InOrder => ChildStats::At(partition),
            Border::Unknown | Border::OneTask => ChildStats::Skip,
        }]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(match (self.border, inputs) {
            (Border::Unordered | Border::InOrder, [input]) => Arc::clone(input),
            _ => Arc::new(Statistics::new_unknown(&self.schema())),
        })
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
            Border::Unknown => 0,
            Border::OneTask => 1,
            Border::Unordered => 2,
            Border::InOrder => 3,
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
            Some([0]) => Border::Unknown,
            Some([1]) => Border::OneTask,
            Some([2]) => Border::Unordered,
            Some([3]) => Border::InOrder,
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
