//! Choosing: whether bowtie takes a join, by which strategy, and which side is sorted.

use datafusion::common::JoinType;
use datafusion::common::stats::Precision;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext};

use super::source::JoinSource;
use crate::error::Decline;
use crate::options::BowtieOptions;
use crate::spec::{ColumnComparison, ConditionDisplay, Side, Strategy};

/// Rows of a side below which DataFusion tests pairs as fast as a program does.
const SHORT_SIDE: u64 = 64;

/// What a program decides of a residual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProgramCover {
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
pub(super) struct Estimate(pub Precision<usize>);

impl Estimate {
    pub(super) fn of(plan: &dyn ExecutionPlan) -> Self {
        // A node without statistics is no error of the query.
        let rows = StatisticsContext::new()
            .compute(plan, &StatisticsArgs::new())
            .map_or(Precision::Absent, |stats| stats.num_rows);
        Self(rows)
    }

    pub(super) fn rows(&self) -> Option<u64> {
        self.0.get_value().map(|rows| *rows as u64)
    }
}

/// By what it is decided whether a node that can be served is taken.
#[derive(Debug, Clone, Copy)]
pub(super) enum Taking<'a> {
    /// It is.
    All,
    /// It gains on any device, the host among them: DataFusion has no good algorithm for it.
    Gains,
    /// It gains on any device, or a GPU is estimated to do it sooner; otherwise why not.
    Estimated(Result<(), &'a Decline>),
}

/// Whether the join is taken. On the host device only those gain for which DataFusion has no good algorithm, and on a GPU they gain
/// too.
pub(super) fn pays(
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

/// Whether `auto` takes a join that it would gain from, for all that is known of the rows.
///
/// Of set joins nothing else is asked: DataFusion evaluates the function on every pair of rows, or of rows with equal keys, where an
/// index of the elements, each with its key, leads to the pairs that share one.
pub(super) fn enough_pairs(taking: Taking<'_>, rows: (Estimate, Estimate)) -> Result<(), Decline> {
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
pub(super) fn indexed_side(source: &JoinSource) -> Side {
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
pub(super) fn strategy(
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
    let searching = match source.kind {
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => Side::Left,
        JoinType::Inner if source.on.is_empty() && left_searches_fewer(rows) => Side::Left,
        _ => Side::Right,
    };
    let range_side = match ranges.is_empty() {
        true => None,
        false => [searching.other(), searching]
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
        _ => Ok((chosen, searching.other())),
    }
}
