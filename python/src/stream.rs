//! Results batch by batch: a batch is computed when the reader asks for it, and a reader that is dropped ends the query.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;
use parking_lot::Mutex;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3_arrow::{PyRecordBatch, PySchema};

use crate::runtime::wait;

/// A query that was planned, and that begins to run when its first batch is asked for.
pub struct Pull {
    schema: SchemaRef,
    /// None when it has ended.
    state: Mutex<Option<Arc<tokio::sync::Mutex<State>>>>,
}

enum State {
    Planned(Arc<dyn ExecutionPlan>, Arc<TaskContext>),
    Running(SendableRecordBatchStream),
}

impl Pull {
    pub fn new(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Self {
        Self {
            schema: plan.schema(),
            state: Mutex::new(Some(Arc::new(tokio::sync::Mutex::new(State::Planned(
                plan, context,
            ))))),
        }
    }

    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The next batch with rows, or None at the end. After an error, a signal's included, the query is over.
    pub fn next(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        let Some(state) = self.state.lock().clone() else {
            return Ok(None);
        };
        let schema = self.schema();
        let batch = wait(py, async move { state.lock().await.next(&schema).await });
        if !matches!(batch, Ok(Some(_))) {
            self.close();
        }
        batch
    }

    pub fn close(&self) {
        let state = self.state.lock().take();
        // Not under the lock: buffers of Python run code of Python when they go.
        drop(state);
    }
}

impl State {
    async fn next(&mut self, schema: &SchemaRef) -> Result<Option<RecordBatch>> {
        loop {
            match self {
                Self::Planned(plan, context) => {
                    *self = Self::Running(execute_stream(Arc::clone(plan), Arc::clone(context))?)
                }
                Self::Running(stream) => match stream.next().await.transpose()? {
                    Some(batch) if batch.num_rows() == 0 => {}
                    Some(batch) => return with_schema(batch, schema).map(Some),
                    None => return Ok(None),
                },
            }
        }
    }
}

/// Operators may give batches whose columns are declared otherwise, as not nullable for instance: consumers check that all are alike.
pub fn with_schema(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if batch.schema_ref() == schema {
        return Ok(batch);
    }
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        batch.columns().to_vec(),
        &rows,
    )?)
}

/// The iterator of `DataFrame.to_batches`. Its batches have `__arrow_c_array__`.
#[pyclass(frozen, module = "datafusion_bowtie._lib")]
pub struct Batches(pub Pull);

#[pymethods]
impl Batches {
    #[getter]
    fn schema(&self) -> PySchema {
        PySchema::new(self.0.schema())
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<PyRecordBatch>> {
        Ok(self.0.next(py)?.map(PyRecordBatch::new))
    }

    fn close(&self) {
        self.0.close();
    }
}

/// What the Arrow C stream of a DataFrame reads from. Consumers call it with or without the GIL, on any thread.
pub struct PullReader(pub Pull);

impl Iterator for PullReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = Python::try_attach(|py| self.0.next(py).map_err(|error| in_stream(py, &error)));
        match read {
            Some(batch) => batch.transpose(),
            None => Some(Err(external("the interpreter ends".into()))),
        }
    }
}

impl RecordBatchReader for PullReader {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}

/// The error as the interface passes it on: by its text alone, so that a consumer raises an exception of its own, for Ctrl-C too.
fn in_stream(py: Python<'_>, error: &PyErr) -> ArrowError {
    match error.is_instance_of::<PyKeyboardInterrupt>(py) {
        true => external("the query was interrupted (KeyboardInterrupt)".into()),
        false => external(error.value(py).to_string()),
    }
}

/// The interface's text ends at a NUL.
fn external(text: String) -> ArrowError {
    ArrowError::from_external_error(text.replace('\0', "\u{fffd}").into())
}
