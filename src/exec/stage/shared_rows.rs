//! [`SharedRows`]: the rows of one execution for the partitions of a node, in no partition in particular.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream;
use parking_lot::Mutex;

/// A stream whose batches go to whichever reader asks next. All readers together see each batch once, and all see an error.
///
/// A batch that comes wakes all readers: one that has asked and is not polled again, as its own reader waits for something else, holds none of
/// the others up.
#[derive(Clone)]
pub(crate) struct SharedRows(Arc<Shared>);

struct Shared {
    rows: Mutex<Rows>,
    waiting: Arc<Waiting>,
    /// Whether a reader has come while another one asked the stream.
    has_missed: AtomicBool,
}

enum Rows {
    Begun(SendableRecordBatchStream),
    Ended,
    Failed(Arc<DataFusionError>),
}

/// The readers that wait.
#[derive(Default)]
struct Waiting(Mutex<Vec<Waker>>);

impl Waiting {
    fn add(&self, waker: &Waker) {
        let mut waiting = self.0.lock();
        if !waiting.iter().any(|known| known.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }

    fn wake_all(&self) {
        let waiting = std::mem::take(&mut *self.0.lock());
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }
}

impl fmt::Debug for SharedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedRows")
    }
}

impl Rows {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        let next = match self {
            Self::Begun(rows) => ready!(rows.as_mut().poll_next(context)),
            Self::Ended => None,
            Self::Failed(error) => Some(Err(DataFusionError::Shared(Arc::clone(error)))),
        };
        // What has ended holds nothing.
        Poll::Ready(match next {
            Some(Ok(batch)) => Some(Ok(batch)),
            Some(Err(error)) => {
                let error = match error {
                    DataFusionError::Shared(error) => error,
                    error => Arc::new(error),
                };
                *self = Self::Failed(Arc::clone(&error));
                Some(Err(DataFusionError::Shared(error)))
            }
            None => {
                *self = Self::Ended;
                None
            }
        })
    }
}

impl Shared {
    fn poll_next(&self, context: &Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        self.waiting.add(context.waker());
        let mut rows = match self.rows.try_lock() {
            Some(rows) => rows,
            None => {
                // Who holds the lock sees this after it has let go, unless it has let go already.
                self.has_missed.store(true, Ordering::SeqCst);
                match self.rows.try_lock() {
                    Some(rows) => rows,
                    None => return Poll::Pending,
                }
            }
        };
        let waker = Waker::from(Arc::clone(&self.waiting));
        let next = rows.poll_next(&mut Context::from_waker(&waker));
        drop(rows);
        // After a batch the stream wakes nobody before it is asked again.
        if self.has_missed.swap(false, Ordering::SeqCst) || next.is_ready() {
            self.waiting.wake_all();
        }
        next
    }
}

impl SharedRows {
    pub(crate) fn of(rows: SendableRecordBatchStream) -> Self {
        Self(Arc::new(Shared {
            rows: Mutex::new(Rows::Begun(rows)),
            waiting: Arc::default(),
            has_missed: AtomicBool::new(false),
        }))
    }

    /// A reader's stream. It ends after an error.
    pub(crate) fn reader(self, schema: SchemaRef) -> SendableRecordBatchStream {
        let mut rows = Some(self);
        let rows = stream::poll_fn(move |context| {
            let Some(shared) = &rows else {
                return Poll::Ready(None);
            };
            let next = ready!(shared.0.poll_next(context));
            if !matches!(next, Some(Ok(_))) {
                rows = None;
            }
            Poll::Ready(next)
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use arrow::datatypes::Schema;
    use datafusion::common::exec_datafusion_err;
    use futures::channel::mpsc::{UnboundedSender, unbounded};
    use futures::{StreamExt, poll};

    use super::*;

    fn shared() -> (UnboundedSender<Result<RecordBatch>>, SharedRows, SchemaRef) {
        let (sender, rows) = unbounded();
        let schema = Arc::new(Schema::empty());
        let rows = RecordBatchStreamAdapter::new(Arc::clone(&schema), rows);
        (sender, SharedRows::of(Box::pin(rows)), schema)
    }

    fn batch() -> RecordBatch {
        RecordBatch::new_empty(Arc::new(Schema::empty()))
    }

    #[tokio::test]
    async fn a_reader_that_is_not_polled_holds_nobody_up() {
        let (sender, rows, schema) = shared();
        let mut still = rows.clone().reader(Arc::clone(&schema));
        let mut other = rows.reader(schema);
        assert!(poll!(still.next()).is_pending());
        let read = tokio::spawn(async move { other.next().await.map(|batch| batch.is_ok()) });
        tokio::task::yield_now().await;
        sender.unbounded_send(Ok(batch())).unwrap();
        let read = tokio::time::timeout(Duration::from_secs(20), read).await;
        assert_eq!(read.unwrap().unwrap(), Some(true));
        drop(sender);
        assert!(still.next().await.is_none());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn each_batch_is_seen_once() {
        let (sender, rows, schema) = shared();
        let readers: Vec<_> = (0..8)
            .map(|_| tokio::spawn(rows.clone().reader(Arc::clone(&schema)).count()))
            .collect();
        drop(rows);
        for n in 0..10_000 {
            sender.unbounded_send(Ok(batch())).unwrap();
            if n % 64 == 0 {
                tokio::task::yield_now().await;
            }
        }
        drop(sender);
        let all = futures::future::join_all(readers);
        let all = tokio::time::timeout(Duration::from_secs(60), all).await;
        let seen: usize = all.unwrap().into_iter().map(|seen| seen.unwrap()).sum();
        assert_eq!(seen, 10_000);
    }

    #[tokio::test]
    async fn all_readers_see_an_error() {
        let (sender, rows, schema) = shared();
        let readers = [(); 3].map(|()| rows.clone().reader(Arc::clone(&schema)));
        sender
            .unbounded_send(Err(exec_datafusion_err!("no rows")))
            .unwrap();
        for reader in readers {
            let seen: Vec<_> = reader.collect().await;
            let [Err(error)] = &seen[..] else {
                panic!("{seen:?}");
            };
            assert!(error.to_string().contains("no rows"), "{error}");
        }
    }
}
