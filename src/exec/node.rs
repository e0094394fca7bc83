//! [`DeviceNode`]: the plan node of every device operator. Its input and output are device chunks; a [`DeviceOperator`]
//! says what is done with them.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, StatisticsArgs,
    apply_expression_roots,
};
use futures::{StreamExt, TryStreamExt as _};

use crate::device::batches::batch::DeviceBatch;
use crate::device::primitives::device::Device;
use crate::device::trace::{self, Scope, Trace};
use crate::exec::card_times;
use crate::exec::chunk::DeviceStream;
use crate::exec::memory::spill::Spilling;
use crate::exec::metrics::{DeviceMetrics, ResidentOutput};
use crate::exec::node_counters::NodeCounters;
use crate::runtime::planned_device::PlannedDevice;
use crate::spec::operator_kind::OperatorKind;

type Plan = Arc<dyn ExecutionPlan>;

/// A device operator: what it does, and how EXPLAIN and the optimizer see it.
pub(crate) trait DeviceOperator: Any + fmt::Debug + Send + Sync {
    /// What the operator does.
    fn kind(&self) -> OperatorKind;

    /// The number of inputs; `None` for any number.
    fn arity(&self) -> Option<usize> {
        Some(1)
    }

    /// Writes the EXPLAIN text of the node. `device` is the name of its device.
    fn display(
        &self,
        device: &str,
        t: DisplayFormatType,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result;

    /// The output schema.
    ///
    /// # Errors
    /// If the operator's spec contradicts itself.
    fn schema(&self) -> Result<SchemaRef>;

    /// When output is emitted, and whether it is bounded.
    fn emission(&self, inputs: &[Plan]) -> (EmissionType, Boundedness);

    /// DataFusion expressions that the operator evaluates.
    fn expressions(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![]
    }

    /// Whether the operator reads all partitions of its input concurrently. Others have inputs of one partition.
    fn reads_partitions(&self) -> bool {
        false
    }

    /// The order of the output, if there is one.
    fn ordering(&self, _inputs: &[Plan]) -> Option<LexOrdering> {
        None
    }

    /// The most rows of the output, if there is a limit.
    fn fetch(&self) -> Option<usize> {
        None
    }

    /// The operator with another limit; `None` if it can have none.
    fn with_fetch(&self, _fetch: Option<usize>) -> Option<Arc<dyn DeviceOperator>> {
        None
    }

    /// The operator with only these of its output columns, in this order; `None` if it cannot leave out columns, whichever they are.
    fn with_columns(&self, _columns: &[usize]) -> Option<Result<Arc<dyn DeviceOperator>>> {
        None
    }

    /// Output statistics, derived from the first input's, if there is one; `None` if they are unknown.
    fn statistics(&self, _input: Option<&Statistics>) -> Option<Result<Statistics>> {
        None
    }

    /// The operator to use if the node above reads the output on the device.
    fn with_output_on_device(&self) -> OutputOnDevice {
        OutputOnDevice::AsItIs
    }

    /// What the operator does with each batch of its input, if that is all it does and if nodes above may do it in one step with their own
    /// work.
    fn on_batch(&self, _device: &Arc<dyn Device>) -> Option<OnBatch> {
        None
    }

    /// Whether the function of [`DeviceOperator::on_batch`] only selects columns, which costs nothing, also of rows that are not on the device.
    fn only_selects(&self) -> bool {
        false
    }

    /// Starts the only output partition.
    fn execute(&self, execution: Execution<'_>) -> Result<DeviceStream>;
}

/// Whether, and by which operator, the output can stay on the device for the node above.
pub(crate) enum OutputOnDevice {
    /// By the same operator.
    AsItIs,
    /// By this operator in its place.
    By(Arc<dyn DeviceOperator>),
    /// The node above needs an upload.
    No,
}

/// The function that an operator applies to each batch.
pub(crate) type OnBatch =
    Arc<dyn Fn(&DeviceBatch) -> crate::error::Result<DeviceBatch> + Send + Sync>;

/// A node that applies a function to each batch of its input.
pub(crate) struct PerBatch<'a> {
    pub(crate) on_batch: OnBatch,
    pub(crate) only_selects: bool,
    pub(crate) input: &'a Plan,
    pub(crate) metrics: &'a ExecutionPlanMetricsSet,
}

/// What an operator needs to execute.
pub(crate) struct Execution<'a> {
    pub(crate) inputs: &'a [Plan],
    /// A handle of the node's device. Data on a device is used in the order of one stream, so all nodes below a
    /// download share the handle. Its creator can cancel the work.
    pub(crate) device: Arc<dyn Device>,
    /// What the device was planned as.
    pub(crate) planned: &'a Arc<PlannedDevice>,
    pub(crate) context: Arc<TaskContext>,
    pub(crate) metrics: &'a ExecutionPlanMetricsSet,
}

impl<'a> Execution<'a> {
    /// The inputs, exactly `N`.
    pub(crate) fn inputs<const N: usize>(&self) -> Result<&'a [Plan; N]> {
        self.inputs.try_into().map_err(|_| {
            DataFusionError::Internal(format!(
                "bowtie: an operator has {N} inputs, not {}",
                self.inputs.len()
            ))
        })
    }

    /// What an operator of one input gathers rows with.
    pub(crate) fn of_one_input(self) -> Result<OneInput<'a>> {
        let [input] = self.inputs()?;
        Ok(OneInput {
            input,
            spilling: Spilling::of(&self.context, self.metrics),
            device: self.device,
            context: self.context,
            metrics: DeviceMetrics::new(self.metrics),
        })
    }
}

/// An [`Execution`] of one input whose rows are kept until all have come.
pub(crate) struct OneInput<'a> {
    pub(crate) input: &'a Plan,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) context: Arc<TaskContext>,
    /// `None` if there can be no files.
    pub(crate) spilling: Option<Spilling>,
    pub(crate) metrics: DeviceMetrics,
}

/// The only one of a plan node's new children.
pub(crate) fn only_child(node: &str, children: Vec<Plan>) -> Result<Plan> {
    let given = children.len();
    let [child] = <[Plan; 1]>::try_from(children).map_err(|_| {
        DataFusionError::Internal(format!("bowtie: {node} has 1 child, not {given}"))
    })?;
    Ok(child)
}

/// A plan node whose output is device chunks, which only another device node or a download can read.
#[derive(Debug)]
pub(crate) struct DeviceNode {
    operator: Arc<dyn DeviceOperator>,
    inputs: Vec<Plan>,
    device: Arc<PlannedDevice>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl DeviceNode {
    /// Makes a node. `inputs` must be device nodes, except those of an operator that [reads
    /// partitions](DeviceOperator::reads_partitions).
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
                operator.kind().node_name(),
                inputs.len()
            )));
        }
        let (emission, boundedness) = operator.emission(&inputs);
        let ordering = operator.ordering(&inputs);
        let properties = PlanProperties::new(
            EquivalenceProperties::new_with_orderings(operator.schema()?, ordering),
            Partitioning::UnknownPartitioning(1),
            emission,
            boundedness,
        );
        // DataFusion would put a node of its own above a leaf that does not yield; the download yields for it.
        let properties = match inputs.is_empty() {
            true => properties.with_scheduling_type(SchedulingType::Cooperative),
            false => properties,
        };
        Ok(Self {
            operator,
            inputs,
            device,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// `plan` as a device node; an internal error if it is none.
    pub(crate) fn of(plan: &Plan) -> Result<&Self> {
        plan.downcast_ref::<Self>().ok_or_else(|| {
            DataFusionError::Internal(format!(
                "bowtie: {} is the input of a device node, but returns host batches",
                plan.name()
            ))
        })
    }

    /// The node and its operator, if `plan` is a device node of the operator type `T`.
    pub(crate) fn find<T: DeviceOperator>(plan: &Plan) -> Option<(&Self, &T)> {
        let node = plan.downcast_ref::<Self>()?;
        let operator: &dyn Any = &*node.operator;
        Some((node, operator.downcast_ref()?))
    }

    /// The operator.
    pub(crate) fn operator(&self) -> &Arc<dyn DeviceOperator> {
        &self.operator
    }

    /// The same node with another operator.
    pub(crate) fn with_operator(&self, operator: Arc<dyn DeviceOperator>) -> Result<Self> {
        Self::try_new(operator, self.inputs.clone(), Arc::clone(&self.device))
    }

    /// The node to use if the node above reads its output on the device; `None` if the output must be downloaded.
    pub(crate) fn with_output_on_device(plan: &Plan) -> Result<Option<Plan>> {
        let node = Self::of(plan)?;
        Ok(match node.operator.with_output_on_device() {
            OutputOnDevice::AsItIs => Some(Arc::clone(plan)),
            OutputOnDevice::By(operator) => Some(Arc::new(node.with_operator(operator)?)),
            OutputOnDevice::No => None,
        })
    }

    /// Starts the only output partition for a node above that reads it on `device`, a handle of this node's opened device.
    pub(crate) fn execute_on(
        &self,
        device: Arc<dyn Device>,
        context: Arc<TaskContext>,
    ) -> Result<DeviceStream> {
        let trace = context.session_config().get_extension::<Trace>();
        let meter = NodeCounters::shared(&self.metrics);
        let scope = Scope::new(self, self.operator.kind().node_name(), meter, trace)
            .timed(self.device.is_timed());
        let _entered = trace::enter(Some(scope.clone()));
        let chunks = self.operator.execute(Execution {
            inputs: &self.inputs,
            device,
            planned: &self.device,
            context,
            metrics: &self.metrics,
        })?;
        let output = ResidentOutput::new(&self.metrics);
        let chunks = chunks.inspect_ok(move |chunk| output.record(chunk));
        Ok(card_times::in_scope_of(scope, chunks).boxed())
    }

    /// The name of its device.
    pub(crate) fn device_name(&self) -> &str {
        self.device.name()
    }

    /// What the node does with each batch, if that is all it does.
    pub(crate) fn on_batch(&self, device: &Arc<dyn Device>) -> Option<PerBatch<'_>> {
        let [input] = self.inputs.as_slice() else {
            return None;
        };
        Some(PerBatch {
            on_batch: self.operator.on_batch(device)?,
            only_selects: self.operator.only_selects(),
            input,
            metrics: &self.metrics,
        })
    }

    /// Starts the only output partition for a download, on a new stream of `device`, which the nodes below share. Dropping
    /// the output cancels their work.
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

/// Sets the device handle's cancel flag when its stream is dropped.
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
                write!(f, "{}: ", self.operator.kind().node_name())?;
            }
            DisplayFormatType::TreeRender => {}
        }
        self.operator.display(self.device.name(), t, f)
    }
}

impl ExecutionPlan for DeviceNode {
    fn name(&self) -> &str {
        self.operator.kind().node_name()
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
            self.operator.kind().node_name()
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
        let input = inputs.first().map(AsRef::as_ref);
        Ok(Arc::new(match self.operator.statistics(input) {
            Some(statistics) => statistics?,
            None => Statistics::new_unknown(&self.schema()),
        }))
    }
}
