//! `bowtie_stats`: counters of the process, which only grow.

use std::collections::BTreeMap;

use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;
use datafusion::prelude::SessionContext;

use crate::support::snapshot::{run, session};

async fn counters(context: &SessionContext) -> BTreeMap<String, u64> {
    let batches = run(context, "SELECT counter, value FROM bowtie_stats()").await;
    let batches = batches.unwrap();
    let rows = batches.iter().flat_map(|batch| {
        let names = batch.column(0).as_string::<i32>().iter().flatten();
        let values = batch.column(1).as_primitive::<UInt64Type>().iter();
        names.map(str::to_string).zip(values.flatten())
    });
    rows.collect()
}

#[tokio::test]
async fn counters_only_grow() {
    let context = session("force").await;
    let mut before = counters(&context).await;
    assert_eq!(before.len(), 17);
    for offload in ["force", "off", "auto"] {
        let set = format!("SET bowtie.offload = '{offload}'");
        run(&context, &set).await.unwrap();
        let sql = "SELECT r.k, count(*) FROM r JOIN s ON r.a > s.a GROUP BY r.k";
        run(&context, sql).await.unwrap();
        let after = counters(&context).await;
        for (counter, value) in &before {
            assert!(
                after[counter] >= *value,
                "{counter}: {value} before {after:?}"
            );
        }
        // Six by five pairs are too few for auto.
        let grows = if offload == "force" {
            "offloaded_queries"
        } else {
            "declined_queries"
        };
        if offload != "off" {
            assert!(after[grows] > before[grows], "{offload}: {after:?}");
        }
        before = after;
    }
}
