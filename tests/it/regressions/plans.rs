//! Scans without partitions.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::streaming::StreamingTable;

use crate::support::snapshot::{offloaded, session_on_test_device as session};

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
