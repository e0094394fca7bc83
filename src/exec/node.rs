//! [`DeviceNode`]: the one plan node whose batches are a device's, around a [`DeviceOperator`] that says what it does.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, StatisticsArgs,
    apply_expression_roots,
};
use futures::StreamExt;

use crate::device::primitives::device::Device;
use crate::exec::chunk::DeviceStream;
use crate::runtime::planned_device::PlannedDevice;

type Plan = Arc<dyn ExecutionPlan>;

/// What a device does at a node of the plan.
pub(crate) trait DeviceOperator: Any + fmt::Debug + Send + Sync {
    /// The node's name in EXPLAIN.
    fn name(&self) -> &'static str;

    /// Number of inputs; `None`: any.
    fn arity(&self) -> Option<usize> {
        Some(1)
    }

    /// What EXPLAIN shows of it, on the device of this name.
    fn display(
        &self,
        device: &str,
        t: DisplayFormatType,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result;

    /// The columns of its rows.
    ///
    /// # Errors
    /// When its specification contradicts itself.
    fn schema(&self) -> Result<SchemaRef>;

    /// When its rows come out, and whether they end.
    fn emission(&self, inputs: &[Plan]) -> (EmissionType, Boundedness);

    /// Expressions of DataFusion's that it evaluates.
    fn expressions(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![]
    }

    /// Whether it reads the partitions of its input beside each other. Other operators have inputs of one partition.
    fn reads_partitions(&self) -> bool {
        false
    }

    /// What is known of its rows by what is known of its input's; `None`: nothing.
    fn statistics(&self, _input: &Statistics) -> Option<Result<Statistics>> {
        None
    }

    /// The operator for a node above that reads its rows on the device.
    fn with_output_on_device(&self) -> OutputOnDevice {
        OutputOnDevice::AsItIs
    }

    /// Starts the only partition.
    fn execute(&self, execution: Execution<'_>) -> Result<DeviceStream>;
}

/// Whether a node above can read an operator's rows on the device.
pub(crate) enum OutputOnDevice {
    AsItIs,
    /// By this operator instead.
    By(Arc<dyn DeviceOperator>),
    No,
}

/// What an operator is executed with.
pub(crate) struct Execution<'a> {
    pub(crate) inputs: &'a [Plan],
    /// A handle of the node's device. What is on a device is used in the order of one queue, so all nodes below one download share it;
    /// who made the handle cancels.
    pub(crate) device: Arc<dyn Device>,
    pub(crate) context: Arc<TaskContext>,
    pub(crate) metrics: &'a ExecutionPlanMetricsSet,
}

impl<'a> Execution<'a> {
    /// The inputs, of which there are `N`.
    pub(crate) fn inputs<const N: usize>(&self) -> Result<&'a [Plan; N]> {
        self.inputs.try_into().map_err(|_| {
            DataFusionError::Internal(format!(
                "bowtie: an operator has {N} inputs, not {}",
                self.inputs.len()
            ))
        })
    }
}

/// A plan node whose batches are a device's.
#[derive(Debug)]
pub(crate) struct DeviceNode {
    operator: Arc<dyn DeviceOperator>,
    inputs: Vec<Plan>,
    device: Arc<PlannedDevice>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl DeviceNode {
    /// `inputs` are device nodes, but those of an operator that [reads partitions](DeviceOperator::reads_partitions).
    pub(crate) fn try_new(
        operator: Arc<dyn DeviceOperator>,
        inputs: Vec<Plan>,
        device: Arc<PlannedDevice>,
    ) -> Result<Self> {
        if let Some(arity) = operator.arity()
            && arity != inputs.len()
        {
            return Err(DataFusionError::Internal(format!(
                "bowtie: {} has {arity} children, not {}",
                operator.name(),
                inputs.len()
            )));
        }
        let (emission, boundedness) = operator.emission(&inputs);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(operator.schema()?),
            Partitioning::UnknownPartitioning(1),
            emission,
            boundedness,
        );
        Ok(Self {
            operator,
            inputs,
            device,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// `plan` as a device node.
    pub(crate) fn of(plan: &Plan) -> Result<&Self> {
        plan.downcast_ref::<Self>().ok_or_else(|| {
            DataFusionError::Internal(format!(
                "bowtie: {} is the input of a device node, but returns host batches",
                plan.name()
            ))
        })
    }

    /// `plan` as a node of the operator `T`, where it is one.
    pub(crate) fn find<T: DeviceOperator>(plan: &Plan) -> Option<(&Self, &T)> {
        let node = plan.downcast_ref::<Self>()?;
        let operator: &dyn Any = &*node.operator;
        Some((node, operator.downcast_ref()?))
    }

    /// The same node with another operator.
    pub(crate) fn with_operator(&self, operator: Arc<dyn DeviceOperator>) -> Result<Self> {
        Self::try_new(operator, self.inputs.clone(), Arc::clone(&self.device))
    }

    /// The node for one above that reads its rows on the device; `None` where they cannot stay there.
    pub(crate) fn with_output_on_device(plan: &Plan) -> Result<Option<Plan>> {
        let node = Self::of(plan)?;
        Ok(match node.operator.with_output_on_device() {
            OutputOnDevice::AsItIs => Some(Arc::clone(plan)),
            OutputOnDevice::By(operator) => Some(Arc::new(node.with_operator(operator)?)),
            OutputOnDevice::No => None,
        })
    }

    /// Starts the only partition for a node above that reads the rows on `device`, a handle of this node's device once it opened.
    pub(crate) fn execute_on(
        &self,
        device: Arc<dyn Device>,
        context: Arc<TaskContext>,
    ) -> Result<DeviceStream> {
        self.operator.execute(Execution {
            inputs: &self.inputs,
            device,
            context,
            metrics: &self.metrics,
        })
    }

    /// The same for the host, on a queue of `device` of its own. The nodes below share it.
    pub(crate) fn execute_device(
        &self,
        device: &Arc<dyn Device>,
        context: Arc<TaskContext>,
    ) -> Result<DeviceStream> {
        let cancel = CancelOnDrop::default();
        let device = device.attach(device.budget().child(), Arc::clone(&cancel.0))?;
        let chunks = self.execute_on(device, context)?;
        Ok(chunks
            .inspect(move |_| {
                let _held = &cancel;
            })
            .boxed())
    }
}

/// Tells the device, when it is dropped with its stream, that nobody waits for the work any more.
#[derive(Debug, Default)]
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl DisplayAs for DeviceNode {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "{}: ", self.operator.name())?;
            }
            DisplayFormatType::TreeRender => {}
        }
        self.operator.display(self.device.name(), t, f)
    }
}

impl ExecutionPlan for DeviceNode {
    fn name(&self) -> &str {
        self.operator.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        self.inputs.iter().collect()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![self.operator.reads_partitions(); self.inputs.len()]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.operator.expressions(), f)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        let (operator, device) = (Arc::clone(&self.operator), Arc::clone(&self.device));
        Ok(Arc::new(Self::try_new(operator, children, device)?))
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Err(DataFusionError::Internal(format!(
            "bowtie: {} returns device batches, which only BowtieDownloadExec can read",
            self.operator.name()
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, _partition: Option<usize>) -> Vec<ChildStats> {
        let wanted = |_| match self.operator.reads_partitions() {
            true => ChildStats::At(None),
            false => ChildStats::Skip,
        };
        self.inputs.iter().map(wanted).collect()
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let known = inputs.first();
        let known = known.and_then(|input| self.operator.statistics(input));
        Ok(Arc::new(match known {
            Some(statistics) => statistics?,
            None => Statistics::new_unknown(&self.schema()),
        }))
    }
}
