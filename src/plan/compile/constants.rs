//! Constants of a program: expressions without columns.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;

use crate::plan::compile::early_value::evaluated;

/// The value of an expression without columns; `None` if it is not known while planning, or fails.
pub(crate) fn constant(expr: &Arc<dyn PhysicalExpr>, data_type: &DataType) -> Option<ScalarValue> {
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return Some(literal.value().clone());
    }
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options);
    let value = match evaluated(expr, &row.ok()?)? {
        ColumnarValue::Scalar(value) => value,
        ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0).ok()?,
    };
    (value.data_type() == *data_type).then_some(value)
}
