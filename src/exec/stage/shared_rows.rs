//! [`SharedRows`]: the rows of one execution for the partitions of a node, in no partition in particular.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};
use tokio::sync::Mutex;

/// A stream whose batches go to whichever reader asks next. All readers together see each batch once, and all see an error.
#[derive(Clone)]
pub(crate) struct SharedRows(Arc<Mutex<Rows>>);

enum Rows {
    Begun(SendableRecordBatchStream),
    Ended,
    Failed(Arc<DataFusionError>),
}

impl fmt::Debug for SharedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedRows")
    }
}

impl SharedRows {
    pub(crate) fn of(rows: SendableRecordBatchStream) -> Self {
        Self(Arc::new(Mutex::new(Rows::Begun(rows))))
    }

    async fn next(&self) -> Option<Result<RecordBatch>> {
        let mut rows = self.0.lock().await;
        let next = match &mut *rows {
            Rows::Begun(rows) => rows.next().await,
            Rows::Ended => None,
            Rows::Failed(error) => Some(Err(DataFusionError::Shared(Arc::clone(error)))),
        };
        // What has ended holds nothing.
        match next {
            Some(Ok(batch)) => Some(Ok(batch)),
            Some(Err(error)) => {
                let error = Arc::new(error);
                *rows = Rows::Failed(Arc::clone(&error));
                Some(Err(DataFusionError::Shared(error)))
            }
            None => {
                *rows = Rows::Ended;
                None
            }
        }
    }

    /// A reader's stream. It ends after an error.
    pub(crate) fn reader(self, schema: SchemaRef) -> SendableRecordBatchStream {
        let rows = stream::unfold(Some(self), |rows| async move {
            let rows = rows?;
            let next = rows.next().await?;
            let rows = next.is_ok().then_some(rows);
            Some((next, rows))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, rows.boxed()))
    }
}
