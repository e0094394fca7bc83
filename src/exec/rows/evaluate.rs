//! Evaluates expressions on the device, or [on the host](crate::exec::rows::on_host) where the device cannot decide.

use std::borrow::Cow;
use std::sync::Arc;

use crate::device::batches::batch::DeviceBatch;
use crate::device::batches::batch_column::BatchColumn;
use crate::device::data::column::Column;
use crate::device::data::encoding::CodedValues;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::exec::rows::choice::chosen;
use crate::exec::rows::distinct::with_results;
use crate::exec::rows::on_host::on_host;
use crate::ir::row_program::{RowProgram, RowSource};
use crate::ir::text_predicate::TextTest;
use crate::spec::rows::{ExpressionColumn, RowExpressions};

/// One column for each expression, over the rows of `batch`. The device evaluates them, or DataFusion if the device
/// finds a row that it cannot decide.
pub(crate) fn evaluate(
    device: &dyn Device,
    of: &RowExpressions,
    batch: &DeviceBatch,
) -> Result<Vec<BatchColumn>> {
    match on_device(device, of, batch) {
        Err(BowtieError::NeedsDataFusion) => {
            let made = on_host(device, of, batch)?.into_iter();
            Ok(made.map(BatchColumn::from).collect())
        }
        made => made,
    }
}

/// One column for each expression, by the device.
///
/// # Errors
/// [`BowtieError::NeedsDataFusion`] where DataFusion has to evaluate a row.
pub(crate) fn on_device(
    device: &dyn Device,
    of: &RowExpressions,
    batch: &DeviceBatch,
) -> Result<Vec<BatchColumn>> {
    let batch = with_results(device, of, batch)?;
    let outputs = match of.program.outputs.is_empty() {
        true => vec![],
        false => {
            let (program, columns) = read_by(device, &of.program, &batch)?;
            let columns: Vec<&Column> = columns.iter().map(AsRef::as_ref).collect();
            device.map(batch.rows(), &program, &columns)?
        }
    };
    let mut outputs: Vec<Option<Column>> = outputs.into_iter().map(Some).collect();
    let mut output = |at: usize| {
        let output = outputs.get_mut(at).and_then(Option::take);
        output.ok_or_else(|| BowtieError::Internal(format!("output {at} is missing")))
    };
    let made = of.columns.iter().map(|made| {
        let column = match made {
            ExpressionColumn::Column(column) => return batch.any(*column).cloned(),
            ExpressionColumn::Program(at) => output(*at)?,
            ExpressionColumn::Choice {
                output: at,
                sources,
            } => chosen(device, &batch, output(*at)?, sources)?,
            ExpressionColumn::Slice { column, slice } => {
                device.slice_text(batch.column(*column)?, *slice)?
            }
            ExpressionColumn::Shingles { column, length } => {
                device.shingle_text(batch.column(*column)?, *length)?
            }
        };
        Ok(column.into())
    });
    made.collect()
}

/// The columns that a program loads, in the order in which it numbers them: columns of `batch`, and results of string
/// predicates, which are evaluated here. The program that is returned loads the codes of encoded columns.
pub(crate) fn read_by<'a>(
    device: &dyn Device,
    program: &'a RowProgram,
    batch: &DeviceBatch,
) -> Result<(Cow<'a, RowProgram>, Vec<Arc<Column>>)> {
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
fn tested(device: &dyn Device, test: &TextTest, batch: &DeviceBatch) -> Result<Column> {
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
