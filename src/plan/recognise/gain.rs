//! [`Gain`]: whether `auto` offloads a join that bowtie has a spec of.

use datafusion::common::stats::Precision;

use crate::error::Decline;
use crate::ir::side::Side;
use crate::plan::sources::join_source::JoinSource;
use crate::plan::statistics::statistics_cache::{RowEstimate, StatisticsCache};
use crate::plan::statistics::unique_keys::side_of_unique_keys;
use crate::spec::join::ColumnComparison;

/// Rows of a side below which DataFusion's nested loop tests pairs as fast as a compiled filter does.
const SHORT_SIDE: u64 = 64;

/// Pairs up to which DataFusion's nested loop takes less time than the start of a device operator.
const FEW_PAIRS: u64 = 1 << 16;

/// Comparisons of two elements up to which DataFusion takes less time than that, too: those of [`FEW_PAIRS`] pairs of lists of 32 elements each.
/// Its `array_has_all` and `array_has_any` may compare each element of one list of a pair with each of the other.
const FEW_COMPARISONS: u64 = FEW_PAIRS << 10;

/// Rows and elements of the lists of a side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SideLists {
    pub rows: RowEstimate,
    pub elements: Option<u64>,
}

/// Where `auto` gains from offloading a join.
#[derive(Debug, Clone)]
pub(crate) enum Gain {
    /// On any device, the host among them: DataFusion has no good algorithm for it.
    OnAnyDevice,
    /// On any GPU; the reason is why it is declined on the host.
    OnAnyGpu(Decline),
    /// On a GPU, if the estimates say so; the reason is why it is declined otherwise.
    ByEstimate(Decline),
    /// On none.
    Nowhere(Decline),
}

/// How much of a residual filter is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompiledPart {
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

/// Of a join by equalities and comparisons.
pub(crate) fn gain(
    source: &JoinSource,
    comparisons: &[ColumnComparison],
    compiled: CompiledPart,
    rows: (RowEstimate, RowEstimate),
) -> Gain {
    let ranges = comparisons.iter().any(|c| c.op.is_range());
    if !source.tests_all_pairs && !ranges {
        return Gain::ByEstimate(Decline(
            match source.filter {
                None => "an equi-join gains nothing on the CPU backend: it stays DataFusion's; bowtie.offload = 'force' offloads it",
                Some(_) => {
                    "an equi-join whose filter has no inequality between the sides gains nothing on the CPU backend: it stays DataFusion's; bowtie.offload = 'force' offloads it"
                }
            }
            .into(),
        ));
    }
    let reason = match comparisons.is_empty() {
        true => why_not_all_pairs(source, compiled, rows),
        false => None,
    };
    if let Some(reason) = reason.or_else(|| few_pairs(rows)) {
        return Gain::Nowhere(Decline(reason));
    }
    match side_of_unique_keys(source) {
        Some(side) => Gain::OnAnyGpu(Decline(format!(
            "{}: DataFusion's equi-join tests its filter on each, and a CPU gains nothing; bowtie.offload = 'force' offloads it",
            few_pairs_of_unique_keys(side)
        ))),
        None => Gain::OnAnyDevice,
    }
}

fn few_pairs_of_unique_keys(side: Side) -> String {
    format!(
        "its keys are unique on the {side} side and leave at most a pair for each row of the {} side",
        side.other()
    )
}

/// Why equal keys of a set join leave hardly more pairs than rows, by what is known of them.
fn few_pairs_of_keys(
    source: &JoinSource,
    rows: (RowEstimate, RowEstimate),
    statistics: &StatisticsCache,
) -> Option<String> {
    if let Some(side) = side_of_unique_keys(source) {
        return Some(few_pairs_of_unique_keys(side));
    }
    let (left, right) = (rows.0.rows()?, rows.1.rows()?);
    let values = statistics.distinct_keys(source)?;
    let pairs = left as f64 * right as f64 / values.max(1) as f64;
    (pairs <= left as f64 + right as f64).then(|| {
        format!(
            "its keys have about {values} distinct values and leave about {pairs:.0} pairs of {left} and {right} rows"
        )
    })
}

/// Why DataFusion's nested loop join is better for a join that tests every pair.
fn why_not_all_pairs(
    source: &JoinSource,
    compiled: CompiledPart,
    rows: (RowEstimate, RowEstimate),
) -> Option<String> {
    let short = |rows: RowEstimate| rows.rows().is_some_and(|rows| rows < SHORT_SIDE);
    Some(match compiled {
        CompiledPart::All { can_fail: true, .. } => {
            "its condition may fail on a pair of rows, such as by a division by zero, and DataFusion's nested loop join decides on which; write it without operations that may fail".into()
        }
        CompiledPart::All {
            one_sided: true, ..
        } => "a part of its condition reads one side only, by which DataFusion's nested loop join rejects rows first".into(),
        CompiledPart::All { .. } if short(rows.0) || short(rows.1) => format!(
            "it tests every pair, and one side is estimated to have fewer than {SHORT_SIDE} rows: DataFusion's nested loop join is as fast"
        ),
        CompiledPart::All { .. } => return None,
        CompiledPart::Part => match source.filter {
            None => "bowtie gains nothing from a cross join: it stays DataFusion's; add a condition, or SET bowtie.offload = 'force'".into(),
            Some(_) => {
                "no part of its condition compares an expression of one side with one of the other, and not all of it compiles: DataFusion tests every pair as fast; write comparisons or set predicates joined by AND".into()
            }
        },
    })
}

/// Of a join by a predicate on sets.
///
/// DataFusion evaluates the function on every pair of rows with equal keys. An index of the elements, each with its key, finds the pairs
/// that share an element; but it numbers, sorts and looks up each element, about as much work as the function does for a pair. So a hash
/// join with the function as a filter does less where keys leave hardly more pairs than rows.
pub(crate) fn set_join_gain(
    source: &JoinSource,
    lists: (SideLists, SideLists),
    statistics: &StatisticsCache,
) -> Gain {
    let rows = (lists.0.rows, lists.1.rows);
    // Keys may leave far fewer pairs.
    let few = match source.on.is_empty() {
        true => few_pairs_of_short_lists(lists),
        false => few_pairs(rows),
    };
    if let Some(reason) = few {
        return Gain::Nowhere(Decline(reason));
    }
    match few_pairs_of_keys(source, rows, statistics) {
        Some(why) => Gain::Nowhere(Decline(format!(
            "{why}: DataFusion's equi-join evaluates the function on each"
        ))),
        None => Gain::OnAnyDevice,
    }
}

/// Of a join without equalities with a value of the lists of each pair.
pub(crate) fn set_values_gain(lists: (SideLists, SideLists)) -> Gain {
    match few_pairs_of_short_lists(lists) {
        Some(reason) => Gain::Nowhere(Decline(reason)),
        None => Gain::OnAnyDevice,
    }
}

/// Of a join with a limit of partners, for which DataFusion makes all pairs first.
pub(crate) fn partners_gain(rows: (RowEstimate, RowEstimate)) -> Gain {
    match few_pairs(rows) {
        Some(reason) => Gain::Nowhere(Decline(reason)),
        None => Gain::OnAnyDevice,
    }
}

/// Why a device gains nothing from a join of few rows, unless their lists are known to be long.
fn few_pairs_of_short_lists((left, right): (SideLists, SideLists)) -> Option<String> {
    let reason = few_pairs((left.rows, right.rows))?;
    // Elements of all pairs of rows: each list meets each one of the other side.
    let comparisons = match (left.elements, right.elements) {
        (Some(left), Some(right)) => left.saturating_mul(right),
        _ => 0,
    };
    (comparisons <= FEW_COMPARISONS).then_some(reason)
}

/// Why a device gains nothing from a join of few rows, where they are known exactly.
fn few_pairs(rows: (RowEstimate, RowEstimate)) -> Option<String> {
    let (Precision::Exact(left), Precision::Exact(right)) = (rows.0.0, rows.1.0) else {
        return None;
    };
    let pairs = (left as u64).saturating_mul(right as u64);
    (pairs <= FEW_PAIRS).then(|| {
        format!(
            "it has only {left} × {right} pairs of rows: bowtie gains nothing up to {FEW_PAIRS}"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::{ColumnStatistics, JoinType, NullEquality, Statistics};
    use datafusion::physical_expr::PhysicalExpr;
    use datafusion::physical_expr::expressions::Column;
    use datafusion::physical_plan::ExecutionPlan;
    use datafusion::physical_plan::test::exec::StatisticsExec;

    use super::*;

    /// A side of `rows` rows with two keys, whose distinct counts are `values`.
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
        let gains = |left, right| {
            let [left, right] = [left, right].map(|(rows, values)| side(rows, values));
            let statistics = StatisticsCache::default();
            let [of_left, of_right] = [&left, &right].map(|side| SideLists {
                rows: statistics.rows(side),
                elements: None,
            });
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
                partners: None,
                values: vec![],
            };
            let gain = set_join_gain(&source, (of_left, of_right), &statistics);
            matches!(gain, Gain::OnAnyDevice)
        };
        let million = 1_000_000;
        let unknown = (million, [None, None]);
        assert!(gains(unknown, unknown));
        // One row for each key, and few pairs.
        let unique = (million, [Some(20), Some(million)]);
        assert!(!gains(unique, unknown));
        assert!(!gains(unknown, unique));
        let few = (million, [Some(million / 2), None]);
        assert!(!gains(few, few));
        let many = (million, [Some(1_000), Some(100_000)]);
        assert!(gains(many, many));
    }

    #[test]
    fn few_pairs_of_long_lists_gain() {
        let lists = |rows, elements| SideLists {
            rows: RowEstimate(Precision::Exact(rows)),
            elements,
        };
        let gains = |left, right| matches!(set_values_gain((left, right)), Gain::OnAnyDevice);
        let (one, short) = (lists(1, Some(1 << 20)), lists(256, Some(256 << 5)));
        assert!(gains(one, one) && gains(one, short));
        assert!(!gains(short, short));
        let longer = lists(256, Some((256 << 5) + 1));
        assert!(gains(longer, longer));
        let unknown = lists(1, None);
        assert!(!gains(unknown, unknown) && !gains(one, unknown));
        assert!(gains(lists(257, None), lists(256, None)));
    }
}
