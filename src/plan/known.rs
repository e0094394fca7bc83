//! [`Known`]: what is known of a plan's nodes, computed once for each while the plan is rewritten: a scan of tables in memory looks at
//! every batch for its statistics, and every node above asks again.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::error::Result;
use datafusion::physical_plan::statistics::ChildStats;
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs};

use super::choose::Estimate;
use super::source::JoinSource;
use super::steps::address;

/// A node by its address, and one of its partitions or all of them.
type Key = (usize, Option<usize>);

/// Held with its node, so that no other one gets its address.
type Made = (Arc<dyn ExecutionPlan>, Arc<Statistics>);

#[derive(Default)]
pub(super) struct Known {
    made: RefCell<HashMap<Key, Made>>,
}

impl Known {
    /// A node without statistics is no error of the query.
    pub(super) fn statistics(&self, plan: &Arc<dyn ExecutionPlan>) -> Arc<Statistics> {
        let known = self.compute(plan, None);
        known.unwrap_or_else(|_| Arc::new(Statistics::new_unknown(&plan.schema())))
    }

    pub(super) fn rows(&self, plan: &Arc<dyn ExecutionPlan>) -> Estimate {
        Estimate(self.statistics(plan).num_rows)
    }

    pub(super) fn sides(&self, source: &JoinSource) -> (Estimate, Estimate) {
        (self.rows(&source.left), self.rows(&source.right))
    }

    /// Rows of a node, or where these are not known those of its largest input: a join by keys has about as many, others have fewer.
    pub(super) fn rows_about(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
        self.rows(plan).rows().or_else(|| {
            let inputs = plan.children().into_iter();
            let inputs: Option<Vec<u64>> = inputs.map(|input| self.rows_about(input)).collect();
            inputs?.into_iter().max()
        })
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
        let requests = plan.child_stats_requests(partition).into_iter();
        let inputs = plan.children().into_iter().zip(requests);
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
