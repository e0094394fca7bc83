//! [`Instance`]: one execution of a pipeline's plan. Its nodes go with its rows, as some of DataFusion's go on working as long as they are there:
//! engines keep the plans of stages long after nobody reads them.

use std::any::Any;
use std::sync::{Arc, Weak};

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::metrics::{MetricValue, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;
use parking_lot::Mutex;

use crate::exec::node::DeviceNode;
use crate::exec::transfer::download::BowtieDownloadExec;

type Plan = Arc<dyn ExecutionPlan>;

/// A plan that is executed. Its metrics stay.
#[derive(Debug)]
pub(super) struct Instance {
    plan: Plan,
    ended: Arc<Mutex<MetricsSet>>,
}

/// The instances of a pipeline.
#[derive(Debug, Default)]
pub(super) struct Instances {
    running: Vec<Weak<Instance>>,
    /// The metrics of those that have ended.
    ended: Arc<Mutex<MetricsSet>>,
}

/// The same nodes, which share no state with those of `plan`, but filters that joins make for scans while they run. Scans by DataFusion are the
/// same, so that their metrics are the plan's.
pub(super) fn fresh(plan: &Plan) -> Result<Plan> {
    let anew = |node: Plan| {
        let children: Vec<Plan> = node.children().into_iter().cloned().collect();
        if children.is_empty() && !node.is::<DeviceNode>() {
            return Ok(Transformed::no(node));
        }
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let node = node.replace_children(children, options)?;
        let Some(join) = node.downcast_ref::<HashJoinExec>() else {
            return Ok(Transformed::yes(node));
        };
        // It would share its build side.
        let filters = join.dynamic_expressions_produced().into_iter();
        let mut filters = filters.filter_map(|filter| {
            let filter: Arc<dyn Any + Send + Sync> = filter;
            filter.downcast::<DynamicFilterPhysicalExpr>().ok()
        });
        let join = join.builder().reset_state().build()?;
        let join = match filters.next() {
            Some(filter) => join.with_dynamic_filter_expr(filter)?,
            None => join,
        };
        Ok(Transformed::yes(Arc::new(join) as Plan))
    };
    Arc::clone(plan).transform_up(anew).data()
}

impl Instances {
    /// An instance of a plan, whose nodes nobody else has.
    pub(super) fn add(&mut self, plan: Plan) -> Arc<Instance> {
        let instance = Arc::new(Instance {
            plan,
            ended: Arc::clone(&self.ended),
        });
        self.running.retain(|known| known.strong_count() > 0);
        self.running.push(Arc::downgrade(&instance));
        instance
    }

    /// Adds the metrics of all instances.
    pub(super) fn collect(&self, metrics: &mut MetricsSet) {
        for metric in self.ended.lock().iter() {
            metrics.push(Arc::clone(metric));
        }
        for instance in self.running.iter().filter_map(Weak::upgrade) {
            collect_metrics(&instance.plan, true, metrics);
        }
    }
}

impl Instance {
    /// The rows of one of its partitions, which hold the instance.
    pub(super) fn rows(
        self: Arc<Self>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = self.plan.execute(partition, context)?;
        Ok(self.holding(rows))
    }

    /// The rows of all of its partitions.
    pub(super) fn all_rows(
        self: Arc<Self>,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = execute_stream(Arc::clone(&self.plan), context)?;
        Ok(self.holding(rows))
    }

    fn holding(self: Arc<Self>, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let schema = rows.schema();
        let rows = rows.inspect(move |_| {
            let _held = &self;
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, rows.boxed()))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        collect_metrics(&self.plan, true, &mut self.ended.lock());
    }
}

/// The metrics of a plan: all of its topmost node, those of bowtie's nodes that are not of rows that stay within the plan, and the time of
/// others.
fn collect_metrics(plan: &Plan, is_top: bool, metrics: &mut MetricsSet) {
    let is_own = plan.is::<DeviceNode>() || plan.is::<BowtieDownloadExec>();
    // A scan by DataFusion shows its metrics itself.
    let of_node = plan.metrics();
    let of_node = of_node.filter(|_| is_top || is_own || !plan.children().is_empty());
    for metric in of_node.iter().flat_map(MetricsSet::iter) {
        let is_shown = match metric.value() {
            MetricValue::ElapsedCompute(_) => true,
            MetricValue::OutputRows(_)
            | MetricValue::OutputBytes(_)
            | MetricValue::OutputBatches(_)
            | MetricValue::StartTimestamp(_)
            | MetricValue::EndTimestamp(_) => is_top,
            _ => is_top || is_own,
        };
        if is_shown {
            metrics.push(Arc::clone(metric));
        }
    }
    for child in plan.children() {
        collect_metrics(child, false, metrics);
    }
}
