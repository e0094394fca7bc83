//! Queries at work on one small device at the same time: what a step cannot have while others hold it, it waits for.

use super::staged::{QUERIES, ROWS};
use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_on_one_device() {
    for device_memory in ["1MB", "2MB"] {
        let ctx = session();
        Tuning::PLAIN.apply(&ctx);
        set(&ctx, "datafusion.optimizer.join_reordering", "false");
        set(&ctx, "bowtie.device_memory", device_memory);
        register(&ctx, "t", ROWS);
        register(&ctx, "few", 2_000);
        set(&ctx, "bowtie.offload", "off");
        let mut expected = vec![];
        for sql in QUERIES {
            expected.push(rows(&ctx, sql).await.unwrap().0);
        }
        set(&ctx, "bowtie.offload", "force");
        let queries = QUERIES.map(|sql| {
            let ctx = ctx.clone();
            tokio::spawn(async move { rows(&ctx, sql).await })
        });
        for ((sql, expected), query) in QUERIES.iter().zip(expected).zip(queries) {
            let given = query.await.unwrap();
            let (given, plan) = given.unwrap_or_else(|error| panic!("{sql}\n{error}"));
            assert_eq!(expected, given, "{sql}");
            assert!(shown(&plan).contains("Bowtie"), "{sql}\n{}", shown(&plan));
        }
    }
}
