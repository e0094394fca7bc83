//! Expressions of one column that no program has: DataFusion evaluates them once for each distinct value of the column in a batch, and the
//! device gathers each row's result by the number of its value.
//!
//! ```text
//! t   a b a NULL b     numbers   0 1 0 2 1     upper(t) of a, b, NULL   A B NULL     gathered   A B A NULL B
//! ```
//!
//! Where a column has too many distinct values, its rows are evaluated one by one.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef};

use crate::device::batches::batch::DeviceBatch;
use crate::device::batches::batch_column::BatchColumn;
use crate::device::data::column::Column;
use crate::device::data::encoding::CodedValues;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::exec::rows::distinct_values::{DistinctValues, distinct_values};
use crate::exec::rows::on_host::by_parts;
use crate::spec::rows::{DistinctExpression, RowExpressions};

/// `batch`, and behind its columns the results of the expressions that are evaluated by distinct values.
///
/// # Errors
/// [`BowtieError::NeedsDataFusion`] where one of them fails: a CASE may keep its rows from that. Also while scalar subqueries are unknown.
pub(crate) fn with_results(
    device: &dyn Device,
    of: &RowExpressions,
    batch: &DeviceBatch,
) -> Result<DeviceBatch> {
    if !of.subqueries.is_empty() {
        return Err(BowtieError::NeedsDataFusion);
    }
    if of.distinct.is_empty() {
        return Ok(batch.clone());
    }
    let mut evaluated: Vec<(usize, Values)> = vec![];
    let mut results = vec![];
    for distinct in &of.distinct {
        let known = evaluated.iter().position(|(of, _)| *of == distinct.column);
        let known = match known {
            Some(known) => known,
            None => {
                let column = batch.any(distinct.column)?;
                let values = Values::of(device, column, &distinct.schema)?;
                evaluated.push((distinct.column, values));
                evaluated.len() - 1
            }
        };
        let result = evaluated[known].1.result(device, distinct);
        results.push(result.map_err(|error| match error.is_of_expressions() {
            true => BowtieError::NeedsDataFusion,
            false => error,
        })?);
    }
    Ok(batch.with_columns(of.input.fields().len(), results))
}

/// The values of a column for which expressions are evaluated.
enum Values {
    /// Each one once.
    Distinct(DistinctValues),
    /// Those of all rows.
    Rows(ArrayRef),
}

impl Values {
    fn of(device: &dyn Device, column: &BatchColumn, schema: &SchemaRef) -> Result<Self> {
        // A dictionary may have values that no row has. Where one of them fails, the rows are evaluated.
        if let BatchColumn::Encoded(encoded) = column
            && let CodedValues::Dictionary(dictionary) = &encoded.encoding.values
        {
            return Ok(Self::Distinct(DistinctValues {
                numbers: encoded.numbers()?,
                values: Arc::clone(&dictionary.on_host),
            }));
        }
        let column = column.values()?.as_ref();
        Ok(
            match distinct_values(device, column, schema.field(0).data_type())? {
                Some(distinct) => Self::Distinct(distinct),
                None => Self::Rows(device.download(column)?),
            },
        )
    }

    /// The result of each row.
    fn result(&self, device: &dyn Device, of: &DistinctExpression) -> Result<Arc<Column>> {
        let values = match self {
            Self::Distinct(distinct) => &distinct.values,
            Self::Rows(values) => values,
        };
        let field = of.schema.field(0).clone().with_nullable(true);
        let schema = Schema::new_with_metadata(vec![field], of.schema.metadata().clone());
        let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::clone(values)])?;
        let results = by_parts(device, &of.expression, &batch)?;
        match self {
            Self::Rows(_) => device.upload(&results),
            Self::Distinct(distinct) => {
                let results = device.upload(&results)?;
                device.gather(&results, &distinct.numbers).map(Arc::new)
            }
        }
    }
}
