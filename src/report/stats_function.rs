//! `SELECT * FROM bowtie_stats()`: counters of this process, since it began.

use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::{MemTable, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::error::{DataFusionError, Result};

use crate::device::counters::Counted;

/// The table function. It takes no argument.
#[derive(Debug)]
pub(crate) struct StatsFunction;

impl StatsFunction {
    pub(crate) const NAME: &'static str = "bowtie_stats";
}

impl TableFunctionImpl for StatsFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        if !args.exprs().is_empty() {
            return Err(DataFusionError::Plan(
                "bowtie_stats takes no argument: SELECT * FROM bowtie_stats()".into(),
            ));
        }
        let schema = Arc::new(Schema::new(vec![
            Field::new("counter", DataType::Utf8, false),
            Field::new("value", DataType::UInt64, false),
            Field::new("unit", DataType::Utf8, false),
            Field::new("meaning", DataType::Utf8, false),
        ]));
        let text =
            |of: fn(Counted) -> &'static str| StringArray::from_iter_values(Counted::ALL.map(of));
        let columns = vec![
            Arc::new(text(Counted::name)) as _,
            Arc::new(UInt64Array::from_iter_values(
                Counted::ALL.map(Counted::of_process),
            )) as _,
            Arc::new(text(Counted::unit_name)) as _,
            Arc::new(text(Counted::meaning)) as _,
        ];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
        Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
    }
}
