//! Evaluates expressions on the device, or on the host where the device cannot decide.

use std::borrow::Cow;
use std::slice::from_ref;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::Schema;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;

use crate::device::data::batch::DeviceBatch;
use crate::device::data::batch_column::BatchColumn;
use crate::device::data::column::Column;
use crate::device::data::encoding::CodedValues;
use crate::device::primitives::device::Device;
use crate::error::BowtieError;
use crate::ir::row_program::{RowProgram, RowSource};
use crate::ir::text_predicate::TextTest;
use crate::spec::rows::{ExpressionColumn, RowExpressions};

/// Rows that DataFusion evaluates at a time, as in its own batches: an operand of AND that fails is skipped where no row of a batch needs it.
const HOST_ROWS: usize = 8192;

/// One column for each expression, over the rows of `batch`. The device evaluates them, or DataFusion if the device
/// finds a row that it cannot decide.
pub(crate) fn evaluate(
    device: &dyn Device,
    of: &RowExpressions,
    batch: &DeviceBatch,
) -> crate::error::Result<Vec<Arc<Column>>> {
    let outputs = match (of.subqueries.is_empty(), of.program.outputs.is_empty()) {
        (false, _) => Err(BowtieError::NeedsDataFusion),
        (true, true) => Ok(vec![]),
        (true, false) => {
            let (program, columns) = read_by(device, &of.program, batch)?;
            let columns: Vec<&Column> = columns.iter().map(AsRef::as_ref).collect();
            device.map(batch.rows(), &program, &columns)
        }
    };
    let outputs = match outputs {
        Err(BowtieError::NeedsDataFusion) => return on_host(device, of, batch),
        made => made?,
    };
    let mut outputs: Vec<Option<Column>> = outputs.into_iter().map(Some).collect();
    let mut output = |at: usize| {
        let output = outputs.get_mut(at).and_then(Option::take);
        output.ok_or_else(|| BowtieError::Internal(format!("output {at} is missing")))
    };
    let made = of.columns.iter().map(|made| {
        let column = match made {
            ExpressionColumn::Program(at) => output(*at)?,
            ExpressionColumn::Choice { output: at, values } => {
                let numbers = output(*at)?.into_row_ids()?;
                let values = device.upload(from_ref(values))?;
                device.gather(&values, &numbers)?
            }
            ExpressionColumn::Slice { column, slice } => {
                device.slice_text(batch.column(*column)?, *slice)?
            }
        };
        Ok(Arc::new(column))
    });
    made.collect()
}

/// The columns that a program loads, in the order in which it numbers them: columns of `batch`, and results of string
/// predicates, which are evaluated here. The program that is returned loads the codes of encoded columns.
pub(crate) fn read_by<'a>(
    device: &dyn Device,
    program: &'a RowProgram,
    batch: &DeviceBatch,
) -> crate::error::Result<(Cow<'a, RowProgram>, Vec<Arc<Column>>)> {
    let mut program = Cow::Borrowed(program);
    let mut columns = Vec::with_capacity(program.columns.len());
    for at in 0..program.columns.len() {
        columns.push(match &program.columns[at] {
            RowSource::Column(i) => match batch.any(*i)? {
                BatchColumn::Encoded(encoded) => match &encoded.encoding.values {
                    CodedValues::Offset { least, .. } => {
                        program
                            .to_mut()
                            .load_codes(at, encoded.encoding.code, *least);
                        Arc::clone(&encoded.codes)
                    }
                    CodedValues::Dictionary(_) => Arc::clone(encoded.values()?),
                },
                BatchColumn::Values(values) => Arc::clone(values),
            },
            RowSource::Test(test) => Arc::new(tested(device, test, batch)?),
        });
    }
    Ok((program, columns))
}

/// The Boolean column that a test of text gives. The values of a dictionary are tested, not those of its rows.
fn tested(
    device: &dyn Device,
    test: &TextTest,
    batch: &DeviceBatch,
) -> crate::error::Result<Column> {
    let other = test.other().map(|other| batch.column(other)).transpose()?;
    if other.is_none()
        && let BatchColumn::Encoded(encoded) = batch.any(test.column)?
        && let CodedValues::Dictionary(dictionary) = &encoded.encoding.values
    {
        let truths = device.test_text(&dictionary.on_device, None, test)?;
        return device.gather(&truths, &encoded.numbers()?);
    }
    let tested = batch.column(test.column)?;
    device.test_text(tested, other.map(AsRef::as_ref), test)
}

/// One column for each expression, evaluated by DataFusion and uploaded.
pub(crate) fn on_host(
    device: &dyn Device,
    of: &RowExpressions,
    batch: &DeviceBatch,
) -> crate::error::Result<Vec<Arc<Column>>> {
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
    let columns = columns.collect::<crate::error::Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
    let evaluated = |expression: &Arc<dyn PhysicalExpr>| {
        let parts = (0..rows.max(1)).step_by(HOST_ROWS).map(|from| {
            let part = batch.slice(from, HOST_ROWS.min(rows - from));
            Ok(expression.evaluate(&part)?.into_array(part.num_rows())?)
        });
        device.upload(&parts.collect::<crate::error::Result<Vec<ArrayRef>>>()?)
    };
    of.expressions.iter().map(evaluated).collect()
}
