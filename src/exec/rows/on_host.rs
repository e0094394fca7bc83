//! Expressions that DataFusion evaluates, of rows that are on a device: the columns that they read are downloaded, and the results uploaded.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::Schema;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use parking_lot::Mutex;

use crate::device::batches::batch::DeviceBatch;
use crate::device::data::column::Column;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::spec::rows::RowExpressions;

/// Rows that DataFusion evaluates at a time, as in its own batches: an operand of AND that fails is skipped where no row of a batch needs it.
const HOST_ROWS: usize = 8192;

/// One column for each expression, evaluated by DataFusion and uploaded.
pub(crate) fn on_host(
    device: &dyn Device,
    of: &RowExpressions,
    batch: &DeviceBatch,
) -> Result<Vec<Arc<Column>>> {
    let rows = batch.rows();
    let read: Vec<usize> = of
        .expressions
        .iter()
        .flat_map(collect_columns)
        .map(|column| column.index())
        .collect();
    let fields = of.input.fields().iter();
    // Columns that no expression reads are NULL.
    let fields = fields.map(|field| field.as_ref().clone().with_nullable(true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let columns = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(i, field)| match read.contains(&i) {
            true => batch.any(i)?.download(device),
            false => Ok(new_null_array(field.data_type(), rows)),
        });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
    let expressions = of.expressions.iter();
    let uploaded =
        expressions.map(|expression| device.upload(&by_parts(device, expression, &batch)?));
    uploaded.collect()
}

/// The values of an expression, evaluated by DataFusion on all cores. There is at least one array.
pub(crate) fn by_parts(
    device: &dyn Device,
    expression: &Arc<dyn PhysicalExpr>,
    batch: &RecordBatch,
) -> Result<Vec<ArrayRef>> {
    let rows = batch.num_rows();
    let parts = rows.div_ceil(HOST_ROWS).max(1);
    let made: Vec<Mutex<Option<ArrayRef>>> = (0..parts).map(|_| Mutex::default()).collect();
    device.for_each_on_host(parts, &|part| {
        let from = part * HOST_ROWS;
        let part_rows = batch.slice(from, HOST_ROWS.min(rows - from));
        let values = expression.evaluate(&part_rows)?;
        *made[part].lock() = Some(values.into_array(part_rows.num_rows())?);
        Ok(())
    })?;
    let made = made.into_iter().map(Mutex::into_inner);
    let made = made.collect::<Option<Vec<_>>>();
    made.ok_or_else(|| BowtieError::Internal("a part was not evaluated".into()))
}
