//! [`WatchedExec`]: the node above a plan whose progress is shown. It hands on every batch.

use std::fmt;
use std::sync::{Arc, Weak};

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt as _;
use parking_lot::Mutex;

use crate::progress::{Progress, Shown};

/// The node above a plan whose progress is shown, from its first partition's start to its last one's end.
#[derive(Debug)]
pub(crate) struct WatchedExec {
    input: Arc<dyn ExecutionPlan>,
    progress: Progress,
    /// What its running partitions share.
    shown: Mutex<Weak<Option<Shown>>>,
}

impl WatchedExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, progress: Progress) -> Self {
        Self {
            input,
            progress,
            shown: Mutex::default(),
        }
    }

    /// The line, which the first of the partitions draws.
    fn shown(&self) -> Arc<Option<Shown>> {
        let mut shown = self.shown.lock();
        shown.upgrade().unwrap_or_else(|| {
            let begun = Arc::new(self.progress.begin(&self.input));
            *shown = Arc::downgrade(&begun);
            begun
        })
    }
}

impl DisplayAs for WatchedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WatchedExec")
    }
}

impl ExecutionPlan for WatchedExec {
    fn name(&self) -> &str {
        "WatchedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
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

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(Arc::new(Self::new(input, self.progress.clone())))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let mut shown = Some(self.shown());
        let input = self.input.execute(partition, context)?;
        // The line is gone before the last batch is known to be the last.
        let watched = input
            .map(Some)
            .chain(futures::stream::once(async { None }))
            .filter_map(move |batch| {
                if batch.is_none() {
                    shown.take();
                }
                futures::future::ready(batch)
            });
        let schema = self.input.schema();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, watched)))
    }
}
