//! Rows and bytes that a node reads of another, by the statistics of the plan.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;

use crate::ir::side::Side;
use crate::plan::choose::cost::Flow;
use crate::plan::sources::join_source::JoinSource;
use crate::plan::statistics::statistics_cache::StatisticsCache;
use crate::spec::aggregate::GroupSpec;
use crate::spec::join::{JoinSpec, Output, SideInput};
use crate::spec::join_aggregate::{GroupSide, JoinAggregateSpec};

/// Bytes of a text of unknown length, and of a nested value, which stays on the host.
const TEXT_BYTES: f64 = 24.0;
const NESTED_BYTES: f64 = 8.0;

/// Cardinalities by the statistics of a plan's nodes.
pub(crate) struct Cardinalities<'a>(pub &'a StatisticsCache);

impl Cardinalities<'_> {
    pub(crate) fn rows(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<f64> {
        self.0.rows(plan).rows().map(|rows| rows as f64)
    }

    /// Some columns of an input.
    pub(crate) fn of(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        input: &SideInput,
        rows: f64,
        columns: BTreeSet<usize>,
    ) -> Flow {
        let statistics = self.0.statistics(plan);
        let width = |column: usize| {
            let known = statistics.column_statistics.get(column);
            mean_bytes(input.data_type(column), known, &statistics)
        };
        Flow {
            rows,
            columns: columns.len(),
            bytes: rows * columns.into_iter().map(width).sum::<f64>(),
        }
    }

    /// All columns of a node's rows.
    pub(crate) fn output(&self, plan: &Arc<dyn ExecutionPlan>, rows: f64) -> Flow {
        let input = SideInput::new(plan.schema());
        let columns = (0..input.columns()).collect();
        self.of(plan, &input, rows, columns)
    }

    /// A node's rows as a download has them: the device has the text of views.
    pub(crate) fn downloaded(&self, plan: &Arc<dyn ExecutionPlan>, rows: f64) -> Flow {
        let output = self.output(plan, rows);
        let schema = plan.schema();
        let fields = schema.fields().iter();
        let views = fields
            .filter(|field| matches!(field.data_type(), DataType::Utf8View | DataType::BinaryView));
        Flow {
            bytes: output.bytes + rows * TEXT_BYTES * views.count() as f64,
            ..output
        }
    }

    /// What DataFusion reads and copies of `rows` of a filter's input, of which it keeps `output`.
    pub(crate) fn filtered(&self, filter: &FilterExec, rows: f64, output: Flow) -> Flow {
        let input = SideInput::new(filter.input().schema());
        let columns = collect_columns(filter.predicate()).into_iter();
        let columns = columns.map(|column| column.index()).collect();
        let read = self.of(filter.input(), &input, rows, columns);
        Flow {
            bytes: read.bytes + output.bytes,
            ..read
        }
    }

    /// Both sides of a join: columns of its condition, output columns, and `others`.
    pub(crate) fn sides(
        &self,
        source: &JoinSource,
        spec: &JoinSpec,
        rows: (f64, f64),
        others: &[(Side, usize)],
    ) -> (Flow, Flow) {
        let columns = |side: Side| {
            let compared = spec.theta.comparisons.iter().map(|c| c.column(side));
            let equal = spec
                .theta
                .equalities
                .iter()
                .map(|(left, right)| match side {
                    Side::Left => *left,
                    Side::Right => *right,
                });
            let output = spec.output.iter().filter_map(move |column| match column {
                Output::Column(of, i) if *of == side => Some(*i),
                _ => None,
            });
            let others = others.iter().filter(move |(of, _)| *of == side);
            let all = compared.chain(equal).chain(output);
            all.chain(others.map(|(_, i)| *i)).collect()
        };
        (
            self.of(&source.left, &spec.left, rows.0, columns(Side::Left)),
            self.of(&source.right, &spec.right, rows.1, columns(Side::Right)),
        )
    }
}

/// Columns that an aggregation reads.
pub(crate) fn columns_of(spec: &GroupSpec) -> BTreeSet<usize> {
    let arguments = spec.aggregates.iter().filter_map(|a| a.argument);
    spec.keys.iter().copied().chain(arguments).collect()
}

/// Columns that an aggregation reads which is fused with a join, without those of the join condition.
pub(crate) fn columns_of_fused(spec: &JoinAggregateSpec) -> Vec<(Side, usize)> {
    let arguments = spec.aggregates.iter().filter_map(|a| a.argument);
    let keys = spec.group_columns.iter();
    let keys = keys.filter_map(|column| match spec.group_side {
        GroupSide::Side(side) => Some((side, *column)),
        GroupSide::Nothing => None,
    });
    arguments.chain(keys).collect()
}

/// Mean bytes of a value that is uploaded.
fn mean_bytes(
    data_type: &DataType,
    column: Option<&ColumnStatistics>,
    statistics: &Statistics,
) -> f64 {
    if let Some(width) = data_type.primitive_width() {
        return width as f64;
    }
    let known = column.and_then(|column| {
        let bytes = *column.byte_size.get_value()? as f64;
        let rows = (*statistics.num_rows.get_value()?).max(1) as f64;
        Some(bytes / rows)
    });
    use DataType::*;
    match data_type {
        Boolean => 0.125,
        // The buffers of views stay on the host.
        Utf8View | BinaryView => 16.0,
        Dictionary(key, _) => key.primitive_width().unwrap_or(8) as f64,
        Utf8 | LargeUtf8 | Binary | LargeBinary => known.unwrap_or(TEXT_BYTES),
        FixedSizeBinary(width) => f64::from(*width),
        _ => NESTED_BYTES,
    }
}
