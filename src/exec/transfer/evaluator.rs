//! [`Evaluator`]: evaluates the expressions of a side on each batch. In: record batches. Out: batches with a column for
//! each expression.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};

use crate::device::primitives::device::Device;

/// Evaluates the expressions of a side, except for casts that the device computes faster.
#[derive(Debug, Clone)]
pub(crate) struct Evaluator {
    /// The schema of the output batches: the columns of the plan below, then one for each evaluated expression.
    schema: SchemaRef,
    /// The evaluated expressions, each with its column number in the side.
    evaluated: Arc<[(usize, Arc<dyn PhysicalExpr>)]>,
    layout: Layout,
}

/// The source of each column of a side.
pub(crate) type Layout = Arc<[Place]>;

/// The source of a column.
#[derive(Debug)]
pub(crate) enum Place {
    /// The next column of the batch.
    Batch,
    /// A cast of another column of the side, computed on the device.
    Widened { from: usize, to: DataType },
}

/// A batch with its evaluated columns. A column whose expression failed is NULL.
#[derive(Debug)]
pub(crate) struct Evaluated {
    pub(crate) batch: RecordBatch,
    /// The failed columns, numbered as in the side, with their errors.
    pub(crate) failures: Vec<(usize, Arc<DataFusionError>)>,
}

impl Evaluator {
    /// `schema` is the schema of the side: the columns of the plan below, then the expressions.
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

    /// The schema of the output batches.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The source of each column of the side.
    pub(crate) fn layout(&self) -> Layout {
        Arc::clone(&self.layout)
    }

    /// Evaluates all expressions on a batch. Fails only if the batch does not fit the schema.
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

/// The cast, if the expression is a cast of a column that the device computes.
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
