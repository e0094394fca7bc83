//! How many distinct values columns have: [`values_of`], and [`are_few`]: whether expressions that are evaluated by them are likely to gain from that.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;

use crate::exec::scan::table::Table;
use crate::plan::statistics::origin::source;
use crate::plan::statistics::statistics_cache::StatisticsCache;
use crate::spec::rows::RowExpressions;

/// The least mean number of rows of a value.
const ROWS_OF_A_VALUE: usize = 8;

/// Text of a greater mean length is a message or an address more often than the name of something.
const LONG_TEXT: u64 = 48;

/// About how many values `key` has, an expression over the rows of `plan`, where statistics or the encoding of files tell.
pub(crate) fn values_of(
    plan: &Arc<dyn ExecutionPlan>,
    statistics: &StatisticsCache,
    key: &Arc<dyn PhysicalExpr>,
) -> Option<f64> {
    let column = key.downcast_ref::<Column>()?.index();
    let known = statistics.statistics(plan);
    let counted = known.column_statistics.get(column).and_then(count);
    counted.map(|values| values as f64).or_else(|| {
        let (table, column) = source(plan, column)?;
        table.distinct_values(column)
    })
}

/// Whether each column of `plan` that `expressions` read by distinct values is likely to have few.
pub(crate) fn are_few(
    plan: &Arc<dyn ExecutionPlan>,
    statistics: &StatisticsCache,
    expressions: &RowExpressions,
) -> bool {
    if expressions.distinct.is_empty() {
        return true;
    }
    let source = |column| source(plan, column);
    are_few_of(&statistics.statistics(plan), &source, expressions)
}

/// The same for the columns of a table whose scan has others.
pub(crate) fn are_few_in(table: &Table, expressions: &RowExpressions) -> bool {
    let statistics = Statistics::new_unknown(&expressions.input);
    let source = |column| Some((table.clone(), column));
    are_few_of(&statistics, &source, expressions)
}

/// By statistics of the columns, and the tables that they come from as they are.
fn are_few_of(
    statistics: &Statistics,
    source: &dyn Fn(usize) -> Option<(Table, usize)>,
    expressions: &RowExpressions,
) -> bool {
    let distinct = expressions.distinct.iter();
    distinct.filter(|part| !part.even_by_rows).all(|distinct| {
        let data_type = distinct.schema.field(0).data_type();
        let rows = statistics.num_rows.get_value().copied();
        let column = statistics.column_statistics.get(distinct.column);
        if let Some(count) = column.and_then(count) {
            return rows.is_none_or(|rows| count <= rows / ROWS_OF_A_VALUE);
        }
        match data_type {
            DataType::Boolean | DataType::Date32 | DataType::Int8 | DataType::UInt8 => true,
            DataType::Dictionary(..) => true,
            of_text if is_text(of_text) => source(distinct.column).is_none_or(|(table, column)| {
                let is_short = |length| length <= LONG_TEXT;
                table.repeats(column) || table.text_length(column).is_none_or(is_short)
            }),
            _ => false,
        }
    })
}

/// The distinct values of a column at most, as far as its statistics tell.
fn count(column: &ColumnStatistics) -> Option<usize> {
    if let Some(count) = column.distinct_count.get_value() {
        return Some(*count);
    }
    let number = |value: Option<&ScalarValue>| match value?.cast_to(&DataType::Int64).ok()? {
        ScalarValue::Int64(number) => number,
        _ => None,
    };
    let is_whole = |value: &ScalarValue| {
        let data_type = value.data_type();
        data_type.is_integer() || data_type.is_temporal()
    };
    let (least, most) = (column.min_value.get_value(), column.max_value.get_value());
    if !least.is_some_and(is_whole) {
        return None;
    }
    let span = number(most)?.checked_sub(number(least)?)?;
    usize::try_from(span.checked_add(1)?).ok()
}

/// Whether values of the type are text or binary of any length.
pub(crate) fn is_text(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView => true,
        Dictionary(_, values) => is_text(values),
        _ => false,
    }
}
