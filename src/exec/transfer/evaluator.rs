//! [`Evaluator`]: adds the expressions of a side to its batches, on the thread that reads them.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};

use crate::device::primitives::device::Device;

/// Adds the expressions of a side to its batches, but for casts that the device makes sooner.
#[derive(Debug, Clone)]
pub(crate) struct Evaluator {
    /// Of the batches: the columns of the plan below, then one for each expression that is evaluated.
    schema: SchemaRef,
    /// Those expressions, and the column of the side that each is.
    evaluated: Arc<[(usize, Arc<dyn PhysicalExpr>)]>,
    layout: Layout,
}

/// Where each column of a side is.
pub(crate) type Layout = Arc<[Place]>;

#[derive(Debug)]
pub(crate) enum Place {
    /// The next column of the batch.
    Batch,
    /// Another column of the side, cast on the device.
    Widened { from: usize, to: DataType },
}

/// A batch with its evaluated columns; those that have no value on some row are NULL, and it is noted why.
#[derive(Debug)]
pub(crate) struct Evaluated {
    pub(crate) batch: RecordBatch,
    /// By column of the side.
    pub(crate) failures: Vec<(usize, Arc<DataFusionError>)>,
}

impl Evaluator {
    /// `schema` is that of the side: the columns of the plan below, then the expressions.
    pub(crate) fn new(
        schema: &SchemaRef,
        expressions: &[Arc<dyn PhysicalExpr>],
        device: &dyn Device,
    ) -> Self {
        let plan_columns = schema.fields().len() - expressions.len();
        let mut fields = schema.fields()[..plan_columns].to_vec();
        let mut places: Vec<Place> = fields.iter().map(|_| Place::Batch).collect();
        let mut evaluated = vec![];
        for (column, expression) in (plan_columns..).zip(expressions) {
            places.push(match widened(expression, schema, device) {
                Some(widened) => widened,
                None => {
                    fields.push(Arc::clone(&schema.fields()[column]));
                    evaluated.push((column, Arc::clone(expression)));
                    Place::Batch
                }
            });
        }
        Self {
            schema: Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())),
            evaluated: evaluated.into(),
            layout: places.into(),
        }
    }

    /// Of the batches that it makes.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn layout(&self) -> Layout {
        Arc::clone(&self.layout)
    }

    pub(crate) fn evaluate(&self, batch: &RecordBatch) -> Result<Evaluated> {
        let rows = batch.num_rows();
        let mut columns = batch.columns().to_vec();
        let mut failures = vec![];
        for (column, expression) in self.evaluated.iter() {
            let evaluated = expression
                .evaluate(batch)
                .and_then(|value| value.into_array(rows));
            columns.push(match evaluated {
                Ok(array) => array,
                Err(error) => {
                    failures.push((*column, Arc::new(error)));
                    new_null_array(self.schema.field(columns.len()).data_type(), rows)
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(Evaluated {
            batch: RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?,
            failures,
        })
    }
}

/// A cast of a column that the device makes.
fn widened(
    expression: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
    device: &dyn Device,
) -> Option<Place> {
    let cast = expression.downcast_ref::<CastExpr>()?;
    let from = cast.expr().downcast_ref::<Column>()?.index();
    let to = cast.cast_type();
    let widens = device.widens(schema.field(from).data_type(), to);
    widens.then(|| Place::Widened {
        from,
        to: to.clone(),
    })
}
