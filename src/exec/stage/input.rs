//! [`StageInputExec`]: an input of a pipeline, as the plan that executes it sees it: a leaf.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    StatisticsArgs,
};
use futures::{StreamExt, TryStreamExt, stream};

use crate::exec::stage::collected::Collected;

type Plan = Arc<dyn ExecutionPlan>;

/// Which of its plan's partitions an input has.
#[derive(Debug, Clone)]
pub(crate) enum Reads {
    All,
    /// This one alone.
    Partition(usize),
    /// All as one, which other executions read too.
    Collected(Arc<Collected>),
}

/// An input of a pipeline. The plan below it is not seen by those who plan the pipeline.
#[derive(Debug)]
pub(crate) struct StageInputExec {
    /// Its number among the pipeline's inputs.
    number: usize,
    plan: Plan,
    reads: Reads,
    properties: Arc<PlanProperties>,
    statistics: Arc<Statistics>,
}

impl StageInputExec {
    /// `statistics`: of the rows that it has.
    pub(crate) fn new(
        number: usize,
        plan: Plan,
        reads: Reads,
        statistics: Arc<Statistics>,
    ) -> Self {
        let properties = match &reads {
            Reads::All => Arc::clone(plan.properties()),
            Reads::Partition(_) | Reads::Collected(_) => {
                let mut equivalences = plan.equivalence_properties().clone();
                let is_united = plan.output_partitioning().partition_count() > 1;
                if is_united && matches!(reads, Reads::Collected(_)) {
                    equivalences.clear_orderings();
                    equivalences.clear_per_partition_constants();
                }
                Arc::new(PlanProperties::new(
                    equivalences,
                    Partitioning::UnknownPartitioning(1),
                    plan.pipeline_behavior(),
                    plan.boundedness(),
                ))
            }
        };
        Self {
            number,
            plan,
            reads,
            properties,
            statistics,
        }
    }

    /// Its number, and the plan that it stands for.
    pub(crate) fn source(&self) -> (usize, &Plan) {
        (self.number, &self.plan)
    }

    /// `pipeline` with other inputs: what `reads` says of each.
    pub(crate) fn replaced(
        pipeline: &Plan,
        inputs: &[Plan],
        reads: &dyn Fn(usize, &Reads) -> Reads,
    ) -> Result<Plan> {
        let replace = |node: Plan| {
            let Some(input) = node.downcast_ref::<Self>() else {
                return Ok(Transformed::no(node));
            };
            let plan = inputs.get(input.number).ok_or_else(|| {
                DataFusionError::Internal("bowtie: an input of a pipeline is missing".into())
            })?;
            let input = Self::new(
                input.number,
                Arc::clone(plan),
                reads(input.number, &input.reads),
                Arc::clone(&input.statistics),
            );
            Ok(Transformed::yes(Arc::new(input) as Plan))
        };
        Arc::clone(pipeline).transform_up(replace).data()
    }
}

impl DisplayAs for StageInputExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.plan.name();
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "StageInputExec: {name}")
            }
            DisplayFormatType::TreeRender => writeln!(f, "of={name}"),
        }
    }
}

impl ExecutionPlan for StageInputExec {
    fn name(&self) -> &str {
        "StageInputExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Plan>) -> Result<Plan> {
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let collected = match &self.reads {
            Reads::All => return self.plan.execute(partition, context),
            Reads::Partition(only) => return self.plan.execute(*only, context),
            Reads::Collected(collected) => Arc::clone(collected),
        };
        let plan = Arc::clone(&self.plan);
        let batches = stream::once(async move { collected.batches(&plan, &context).await })
            .map_ok(|batches| stream::iter(batches.into_iter().map(Ok)))
            .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            batches.boxed(),
        )))
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&self.statistics))
    }
}
