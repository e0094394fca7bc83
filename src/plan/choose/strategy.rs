//! Choosing: whether bowtie takes a join, by which strategy, and which side is sorted.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::stats::Precision;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext};

use crate::error::Decline;
use crate::ir::side::Side;
use crate::ir::strategies::Strategy;
use crate::options::BowtieOptions;
use crate::plan::recognise::source::JoinSource;
use crate::spec::join::{ColumnComparison, ConditionDisplay};

/// Rows of a side below which DataFusion tests pairs as fast as a program does.
const SHORT_SIDE: u64 = 64;

/// What a program decides of a residual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgramCover {
    /// All of it.
    All {
        /// Whether an operation of it may fail on a pair.
        can_fail: bool,
        /// Whether a conjunct of it reads one side alone.
        one_sided: bool,
    },
    /// A part, or nothing.
    Part,
}

/// Below so many pairs DataFusion's nested loop takes less time than starting a device operator.
const FEW_PAIRS: u64 = 1 << 16;

/// Rows that are sure to be one chunk of the streamed side on every device, when memory allows.
const ONE_CHUNK: u64 = 1 << 20;

/// Rows of an input, as far as the plan knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Estimate(pub Precision<usize>);

impl Estimate {
    pub(crate) fn rows(&self) -> Option<u64> {
        self.0.get_value().map(|rows| *rows as u64)
    }
}

/// By what it is decided whether a node that can be served is taken.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Taking<'a> {
    /// It is.
    All,
    /// It gains on any device, the host among them: DataFusion has no good algorithm for it.
    Gains,
    /// It gains on any device, or a GPU is estimated to do it sooner; otherwise why not.
    Estimated(Result<(), &'a Decline>),
}

/// Whether the join is taken. On the host device only those gain for which DataFusion has no good algorithm, and on a GPU they gain
/// too.
pub(crate) fn pays(
    taking: Taking<'_>,
    source: &JoinSource,
    comparisons: &[ColumnComparison],
    program: ProgramCover,
    rows: (Estimate, Estimate),
) -> Result<(), Decline> {
    if let Taking::All = taking {
        return Ok(());
    }
    let ranges = comparisons.iter().any(|c| c.op.is_range());
    if !source.tests_all_pairs && !ranges {
        if let Taking::Estimated(estimated) = taking {
            return estimated.map_err(Decline::clone);
        }
        return Decline::because(match source.filter {
            None => "it is an equi-join: DataFusion's own serves it on the host",
            Some(_) => {
                "its filter has no inequality between the sides: DataFusion's equi-join serves it on the host"
            }
        });
    }
    if comparisons.is_empty() {
        let short = |rows: Estimate| rows.rows().is_some_and(|rows| rows < SHORT_SIDE);
        match program {
            ProgramCover::Part => {}
            ProgramCover::All { can_fail: true, .. } => {
                return Decline::because(
                    "a part of its condition may fail on a pair: DataFusion's own nested loop decides where it does",
                );
            }
            ProgramCover::All {
                one_sided: true, ..
            } => {
                return Decline::because(
                    "a part of its condition reads one side only, and DataFusion skips pairs by it",
                );
            }
            ProgramCover::All { .. } if short(rows.0) || short(rows.1) => {
                return Decline::because(format!(
                    "every pair must be tested, and one side is estimated to have fewer than {SHORT_SIDE} rows: DataFusion's own nested loop serves it"
                ));
            }
            ProgramCover::All { .. } => {}
        }
    }
    if comparisons.is_empty() && program == ProgramCover::Part {
        return Decline::because(match source.filter {
            None => "it is a product: DataFusion's own serves it on the host",
            Some(_) => {
                "no part of its condition compares an expression of one side with one of the other, and not all of it compiles to a program: every pair must be tested, which gains nothing on the host"
            }
        });
    }
    enough_pairs(taking, rows)
}

/// Whether `auto` takes a join by a predicate on sets.
///
/// DataFusion evaluates the function on every pair of rows, or of rows with equal keys, where an index of the elements, each with its
/// key, leads to the pairs that share one. Each element is then numbered, sorted and looked up: about what the function does with it
/// for a pair. So where keys leave hardly more pairs than there are rows, the hash join with the function behind it does less.
pub(crate) fn sets_pay(
    taking: Taking<'_>,
    source: &JoinSource,
    rows: (Estimate, Estimate),
) -> Result<(), Decline> {
    enough_pairs(taking, rows)?;
    if let (Taking::Gains | Taking::Estimated(_), (Some(left), Some(right))) =
        (taking, (rows.0.rows(), rows.1.rows()))
        && let Some(values) = values_of_keys(source)
    {
        let pairs = left as f64 * right as f64 / values.max(1) as f64;
        if pairs <= left as f64 + right as f64 {
            return Decline::because(format!(
                "its keys have about {values} values and leave about {pairs:.0} pairs, of {left} and {right} rows: DataFusion's equi-join tests each by the function"
            ));
        }
    }
    Ok(())
}

/// How many values the keys have on the side that has more, at least, where that is known.
fn values_of_keys(source: &JoinSource) -> Option<u64> {
    let of_side = |plan: &dyn ExecutionPlan, keys: Vec<&Arc<dyn PhysicalExpr>>| {
        let statistics = StatisticsContext::new().compute(plan, &StatisticsArgs::new());
        let statistics = statistics.ok()?;
        let values = keys.into_iter().filter_map(|key| {
            let column = key.downcast_ref::<Column>()?;
            let known = statistics.column_statistics.get(column.index())?;
            known
                .distinct_count
                .get_value()
                .map(|values| *values as u64)
        });
        values.max()
    };
    let (lefts, rights) = source.on.iter().map(|(l, r)| (l, r)).unzip();
    let left = of_side(source.left.as_ref(), lefts);
    left.max(of_side(source.right.as_ref(), rights))
}

/// Whether `auto` takes a join that it would gain from, for all that is known of the rows.
fn enough_pairs(taking: Taking<'_>, rows: (Estimate, Estimate)) -> Result<(), Decline> {
    if let Taking::All = taking {
        return Ok(());
    }
    if let (Precision::Exact(left), Precision::Exact(right)) = (rows.0.0, rows.1.0) {
        let pairs = (left as u64).saturating_mul(right as u64);
        if pairs <= FEW_PAIRS {
            return Decline::because(format!(
                "it has only {left} × {right} pairs: a device gains nothing below {FEW_PAIRS}"
            ));
        }
    }
    Ok(())
}

/// The side whose sets are indexed: the left one, which is there once and for all, but where only its rows' flags are wanted.
pub(crate) fn indexed_side(source: &JoinSource) -> Side {
    match source.kind {
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => Side::Right,
        _ => Side::Left,
    }
}

/// Whether the left side has fewer rows than the right one, and the right one is a single chunk. Where ranges are long
/// each searching row is a run of output with values of its own, so the fewer search, the less is written.
fn left_searches_fewer((left, right): (Estimate, Estimate)) -> bool {
    match (left.rows(), right.rows()) {
        (Some(left), Some(right)) => left < right && right <= ONE_CHUNK,
        _ => false,
    }
}

/// The strategy and the sorted side for a condition; an error when a forced strategy cannot serve it.
pub(crate) fn strategy(
    options: &BowtieOptions,
    source: &JoinSource,
    comparisons: &[ColumnComparison],
    rows: (Estimate, Estimate),
    display: &ConditionDisplay,
) -> Result<(Strategy, Side)> {
    if comparisons.is_empty() && !source.on.is_empty() && options.theta_strategy.0.is_none() {
        // The side that DataFusion builds its own table of is the shorter one.
        return Ok((Strategy::Equi(options.join_strategy.0), Side::Left));
    }
    let ranges: Vec<&ColumnComparison> = comparisons.iter().filter(|c| c.op.is_range()).collect();
    let one_column = |side: Side| {
        ranges
            .iter()
            .all(|c| c.column(side) == ranges[0].column(side))
    };
    // Flags and counts of a side come cheapest when it searches.
    let probe = match source.kind {
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => Side::Left,
        JoinType::Inner if source.on.is_empty() && left_searches_fewer(rows) => Side::Left,
        _ => Side::Right,
    };
    let range_side = match ranges.is_empty() {
        true => None,
        false => [probe.other(), probe]
            .into_iter()
            .find(|side| one_column(*side)),
    };
    let natural = match (range_side, ranges.is_empty()) {
        (Some(_), _) => Strategy::Range,
        (None, true) => Strategy::Tiles,
        (None, false) => Strategy::Dominance,
    };
    let chosen = options.theta_strategy.0.unwrap_or(natural);
    let refuse = |why: String| {
        let condition = match display.theta.is_empty() {
            true => "a condition without comparisons".to_string(),
            false => format!("'{}'", display.theta.join(" AND ")),
        };
        Err(DataFusionError::Plan(format!(
            "bowtie.theta_strategy = '{chosen}' cannot serve {condition}: {why}; SET bowtie.theta_strategy = 'auto' or '{natural}'"
        )))
    };
    match (chosen, range_side) {
        (Strategy::Range, Some(side)) => Ok((Strategy::Range, side)),
        (Strategy::Range, None) => refuse("it is no range of one column".into()),
        (Strategy::Dominance, _) if ranges.len() < 2 => {
            refuse("it has fewer than two inequalities".into())
        }
        _ => Ok((chosen, probe.other())),
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::{ColumnStatistics, NullEquality, Statistics};
    use datafusion::physical_plan::test::exec::StatisticsExec;

    use super::*;
    use crate::plan::choose::statistics::StatisticsCache;

    /// A side of so many rows, whose two keys have so many values, where that is known.
    fn side(rows: usize, values: [Option<usize>; 2]) -> Arc<dyn ExecutionPlan> {
        let column_statistics = values.map(|values| ColumnStatistics {
            distinct_count: values.map_or(Precision::Absent, Precision::Inexact),
            ..ColumnStatistics::new_unknown()
        });
        let statistics = Statistics {
            num_rows: Precision::Inexact(rows),
            total_byte_size: Precision::Absent,
            column_statistics: column_statistics.into(),
        };
        let fields = ["a", "b"].map(|name| Field::new(name, DataType::Int64, true));
        Arc::new(StatisticsExec::new(
            statistics,
            Schema::new(fields.to_vec()),
        ))
    }

    #[test]
    fn keys_that_leave_few_pairs_of_sets() {
        let taken = |left, right, taking| {
            let [left, right] = [left, right].map(|(rows, values)| side(rows, values));
            let known = StatisticsCache::default();
            let rows = (known.rows(&left), known.rows(&right));
            let key = |name, at| Arc::new(Column::new(name, at)) as Arc<dyn PhysicalExpr>;
            let source = JoinSource {
                left,
                right,
                kind: JoinType::Inner,
                on: vec![(key("a", 0), key("a", 0)), (key("b", 1), key("b", 1))],
                null_equality: NullEquality::NullEqualsNothing,
                filter: None,
                projection: None,
                fetch: None,
                tests_all_pairs: false,
                metadata: Default::default(),
                null_aware: false,
            };
            sets_pay(taking, &source, rows).is_ok()
        };
        let million = 1_000_000;
        let unknown = (million, [None, None]);
        assert!(taken(unknown, unknown, Taking::Gains));
        // A row each, and as many as DataFusion tests gladly.
        let unique = (million, [Some(20), Some(million)]);
        assert!(!taken(unique, unknown, Taking::Gains));
        assert!(!taken(unknown, unique, Taking::Estimated(Ok(()))));
        assert!(taken(unique, unknown, Taking::All));
        let few = (million, [Some(million / 2), None]);
        assert!(!taken(few, few, Taking::Gains));
        let many = (million, [Some(1_000), Some(100_000)]);
        assert!(taken(many, many, Taking::Gains));
    }
}
