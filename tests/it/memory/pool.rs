//! DataFusion's memory pool bounds what is stored on the host.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::physical_plan::collect;
use futures::StreamExt;

use crate::support::answer::{plan_of, shown};
use crate::support::session::{session_in, session_without_files, set};
use crate::support::tables::{
    permuted_table, register_batches, register_in_pieces, register_whole,
};
use crate::support::tuning::Tuning;

/// Where spilling is disabled, the build side must fit the pool; if not, the error says so and all memory is released.
#[tokio::test]
async fn a_pool_too_small_for_the_build_side() {
    for sql in [
        "SELECT r.id, s.id AS j FROM r JOIN s ON r.a > s.a + 199990",
        "SELECT count(*), sum(s.id) FROM r JOIN s ON r.a > s.a",
        "SELECT r.id, s.id AS j FROM r JOIN s ON r.a = s.a AND r.id <> s.id",
    ] {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 20));
        let ctx = session_without_files(Arc::clone(&pool));
        register_in_pieces(&ctx, "r", 200_000, 8_000);
        register_in_pieces(&ctx, "s", 200_000, 8_000);
        Tuning::PLAIN.apply(&ctx);
        set(&ctx, "bowtie.offload", "force");
        let plan = plan_of(&ctx, sql).await.unwrap();
        assert!(shown(&plan).contains("Bowtie"), "{}", shown(&plan));
        let error = collect(plan, ctx.task_ctx()).await.unwrap_err();
        assert!(
            matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)),
            "{error}"
        );
        assert!(error.to_string().contains("BowtieUpload"), "{error}");
        assert_eq!(pool.reserved(), 0, "{sql}");
    }
}

/// A pool of a few times the inputs' size is enough, although the output is far larger; all memory is released.
#[tokio::test]
async fn a_pool_that_holds_the_inputs() {
    let inputs: usize = 2 * 100_000 * 16;
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(4 * inputs));
    let ctx = session_in(Arc::clone(&pool));
    register_in_pieces(&ctx, "r", 100_000, 8_000);
    register_in_pieces(&ctx, "s", 100_000, 8_000);
    for sql in [
        "SELECT r.id, s.id AS j FROM r JOIN s ON r.a BETWEEN s.a - 5 AND s.a + 5",
        "SELECT count(*), sum(s.id) FROM r JOIN s ON r.a > s.a",
    ] {
        Tuning::PLAIN.apply(&ctx);
        set(&ctx, "bowtie.offload", "force");
        let plan = plan_of(&ctx, sql).await.unwrap();
        let mut stream = datafusion::physical_plan::execute_stream(plan, ctx.task_ctx()).unwrap();
        let mut rows = 0;
        while let Some(batch) = stream.next().await {
            rows += batch.unwrap_or_else(|e| panic!("{sql}\n{e}")).num_rows();
        }
        assert!(rows == 1 || rows > 1_000_000, "{rows}");
        drop(stream);
        assert_eq!(pool.reserved(), 0, "{sql}");
    }
}

/// A batch of a large table arrives as slices that share its buffers: each reserves memory for its own rows only.
#[tokio::test]
async fn slices_of_one_batch_are_counted_once() {
    let inputs: usize = 2 * 100_000 * 16;
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(4 * inputs));
    let ctx = session_in(Arc::clone(&pool));
    register_whole(&ctx, "r", permuted_table(100_000, 0));
    register_whole(&ctx, "s", permuted_table(100_000, 0));
    Tuning::PLAIN.apply(&ctx);
    set(&ctx, "bowtie.offload", "force");
    let sql = "SELECT count(*), sum(s.id) FROM r JOIN s ON r.a > s.a";
    let plan = plan_of(&ctx, sql).await.unwrap();
    collect(plan, ctx.task_ctx())
        .await
        .unwrap_or_else(|e| panic!("{e}"));
}

/// A few groups of views do not keep the buffers of all rows, and staged chunks reserve the bytes of their views.
#[tokio::test]
async fn groups_of_views_are_small() {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(64 << 20));
    let ctx = session_in(Arc::clone(&pool));
    let long: Vec<String> = (0..5).map(|i| format!("{i}").repeat(40)).collect();
    let batches: Vec<RecordBatch> = (0..25)
        .map(|piece| {
            let k = (0..8000).map(|i| Some(long[(piece + i) % 5].as_str()));
            let k: StringViewArray = k.collect();
            RecordBatch::try_from_iter([("k", Arc::new(k) as ArrayRef)]).unwrap()
        })
        .collect();
    register_batches(&ctx, "v", batches);
    set(&ctx, "bowtie.offload", "force");
    for sql in [
        "SELECT k, count(*) FROM v GROUP BY k",
        "SELECT min(k), max(k), count(DISTINCT k) FROM v",
    ] {
        let rows = ctx.sql(sql).await.unwrap().collect().await.unwrap();
        assert!(rows.iter().map(RecordBatch::num_rows).sum::<usize>() >= 1);
        drop(rows);
        assert_eq!(pool.reserved(), 0, "{sql}");
    }
}
