//! [`StatisticsCache`]: what is known of a plan's nodes, computed once for each while the plan is rewritten: a scan of tables in memory looks at
//! every batch for its statistics, and every node above asks again.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::{JoinType, Statistics, internal_err};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::statistics::ChildStats;
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs};

use crate::plan::choose::address::address;
use crate::plan::choose::strategy::Estimate;
use crate::plan::recognise::source::{JoinSource, join_source};

/// A node by its address, and one of its partitions or all of them.
type Key = (usize, Option<usize>);

/// Held with its node, so that no other one gets its address.
type Made = (Arc<dyn ExecutionPlan>, Arc<Statistics>);

#[derive(Default)]
pub(crate) struct StatisticsCache {
    made: RefCell<HashMap<Key, Made>>,
}

impl StatisticsCache {
    /// A node without statistics is no error of the query.
    pub(crate) fn statistics(&self, plan: &Arc<dyn ExecutionPlan>) -> Arc<Statistics> {
        let known = self.compute(plan, None);
        known.unwrap_or_else(|_| Arc::new(Statistics::new_unknown(&plan.schema())))
    }

    pub(crate) fn rows(&self, plan: &Arc<dyn ExecutionPlan>) -> Estimate {
        Estimate(self.statistics(plan).num_rows)
    }

    pub(crate) fn sides(&self, source: &JoinSource) -> (Estimate, Estimate) {
        (self.rows(&source.left), self.rows(&source.right))
    }

    /// Whether it is known how many values each key of a join has, on both sides.
    pub(crate) fn counts_keys(&self, source: &JoinSource) -> bool {
        let counts = |side, key: &Arc<dyn PhysicalExpr>| {
            let statistics = self.statistics(side);
            let column = key.downcast_ref::<Column>();
            let column = column.and_then(|c| statistics.column_statistics.get(c.index()));
            column.is_some_and(|column| column.distinct_count.get_value().is_some())
        };
        let mut keys = source.on.iter();
        keys.all(|(left, right)| counts(&source.left, left) && counts(&source.right, right))
    }

    /// Rows of a node, where joins of keys that nobody counted have as many as their longer side at least: DataFusion takes such keys for
    /// unique as long as no least and greatest ones say that there are fewer, and so the shorter side's rows for all that come out.
    pub(crate) fn rows_about(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<f64> {
        use JoinType::*;
        let known = |plan| self.rows(plan).rows().map(|rows| rows as f64);
        if let Some(Ok(source)) = join_source(plan) {
            if self.counts_keys(&source) {
                return known(plan);
            }
            let (left, right) = (&source.left, &source.right);
            return match source.kind {
                LeftSemi | LeftAnti | LeftMark => self.rows_about(left),
                RightSemi | RightAnti | RightMark => self.rows_about(right),
                Inner | Left | Right | Full => {
                    let longer = self.rows_about(left)?.max(self.rows_about(right)?);
                    Some(known(plan).map_or(longer, |rows| rows.max(longer)))
                }
            };
        }
        let [input] = plan.children()[..] else {
            return known(plan);
        };
        let share = match (known(plan), known(input)) {
            (Some(rows), Some(of)) if of > 0.0 => rows / of,
            _ => 1.0,
        };
        Some(self.rows_about(input)? * share)
    }

    /// As [`StatisticsContext`](datafusion::physical_plan::StatisticsContext) computes them, whose memory is of one walk.
    fn compute(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        partition: Option<usize>,
    ) -> Result<Arc<Statistics>> {
        let key = (address(plan), partition);
        if let Some((_, known)) = self.made.borrow().get(&key) {
            return Ok(Arc::clone(known));
        }
        let (children, requests) = (plan.children(), plan.child_stats_requests(partition));
        if children.len() != requests.len() {
            return internal_err!(
                "{} asks for other inputs' statistics than it has",
                plan.name()
            );
        }
        let inputs = children.into_iter().zip(requests);
        let inputs = inputs.map(|(input, request)| match request {
            ChildStats::At(partition) => self.compute(input, partition),
            ChildStats::Skip => Ok(Arc::new(Statistics::new_unknown(&input.schema()))),
        });
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let args = StatisticsArgs::new().with_partition(partition);
        let made = plan.statistics_from_inputs(&inputs, &args)?;
        let held = (Arc::clone(plan), Arc::clone(&made));
        self.made.borrow_mut().insert(key, held);
        Ok(made)
    }
}
