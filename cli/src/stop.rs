//! Ctrl-C for the statement that runs: [`Running`] hands it over, and [`stoppable`] makes joins of DataFusion ask for it.
//!
//! A dropped query ends at the next step of each of its threads. DataFusion's joins may take minutes for one step, in which they evaluate their
//! filter many times: so the filter asks.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::datatypes::{FieldRef, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, SortMergeJoinExec,
};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Whether a statement is to end.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    is_asked: AtomicBool,
    asked: Notify,
}

impl Stop {
    fn ask(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
        self.asked.notify_one();
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }

    /// Returns once the statement is to end.
    pub(crate) async fn asked(&self) {
        self.asked.notified().await;
    }
}

/// The statement that runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Running(Arc<Mutex<Arc<Stop>>>);

impl Running {
    /// Another statement runs from now on.
    pub(crate) fn begin(&self) -> Arc<Stop> {
        let stop = Arc::new(Stop::default());
        *self.0.lock() = Arc::clone(&stop);
        stop
    }

    pub(crate) fn stop(&self) -> Arc<Stop> {
        Arc::clone(&self.0.lock())
    }

    /// Ends statements at Ctrl-C from now on. A thread of its own waits for it, as all others may be in the middle of a step.
    ///
    /// # Errors
    /// If the operating system starts no thread.
    pub(crate) fn stop_at_ctrl_c(&self) -> Result<()> {
        let running = self.clone();
        let signals = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        // The editor puts a handler of its own in place of others while it reads, and then puts back those that it found: so this one comes first.
        let (is_there, there) = std::sync::mpsc::channel();
        let wait = move || {
            signals.block_on(async {
                let mut next = Box::pin(tokio::signal::ctrl_c());
                if futures::poll!(&mut next).is_pending() {
                    is_there.send(()).ok();
                    while next.await.is_ok() {
                        running.stop().ask();
                        next = Box::pin(tokio::signal::ctrl_c());
                    }
                }
            });
        };
        std::thread::Builder::new()
            .name("ctrl-c".into())
            .spawn(wait)?;
        // Without one Ctrl-C ends the process.
        there.recv().ok();
        Ok(())
    }
}

/// The plan with joins whose filters end when `stop` is asked for. `yields`: with a node above each join that lets its thread do something else now
/// and then, however many rows the join makes of a batch.
pub(crate) fn stoppable(
    plan: Arc<dyn ExecutionPlan>,
    stop: &Arc<Stop>,
    yields: bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    let asking = |filter: Option<&JoinFilter>| {
        filter.map(|filter| {
            let expression = Asking {
                filter: Arc::clone(filter.expression()),
                stop: Arc::clone(stop),
            };
            let columns = filter.column_indices().to_vec();
            JoinFilter::new(Arc::new(expression), columns, Arc::clone(filter.schema()))
        })
    };
    let rewritten = plan.transform_up(|node| {
        let join: Arc<dyn ExecutionPlan> =
            if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
                let filter = asking(join.filter());
                let join = NestedLoopJoinExecBuilder::from(join).with_filter(filter);
                Arc::new(join.build()?)
            } else if let Some(join) = node.downcast_ref::<HashJoinExec>() {
                let filter = asking(join.filter());
                join.builder().with_filter(filter).build_exec()?
            } else if node.is::<CrossJoinExec>() || node.is::<SortMergeJoinExec>() {
                node
            } else {
                return Ok(Transformed::no(node));
            };
        let join: Arc<dyn ExecutionPlan> = match yields {
            true => Arc::new(CooperativeExec::new(join)),
            false => join,
        };
        Ok(Transformed::yes(join))
    });
    rewritten.data()
}

/// A filter that fails when its statement is to end. It is shown as the filter.
#[derive(Debug)]
struct Asking {
    filter: Arc<dyn PhysicalExpr>,
    stop: Arc<Stop>,
}

impl PartialEq for Asking {
    fn eq(&self, other: &Self) -> bool {
        self.filter.eq(&other.filter)
    }
}

impl Eq for Asking {}

impl Hash for Asking {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.filter.hash(state);
    }
}

impl fmt::Display for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.filter, f)
    }
}

impl PhysicalExpr for Asking {
    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.filter.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        if self.stop.is_asked() {
            return Err(DataFusionError::Execution("stopped".into()));
        }
        self.filter.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.filter]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let filter = children.pop().unwrap_or_else(|| Arc::clone(&self.filter));
        Ok(Arc::new(Self {
            filter,
            stop: Arc::clone(&self.stop),
        }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.filter.fmt_sql(f)
    }
}
