//! [`share_of`]: how many rows of a table in memory a predicate keeps, by a sample of it.

use arrow::array::AsArray;
use datafusion::physical_expr::utils::collect_columns;

use crate::exec::scan::table::Table;
use crate::plan::compile::compiler::Expr;
use crate::plan::compile::early_value::evaluated;

/// The greatest mean length of text of which a sample is looked at while planning, in bytes.
const SAMPLED_TEXT: u64 = 256;

/// The share of a table's rows for which `predicate` over the columns of its scan is true. `None` without a sample, or if the predicate has no
/// value before the query runs, fails on a row of the sample, or reads long text. A predicate that no row of the sample satisfies is taken for one
/// that half a row does.
pub(crate) fn share_of(table: &Table, predicate: &Expr) -> Option<f64> {
    let columns = collect_columns(predicate);
    let is_long = |column| {
        table
            .text_length(column)
            .is_some_and(|mean| mean > SAMPLED_TEXT)
    };
    if columns.iter().any(|column| is_long(column.index())) {
        return None;
    }
    let (mut rows, mut kept) = (0, 0);
    for sample in table.sample() {
        let found = evaluated(predicate, &sample)?;
        let found = found.into_array(sample.num_rows()).ok()?;
        rows += sample.num_rows();
        kept += found.as_boolean_opt()?.true_count();
    }
    (rows > 0).then(|| (kept as f64).max(0.5) / rows as f64)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, binary, col, lit};
    use datafusion::physical_plan::ExecutionPlan;

    use super::{Expr, share_of};
    use crate::exec::scan::table::Table;

    /// Of one long batch, and of many short ones.
    #[test]
    fn a_sample_tells_how_many_rows_a_predicate_keeps() {
        for rows_each in [100_000, 700, 3] {
            let batches = (0..100_000 / rows_each).map(|i| {
                let numbers = (i * rows_each..(i + 1) * rows_each).map(|n| n * 7919 % 1000);
                let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
                RecordBatch::try_from_iter([("unread", Arc::clone(&numbers)), ("v", numbers)])
                    .unwrap()
            });
            let batches: Vec<RecordBatch> = batches.collect();
            let schema = batches[0].schema();
            let projected = Some(vec![1]);
            let plan: Arc<dyn ExecutionPlan> =
                MemorySourceConfig::try_new_exec(&[batches], schema, projected).unwrap();
            let table = Table::of(&plan).unwrap();
            let share = |operator, constant: i64| {
                let v = col("v", table.schema()).unwrap();
                let test = binary(v, operator, lit(constant), table.schema()).unwrap();
                share_of(&table, &test)
            };
            let quarter = share(Operator::Lt, 250).unwrap();
            assert!((0.15..0.35).contains(&quarter), "{rows_each}: {quarter}");
            assert_eq!(share(Operator::Lt, 1_000), Some(1.0));
            let none = share(Operator::Gt, 1_000).unwrap();
            assert!(none > 0.0 && none < 0.01, "{rows_each}: {none}");
            let v = col("v", table.schema()).unwrap();
            let number = binary(v, Operator::Divide, lit(0_i64), table.schema()).unwrap();
            let fails = binary(number, Operator::Gt, lit(1_i64), table.schema()).unwrap();
            assert_eq!(share_of(&table, &fails), None);
            let v = col("v", table.schema()).unwrap();
            let changes = Arc::new(DynamicFilterPhysicalExpr::new(vec![v], lit(true)));
            assert_eq!(share_of(&table, &(changes as Expr)), None);
        }
    }
}
