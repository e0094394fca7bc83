//! `SELECT * FROM bowtie_stats()`: counters of this process, since it began.

use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::error::Result;

use crate::device::counters::Counted;
use crate::plan::cache::rows_table::{Rows, RowsTable};

/// The table function. It takes no argument.
#[derive(Debug)]
pub(crate) struct StatsFunction;

impl StatsFunction {
    pub(crate) const NAME: &'static str = "bowtie_stats";
}

impl TableFunctionImpl for StatsFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        RowsTable::without_arguments(Stats, &args)
    }
}

/// The counters at the time of the scan.
#[derive(Debug)]
struct Stats;

#[async_trait]
impl Rows for Stats {
    fn function(&self) -> &'static str {
        StatsFunction::NAME
    }

    fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(vec![
            Field::new("counter", DataType::Utf8, false),
            Field::new("value", DataType::UInt64, false),
            Field::new("unit", DataType::Utf8, false),
            Field::new("meaning", DataType::Utf8, false),
        ]))
    }

    async fn rows(&self, _session: &dyn Session) -> Result<RecordBatch> {
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
        Ok(RecordBatch::try_new(self.schema(), columns)?)
    }
}
