//! Scans without partitions, and scans that panic.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;

use crate::support::session::set;
use crate::support::snapshot::{answer, offloaded, run, session_on_test_device as session};

/// A scan may have no partition at all.
#[tokio::test]
async fn inputs_without_partitions() {
    let context = session("force").await;
    let fields = vec![Field::new("a", DataType::Int64, true)];
    let table = StreamingTable::try_new(Arc::new(Schema::new(fields)), vec![]).unwrap();
    context.register_table("nothing", Arc::new(table)).unwrap();
    for (query, node, expected) in [
        (
            "SELECT r.a FROM r JOIN nothing ON r.a > nothing.a",
            "BowtieJoinExec",
            "",
        ),
        (
            "SELECT count(*), sum(a) FROM nothing",
            "BowtieAggregateExec",
            "0 NULL",
        ),
        (
            "SELECT count(*) FROM r LEFT JOIN nothing ON r.a = nothing.a",
            "BowtieJoinAggregateExec",
            "6",
        ),
    ] {
        let given = offloaded(&context, query, &[node]).await;
        assert_eq!(given, expected, "{query}");
    }
}

/// A partition of one batch, behind which its reader panics.
#[derive(Debug)]
struct Panics(SchemaRef);

impl PartitionStream for Panics {
    fn schema(&self) -> &SchemaRef {
        &self.0
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.0);
        let batches = (0..2).map(move |number| {
            assert!(number == 0, "on purpose");
            let column = Arc::new(Int64Array::from(vec![1, 2]));
            Ok(RecordBatch::try_new(Arc::clone(&schema), vec![column])?)
        });
        let batches = futures::stream::iter(batches);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.0), batches))
    }
}

/// As where DataFusion reads it in a task of its own, the query has an error, and the process goes on.
#[tokio::test]
async fn inputs_that_panic() {
    let context = session("force").await;
    // No exchange of DataFusion is below the upload, whose tasks make errors of panics.
    set(&context, "datafusion.execution.target_partitions", "1");
    let fields = vec![Field::new("a", DataType::Int64, true)];
    let schema = Arc::new(Schema::new(fields));
    for partitions in [1, 3] {
        let panics = Panics(Arc::clone(&schema));
        let panics: Arc<dyn PartitionStream> = Arc::new(panics);
        let table = StreamingTable::try_new(Arc::clone(&schema), vec![panics; partitions]).unwrap();
        context.register_table("broken", Arc::new(table)).unwrap();
        for query in [
            "SELECT r.a FROM r JOIN broken ON r.a > broken.a",
            "SELECT count(*), sum(a) FROM broken",
            "SELECT * FROM bowtie_clusters('SELECT a, a + 1 FROM broken')",
        ] {
            let error = run(&context, query).await.unwrap_err().strip_backtrace();
            // A projection or a merge may be between.
            let expected = "Exec panicked while bowtie read its rows: on purpose";
            assert!(error.contains(expected), "{query}: {error}");
        }
        context.deregister_table("broken").unwrap();
    }
    assert_eq!(answer(&context, "SELECT count(*) FROM r").await, "6");
}
