//! [`ExchangeByRanges`]: which joins are divided by ranges.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::NestedLoopJoinExec;

use crate::functions::ranges::Ranges;
use crate::ir::side::Side;
use crate::options::{BowtieOptions, Offload};
use crate::plan::entrance::{Entrance, keeps_schema};
use crate::plan::ranges::bounds::{Bounds, bounds_of};
use crate::plan::ranges::divided::divided;
use crate::plan::ranges::extent::extremes;
use crate::plan::ranges::spread::{spreads, uncrowded};
use crate::plan::sources::join_nodes::join_source;
use crate::plan::sources::join_source::JoinSource;
use crate::plan::statistics::statistics_cache::StatisticsCache;

type Expr = Arc<dyn PhysicalExpr>;
type Plan = Arc<dyn ExecutionPlan>;

/// Ranges for each partition at least.
const LEAST_OF_A_PARTITION: usize = 2;
/// Ranges for each partition where no row is in many of them, so that their hashes, and values that are crowded, are dealt out evenly.
const MOST_OF_A_PARTITION: usize = 16;
/// Ranges have at least this many times the length of an interval, so that few rows are in two of them.
const LENGTHS_OF_A_RANGE: f64 = 4.0;

/// Makes range joins of two long sides joins of equal ranges, which engines can divide: a physical optimizer rule for a session whose plans
/// others distribute, before exchanges are planned.
///
/// [`with_bowtie_coordinator`](crate::BowtieSessionExt::with_bowtie_coordinator) adds it. An engine that plans by rules of its own calls it
/// itself. `bowtie.broadcast_rows` says which sides are long; with `bowtie.offload = 'off'` it does nothing.
#[derive(Debug, Default)]
pub struct ExchangeByRanges;

impl ExchangeByRanges {
    pub(crate) const NAME: &'static str = "bowtie_ranges";
}

impl PhysicalOptimizerRule for ExchangeByRanges {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        let options = BowtieOptions::of(config);
        if options.offload == Offload::Off || config.execution.target_partitions < 2 {
            return Ok(plan);
        }
        let entrance = Entrance {
            rule: Self::NAME,
            options: &options,
        };
        let divided = entrance.enter(|| {
            let divided = all_divided(Arc::clone(&plan), &options, config)?;
            keeps_schema(&plan, &divided)?;
            Ok(divided)
        })?;
        Ok(divided.unwrap_or(plan))
    }

    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A plan whose joins are divided where that pays.
fn all_divided(plan: Plan, options: &BowtieOptions, config: &ConfigOptions) -> Result<Plan> {
    let statistics = StatisticsCache::default();
    let rule = Divide {
        statistics: &statistics,
        most_broadcast: options.broadcast_rows.0,
        partitions: config.execution.target_partitions,
        config: &Arc::new(config.clone()),
    };
    let divide = |node: Plan| {
        if !node.is::<NestedLoopJoinExec>() {
            return Ok(Transformed::no(node));
        }
        Ok(match rule.join(&node)? {
            Ok(by_ranges) => Transformed::yes(by_ranges),
            Err(why) => {
                log::debug!("{} is not exchanged by ranges: {why}", node.name());
                Transformed::no(node)
            }
        })
    };
    plan.transform_up(divide).data()
}

struct Divide<'a> {
    statistics: &'a StatisticsCache,
    /// Rows of a side that is sent to all workers instead.
    most_broadcast: u64,
    partitions: usize,
    config: &'a Arc<ConfigOptions>,
}

impl Divide<'_> {
    /// The join by ranges, or why there is none.
    fn join(&self, node: &Plan) -> Result<Result<Plan, &'static str>> {
        let Some(Ok(source)) = join_source(node) else {
            return Ok(Err("it is not a join of two inputs"));
        };
        let (left, right) = self.statistics.sides(&source);
        let (Some(left), Some(right)) = (left.rows(), right.rows()) else {
            return Ok(Err("the rows of a side are not counted"));
        };
        if left.min(right) <= self.most_broadcast {
            return Ok(Err("a side is short"));
        }
        let mut all = bounds_of(&source)?;
        if source.fetch.is_some() || all.is_empty() {
            return Ok(Err("its condition bounds no value"));
        }
        // The rows of the shorter side are repeated.
        let longer = match left >= right {
            true => Side::Left,
            false => Side::Right,
        };
        all.sort_by_key(|bounds| match bounds {
            Bounds::Between { inner, .. } => usize::from(*inner != longer),
            Bounds::Overlap(_) => 2,
        });
        for bounds in all {
            if let Some(ranges) = self.ranges(&source, &bounds) {
                return divided(&source, &bounds, ranges, self.config).map(Ok);
            }
        }
        Ok(Err("how far its values reach is not known, or is little"))
    }

    /// Ranges of the values of the side whose rows are not repeated; `None` if these are unknown, or not much longer than the intervals between
    /// the others.
    fn ranges(&self, source: &JoinSource, bounds: &Bounds) -> Option<Ranges> {
        let plan_of = |side: Side| match side {
            Side::Left => &source.left,
            Side::Right => &source.right,
        };
        let of = |side: Side, expr: &Expr| extremes(expr, plan_of(side), self.statistics);
        let length = |side: Side, [low, high]: &[Expr; 2]| {
            let ([a, b], [c, d]) = (of(side, low)?, of(side, high)?);
            Some((c - a).abs().max((d - b).abs()))
        };
        let (begins, length) = match bounds {
            Bounds::Between { inner, value, ends } => {
                let begins = [(*inner, value), (inner.other(), &ends[0])];
                (begins, length(inner.other(), ends)?)
            }
            Bounds::Overlap([left, right]) => {
                let longest = length(Side::Left, left)?.max(length(Side::Right, right)?);
                ([(Side::Left, &left[0]), (Side::Right, &right[0])], longest)
            }
        };
        let [least, greatest] = of(begins[0].0, begins[0].1)?;
        // The lengths of the outermost intervals say little about those of others.
        let of_a_partition = match bounds.have_one_length() {
            true => MOST_OF_A_PARTITION,
            false => LEAST_OF_A_PARTITION,
        };
        let most = (of_a_partition * self.partitions).min(Ranges::MOST) as f64;
        let least_count = (LEAST_OF_A_PARTITION * self.partitions).min(Ranges::MOST) as f64;
        let reach = greatest - least;
        let count = (reach / (LENGTHS_OF_A_RANGE * length)).min(most).floor();
        let width = reach / count;
        if count < least_count || !width.is_normal() {
            return None;
        }
        let even = Ranges::Even {
            least,
            width,
            count: count as i64,
        };
        if !bounds.have_one_length() {
            return Some(even);
        }
        let spreads = begins.map(|(side, value)| spreads(value, plan_of(side)));
        let uncrowded = uncrowded(&even, &spreads.concat(), least_count as usize, length);
        Some(uncrowded.unwrap_or(even))
    }
}
