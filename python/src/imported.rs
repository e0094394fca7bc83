//! A table that Python hands over through the Arrow PyCapsule interface: its buffers are checked, and used as they are.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions, RecordBatchReader};
use arrow::error::ArrowError;
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3_arrow::input::AnyRecordBatch;

use crate::error::{ExecutionError, panic_text, to_python};
use crate::interned::interned;
use crate::valid_buffers::check_batch;

/// A table in memory, which connections register.
#[pyclass(frozen, module = "datafusion_bowtie._lib")]
pub struct ImportedTable {
    pub provider: Arc<dyn TableProvider>,
    rows: usize,
}

#[pymethods]
impl ImportedTable {
    /// Reads `source` to its end. With `immutable` its columns are known again when they are imported once more.
    #[new]
    fn new(py: Python<'_>, source: &Bound<'_, PyAny>, immutable: bool) -> PyResult<Self> {
        let reader =
            caught(|| source.extract::<AnyRecordBatch>()?.into_reader()).map_err(|error| {
                match error.is_instance_of::<PyTypeError>(py)
                    || error.is_instance_of::<PyValueError>(py)
                {
                    true => PyTypeError::new_err(format!(
                        "{} is not a table of Arrow columns: {}",
                        type_name(source),
                        error.value(py)
                    )),
                    false => error,
                }
            })?;
        let schema = reader.schema();
        let batches = py.detach(|| caught(|| read(reader, immutable)))?;
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        let table = MemTable::try_new(schema, vec![batches]).map_err(to_python)?;
        Ok(Self {
            provider: Arc::new(table),
            rows,
        })
    }

    fn __len__(&self) -> usize {
        self.rows
    }
}

fn type_name(object: &Bound<'_, PyAny>) -> String {
    object
        .get_type()
        .fully_qualified_name()
        .map_or_else(|_| "the object".into(), |name| name.to_string())
}

/// All batches with rows, whose buffers are valid. A signal's handler that raises ends it.
fn read(reader: Box<dyn RecordBatchReader + Send>, immutable: bool) -> PyResult<Vec<RecordBatch>> {
    let mut batches = vec![];
    for batch in reader {
        let batch = batch.map_err(unreadable)?;
        if batch.num_rows() > 0 {
            let valid = match immutable {
                true => with_interned_columns(&batch),
                false => check_batch(&batch).map(|()| batch),
            };
            batches.push(valid.map_err(unreadable)?);
        }
        Python::try_attach(|py| py.check_signals()).unwrap_or(Ok(()))?;
    }
    Ok(batches)
}

/// The interface passes errors on by their text alone. Ctrl-C raises within a reader that runs Python.
fn unreadable(error: ArrowError) -> PyErr {
    let text = format!("the table could not be read: {error}");
    match text.contains("KeyboardInterrupt") {
        true => PyKeyboardInterrupt::new_err(text),
        false => ExecutionError::new_err(text),
    }
}

fn with_interned_columns(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    let columns = columns.map(|(field, column)| interned(field.name(), column));
    let columns = columns.collect::<Result<_, _>>()?;
    RecordBatch::try_new_with_options(schema, columns, &rows)
}

/// A producer that breaks the protocol makes the importing code panic: an exception like others.
fn caught<T>(import: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(import))
        .unwrap_or_else(|panic| Err(ExecutionError::new_err(panic_text(&*panic))))
}
