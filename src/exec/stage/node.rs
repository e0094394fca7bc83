//! [`BowtieStageExec`]: a node that executes a pipeline on a device, in the place of the pipeline's topmost node. In: the batches of the
//! pipeline's inputs. Out: those of that node, by the same partitions.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write as _};
use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{OrderingRequirements, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, InvariantLevel, reset_plan_states,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PlanProperties, StatisticsArgs, replace_children_if_necessary,
};
use parking_lot::Mutex;

use crate::exec::metrics::count_on;
use crate::exec::node::DeviceNode;
use crate::exec::stage::collected::Collected;
use crate::exec::stage::fused::{BowtieFusedExec, write_original};
use crate::exec::stage::input::{Reads, StageInputExec};
use crate::exec::stage::instance::{Instance, Instances, fresh};
use crate::exec::stage::shared_rows::SharedRows;

type Plan = Arc<dyn ExecutionPlan>;

/// A pipeline: nodes of DataFusion that a plan of bowtie executes.
#[derive(Debug, Clone)]
pub(crate) struct Pipeline {
    /// The topmost node. The others are below it, as [`BowtieFusedExec`]; what is below these is an input.
    pub(crate) original: Plan,
    /// What is executed: device nodes between others, above [`StageInputExec`].
    pub(crate) executed: Plan,
    /// Whether each partition is executed by itself. Otherwise all are executed as one.
    pub(crate) by_partition: bool,
    /// Those of the topmost node, without an order that nobody asked for.
    pub(crate) properties: Arc<PlanProperties>,
}

/// Executes a [`Pipeline`]. To others it is of the type of the pipeline's topmost node, also when it is sent to another process, which then
/// decides by itself what it offloads.
#[derive(Debug)]
pub(crate) struct BowtieStageExec {
    pipeline: Pipeline,
    run: Mutex<Run>,
    /// Of the node itself: which device it ran on.
    metrics: ExecutionPlanMetricsSet,
}

/// What the executions of a pipeline's partitions share.
#[derive(Debug, Default)]
struct Run {
    /// The partitions that were executed.
    begun: HashSet<usize>,
    /// Inputs that all partitions read.
    collected: HashMap<usize, Arc<Collected>>,
    /// The rows of all partitions as one.
    rows: Option<SharedRows>,
    /// The plan that executes all partitions, until each has begun: one may have ended before another one begins.
    of_all: Option<Arc<Instance>>,
    instances: Instances,
}

/// The inputs of a pipeline, from left to right.
pub(crate) fn inputs_of(original: &Plan) -> Vec<Plan> {
    let children = original.children().into_iter();
    let inputs = children.flat_map(|child| match BowtieFusedExec::of(child) {
        Some(fused) => inputs_of(fused.original()),
        None => vec![Arc::clone(child)],
    });
    inputs.collect()
}

impl BowtieStageExec {
    const NAME: &'static str = "BowtieStageExec";

    pub(crate) fn new(pipeline: Pipeline) -> Self {
        Self {
            pipeline,
            run: Mutex::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Not by the type that it shows others.
    pub(crate) fn of(plan: &Plan) -> Option<&Self> {
        let any: &dyn Any = plan.as_ref();
        any.downcast_ref()
    }

    fn original(&self) -> &Plan {
        &self.pipeline.original
    }

    fn partitions(&self) -> usize {
        self.pipeline
            .properties
            .output_partitioning()
            .partition_count()
    }

    /// The rows of a partition.
    fn rows(
        &self,
        run: &mut Run,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let pipeline = &self.pipeline;
        if pipeline.by_partition {
            let executed = self.of_partition(run, partition)?;
            let instance = run.instances.add(executed);
            if run.begun.len() == self.partitions() {
                run.collected.clear();
            }
            return instance.all_rows(context);
        }
        let instance = match run.of_all.take() {
            Some(instance) => instance,
            None => run.instances.add(fresh(&pipeline.executed)?),
        };
        if run.begun.len() < self.partitions() {
            run.of_all = Some(Arc::clone(&instance));
        }
        let made = pipeline.executed.output_partitioning().partition_count();
        if made == self.partitions() {
            return instance.rows(partition, context);
        }
        let rows = match run.rows.take() {
            Some(rows) => rows,
            None => SharedRows::of(instance.all_rows(context)?),
        };
        // The last reader to come has the rows to itself and the others: who drops all of them ends the work.
        if run.begun.len() < self.partitions() {
            run.rows = Some(rows.clone());
        }
        Ok(rows.reader(self.schema()))
    }

    /// Counts a partition under the device's name.
    fn count_device(&self, partition: usize) {
        if let Some(device) = device_of(&self.pipeline.executed) {
            count_on(&self.metrics, &device.replace(':', "_"), partition);
        }
    }

    /// The plan that executes one partition.
    fn of_partition(&self, run: &mut Run, partition: usize) -> Result<Plan> {
        let collected = Mutex::new(&mut run.collected);
        let inputs = inputs_of(self.original());
        let reads = |number: usize, reads: &Reads| match reads {
            Reads::All => Reads::All,
            Reads::Partition(_) => Reads::Partition(partition),
            Reads::Collected(_) => {
                let mut collected = collected.lock();
                let rows: &Arc<Collected> = collected.entry(number).or_default();
                Reads::Collected(Arc::clone(rows))
            }
        };
        StageInputExec::replaced(&self.pipeline.executed, &inputs, &reads)
    }
}

/// Nodes of a device with those below, as `BowtieJoinExec(BowtieScanExec, BowtieUploadExec)`.
fn shown_nodes(plan: &Plan) -> String {
    let below: Vec<String> = plan.children().into_iter().map(shown_nodes).collect();
    let below: Vec<String> = below
        .into_iter()
        .filter(|nodes| !nodes.is_empty())
        .collect();
    let below = below.join(", ");
    match plan.downcast_ref::<DeviceNode>() {
        None => below,
        Some(node) => {
            let mut shown = node.name().to_string();
            if !below.is_empty() {
                // Writing to a string does not fail.
                let _ = write!(shown, "({below})");
            }
            shown
        }
    }
}

/// The device of a plan's first node on one.
fn device_of(plan: &Plan) -> Option<&str> {
    match plan.downcast_ref::<DeviceNode>() {
        Some(node) => Some(node.device_name()),
        None => plan.children().into_iter().find_map(device_of),
    }
}

impl DisplayAs for BowtieStageExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = device_of(&self.pipeline.executed).unwrap_or("none");
        let nodes = shown_nodes(&self.pipeline.executed);
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "{}: device={device}, nodes=[{nodes}], ", Self::NAME)?;
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "device={device}")?;
                writeln!(f, "nodes={nodes}")?;
            }
        }
        write_original(self.original(), t, f)
    }
}

impl ExecutionPlan for BowtieStageExec {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.original().as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.pipeline.properties
    }

    fn check_invariants(&self, check: InvariantLevel) -> Result<()> {
        self.original().check_invariants(check)
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.original().input_distribution_requirements()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.original().required_input_ordering()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.original().maintains_input_order()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.original().benefits_from_input_partitioning()
    }

    fn children(&self) -> Vec<&Plan> {
        self.original().children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.original().apply_expressions(f)
    }

    /// With inputs of other partitions, orders or types it is DataFusion's node again.
    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        let pipeline = &self.pipeline;
        let original = replace_children_if_necessary(Arc::clone(self.original()), children)?;
        let (known, inputs) = (inputs_of(self.original()), inputs_of(&original));
        let are_alike = known.len() == inputs.len()
            && known.iter().zip(&inputs).all(|(known, input)| {
                known.schema() == input.schema()
                    && is_same(known.output_partitioning(), input.output_partitioning())
                    && known.output_ordering() == input.output_ordering()
            });
        // Those that the device scans are no inputs of the plan that is executed.
        let mut scanned = vec![true; known.len()];
        find_inputs(&pipeline.executed, &mut scanned);
        let are_scanned = || {
            let mut sides = scanned.iter().zip(known.iter().zip(&inputs));
            sides.all(|(scanned, (known, input))| !scanned || Arc::ptr_eq(known, input))
        };
        if !are_alike || !are_scanned() {
            return Ok(original);
        }
        let reads = |_: usize, reads: &Reads| reads.clone();
        let executed = StageInputExec::replaced(&pipeline.executed, &inputs, &reads)?;
        Ok(Arc::new(Self::new(Pipeline {
            original,
            executed,
            by_partition: pipeline.by_partition,
            properties: Arc::clone(&pipeline.properties),
        })))
    }

    fn reset_state(self: Arc<Self>) -> Result<Plan> {
        Ok(Arc::new(Self::new(Pipeline {
            executed: reset_plan_states(Arc::clone(&self.pipeline.executed))?,
            ..self.pipeline.clone()
        })))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.count_device(partition);
        let mut run = self.run.lock();
        if !run.begun.insert(partition) {
            // It is executed anew.
            *run = Run::default();
            run.begun.insert(partition);
        }
        self.rows(&mut run, partition, context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        self.run.lock().instances.collect(&mut metrics);
        Some(metrics)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.original().child_stats_requests(partition)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.original().statistics_from_inputs(inputs, args)
    }

    fn fetch(&self) -> Option<usize> {
        self.original().fetch()
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.original().cardinality_effect()
    }
}

/// Whether two inputs are divided alike. DataFusion holds unknown partitionings for different.
fn is_same(known: &Partitioning, other: &Partitioning) -> bool {
    match (known, other) {
        (Partitioning::UnknownPartitioning(a), Partitioning::UnknownPartitioning(b)) => a == b,
        _ => known == other,
    }
}

/// Takes those out of `missing` that the plan reads.
fn find_inputs(plan: &Plan, missing: &mut [bool]) {
    if let Some(input) = plan.downcast_ref::<StageInputExec>()
        && let Some(missing) = missing.get_mut(input.source().0)
    {
        *missing = false;
    }
    for child in plan.children() {
        find_inputs(child, missing);
    }
}
