//! Memory: the device's budget bounds what is leased, whatever comes out; the session's pool bounds what is on the host.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, DictionaryArray, Int32Array, Int64Array, ListArray, RecordBatch,
    StringArray, StringViewArray,
};
use arrow::compute::kernels::length::length;
use arrow::compute::{cast, sum};
use arrow::datatypes::{Int8Type, Int32Type};
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use datafusion::prelude::SessionContext;
use futures::StreamExt;

use crate::answer::{Answer, assert_offloaded, forced, plan_of, same_rows, shown, stock};
use crate::session::{Tuning, session, session_in, session_without_files, set};

const LIMIT: usize = 1 << 20;

/// `id` 0 .. rows, `a` a permutation-like scatter of it, `t` text of `width` bytes.
fn table(rows: i64, width: usize) -> RecordBatch {
    let a = Int64Array::from_iter_values((0..rows).map(|i| i * 7919 % rows));
    let t: StringArray = (0..rows)
        .map(|i| (width > 0).then(|| "0".repeat(width - 5) + &format!("{i:05}")))
        .collect();
    RecordBatch::try_from_iter_with_nullable([
        (
            "id",
            Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef,
            false,
        ),
        ("a", Arc::new(a), false),
        ("t", Arc::new(t), true),
    ])
    .unwrap()
}

fn register(ctx: &SessionContext, name: &str, batch: RecordBatch) {
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
    ctx.register_table(name, Arc::new(table)).unwrap();
}

/// Batches of their own, of `rows_each` rows.
fn register_in_pieces(ctx: &SessionContext, name: &str, rows: i64, rows_each: i64) {
    let schema = table(1, 0).schema();
    let batches = (0..rows / rows_each)
        .map(|piece| {
            let ids = (piece * rows_each)..((piece + 1) * rows_each);
            let a = Int64Array::from_iter_values(ids.clone().map(|i| i * 7919 % rows));
            let columns: Vec<ArrayRef> = vec![
                Arc::new(Int64Array::from_iter_values(ids)),
                Arc::new(a),
                Arc::new(StringArray::new_null(rows_each as usize)),
            ];
            RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
        })
        .collect();
    let table = MemTable::try_new(schema, vec![batches]).unwrap();
    ctx.register_table(name, Arc::new(table)).unwrap();
}

/// The greatest value of a metric in the plan; `None` when no node has it.
fn metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> Option<usize> {
    let own = plan
        .metrics()
        .and_then(|metrics| metrics.sum_by_name(name).map(|value| value.as_usize()));
    let below = plan.children().into_iter().filter_map(|c| metric(c, name));
    own.into_iter().chain(below).max()
}

fn tight(ctx: &SessionContext) {
    Tuning::PLAIN.apply(ctx);
    set(ctx, "bowtie.offload", "force");
    set(ctx, "bowtie.device_memory", "1MB");
}

/// Runs `sql` under 1 MB, batch by batch, without keeping any; returns its rows, their bytes, and the peak.
async fn run_tight(ctx: &SessionContext, sql: &str) -> (usize, usize, usize) {
    tight(ctx);
    let plan = plan_of(ctx, sql).await.unwrap();
    assert!(shown(&plan).contains("Bowtie"), "{}", shown(&plan));
    let mut stream =
        datafusion::physical_plan::execute_stream(Arc::clone(&plan), ctx.task_ctx()).unwrap();
    let (mut rows, mut bytes) = (0, 0);
    while let Some(batch) = stream.next().await {
        let batch = batch.unwrap_or_else(|error| panic!("{sql}\n{error}"));
        rows += batch.num_rows();
        bytes += batch
            .columns()
            .iter()
            .map(|c| c.to_data().get_slice_memory_size().unwrap())
            .sum::<usize>();
    }
    let peak = metric(&plan, "peak_device_bytes").unwrap();
    assert!(peak <= LIMIT, "{peak} bytes were leased: {sql}");
    assert!(peak > 0, "nothing was leased: {sql}");
    (rows, bytes, peak)
}

#[tokio::test]
async fn a_result_of_a_hundred_times_the_budget() {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(64 << 20));
    let ctx = session_in(Arc::clone(&pool));
    register(&ctx, "r", table(4000, 0));
    register(&ctx, "s", table(3000, 0));
    let sql = "SELECT r.id AS i, s.id AS j FROM r JOIN s ON r.a > s.a";
    let (rows, bytes, _) = run_tight(&ctx, sql).await;
    // a is 0 .. n in both.
    assert_eq!(rows, 3000 * 2999 / 2 + 1000 * 3000);
    assert!(bytes > 100 * LIMIT, "{bytes}");
    assert_eq!(pool.reserved(), 0);
}

#[tokio::test]
async fn strategies_and_join_types_stay_within_the_budget() {
    let ctx = session();
    register(&ctx, "r", table(4_000, 0));
    register(&ctx, "s", table(3_000, 0));
    for (sql, rows) in [
        (
            "SELECT r.id FROM r LEFT SEMI JOIN s ON r.a < s.a AND r.id > s.id + 3990",
            None,
        ),
        (
            "SELECT r.id, s.id AS j FROM r FULL JOIN s ON r.a < s.a - 2990",
            None,
        ),
        (
            "SELECT r.id, s.id AS j FROM r JOIN s ON r.a = s.a AND r.id <> s.id",
            None,
        ),
        (
            "SELECT count(*), sum(s.id) FROM r JOIN s ON r.a > s.a",
            Some(1),
        ),
        (
            "SELECT r.id, count(*), sum(s.id), min(s.a) FROM r LEFT JOIN s ON r.a > s.a GROUP BY r.id",
            Some(4_000),
        ),
    ] {
        let stock = stock(&ctx, sql).await.unwrap();
        let stock_rows: usize = stock.batches.iter().map(|b| b.num_rows()).sum();
        let (given, _, _) = run_tight(&ctx, sql).await;
        assert_eq!(given, rows.unwrap_or(stock_rows), "{sql}");
    }
}

/// Text: pieces are sized before their bytes are known.
#[tokio::test]
async fn wide_rows() {
    for (rows, width) in [
        (400, 500),
        (120, 5_000),
        (24, 30_000),
        (12, 60_000),
        (6, 150_000),
    ] {
        let ctx = session();
        register(&ctx, "r", table(rows, width));
        register(&ctx, "s", table(rows, width));
        register(&ctx, "narrow", table(rows, 0));
        let mut failures = vec![];
        for sql in [
            "SELECT r.t AS rt, s.t AS st FROM r JOIN s ON r.a > s.a",
            "SELECT n.id, s.t AS st FROM narrow n JOIN s ON n.a > s.a",
            "SELECT r.t AS rt, n.id FROM r JOIN narrow n ON r.a > n.a",
            "SELECT r.t AS rt, s.t AS st FROM r FULL JOIN s ON r.a > s.a + 3",
            "SELECT r.id, s.t AS st FROM r JOIN s ON r.t > s.t",
            "SELECT r.id, s.id AS j FROM r JOIN s ON r.t = s.t",
            "SELECT r.id, min(s.t), max(s.t) FROM r JOIN s ON r.a > s.a GROUP BY r.id",
            "SELECT r.id, min(s.t) FROM r JOIN s ON r.a > s.a AND r.id <> s.id GROUP BY r.id",
        ] {
            let stock = stock(&ctx, sql).await.unwrap();
            tight(&ctx);
            let tuning = Tuning {
                device_memory: "1MB",
                ..Tuning::PLAIN
            };
            match forced(&ctx, sql, &tuning).await {
                Ok(given) => same_rows(&stock, &given).unwrap(),
                Err(error) => failures.push(format!("{width} bytes a row: {sql}\n{error}")),
            }
        }
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
}

/// Joins above one another, and beside one another, share the budget.
#[tokio::test]
async fn several_joins_at_once() {
    let ctx = session();
    register(&ctx, "r", table(1_500, 0));
    register(&ctx, "s", table(1_500, 0));
    register(&ctx, "u", table(1_500, 0));
    for sql in [
        "SELECT r.id, u.id AS k FROM r JOIN s ON r.a BETWEEN s.a - 2 AND s.a + 2 JOIN u ON s.id BETWEEN u.a - 1 AND u.a + 1",
        "SELECT r.id FROM r JOIN s ON r.a BETWEEN s.a - 9 AND s.a UNION ALL SELECT s.id FROM s JOIN u ON s.a BETWEEN u.a - 9 AND u.a",
        "SELECT count(*) FROM r JOIN s ON r.a BETWEEN s.a - 3 AND s.a JOIN u ON s.id > u.a",
    ] {
        let stock = stock(&ctx, sql).await.unwrap();
        let tuning = Tuning {
            device_memory: "1MB",
            ..Tuning::PLAIN
        };
        match forced(&ctx, sql, &tuning).await {
            Ok(given) => same_rows(&stock, &given).unwrap(),
            Err(error) => panic!("{sql}\n{error}"),
        }
    }
}

/// The build side must fit the pool where no files are allowed; if not, the error says so and nothing stays reserved.
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

/// A pool a few times the inputs' size is enough, although the result is far larger; nothing stays reserved.
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

/// A batch of a large table arrives as slices that share its buffers: each counts for its own rows only.
#[tokio::test]
async fn slices_of_one_batch_are_counted_once() {
    let inputs: usize = 2 * 100_000 * 16;
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(4 * inputs));
    let ctx = session_in(Arc::clone(&pool));
    register(&ctx, "r", table(100_000, 0));
    register(&ctx, "s", table(100_000, 0));
    Tuning::PLAIN.apply(&ctx);
    set(&ctx, "bowtie.offload", "force");
    let sql = "SELECT count(*), sum(s.id) FROM r JOIN s ON r.a > s.a";
    let plan = plan_of(&ctx, sql).await.unwrap();
    collect(plan, ctx.task_ctx())
        .await
        .unwrap_or_else(|e| panic!("{e}"));
}

/// One row that matches many, whose text is wide: 40,000 pairs of 100 KB are more characters than 32-bit offsets reach.
#[tokio::test]
async fn wide_text_comes_out_in_short_pieces() {
    let ctx = session();
    register(&ctx, "few", table(3, 100_000));
    register(&ctx, "many", table(40_000, 0));
    Tuning::PLAIN.apply(&ctx);
    set(&ctx, "bowtie.offload", "force");
    // Tested (<>) and residual (%) conditions go pair by pair, a single inequality in runs.
    for condition in [
        "few.id <> many.id + 50000",
        "(few.id + many.id) % 7 < 9",
        "few.id < many.id + 10",
    ] {
        for tables in ["few JOIN many", "many JOIN few"] {
            let sql = format!("SELECT few.t FROM {tables} ON {condition}");
            let plan = plan_of(&ctx, &sql).await.unwrap();
            assert!(shown(&plan).contains("BowtieJoinExec"), "{sql}");
            let mut stream = execute_stream(plan, ctx.task_ctx()).unwrap();
            let (mut rows, mut characters) = (0, 0);
            while let Some(batch) = stream.next().await {
                let batch = batch.unwrap();
                rows += batch.num_rows();
                let lengths = length(batch.column(0)).unwrap();
                characters += sum(lengths.as_primitive::<Int32Type>()).unwrap() as usize;
            }
            assert_eq!((rows, characters), (120_000, 12_000_000_000), "{sql}");
        }
    }
}

/// 100 values in each of four batches: their dictionaries together have more values than 8-bit keys can tell apart.
#[tokio::test]
async fn dictionaries_with_small_keys_are_not_copied_together() {
    let ctx = session();
    let batch = |from: i32| {
        let text: Vec<String> = (from..from + 100).map(|i| format!("v{i:03}")).collect();
        let dictionary: DictionaryArray<Int8Type> = text.iter().map(String::as_str).collect();
        let ids = Int32Array::from_iter_values(from..from + 100);
        let columns = [
            ("id", Arc::new(ids) as ArrayRef),
            ("d", Arc::new(dictionary) as ArrayRef),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    for name in ["r", "s"] {
        let batches = [0, 100, 200, 300].map(batch).to_vec();
        let table = MemTable::try_new(batches[0].schema(), vec![batches]).unwrap();
        ctx.register_table(name, Arc::new(table)).unwrap();
    }
    for sql in [
        "SELECT r.d AS rd, s.d AS sd FROM r JOIN s ON r.id < s.id",
        "SELECT r.d AS rd, s.d AS sd FROM r JOIN s ON r.d < s.d AND r.id <> s.id",
        "SELECT r.d AS rd, s.d AS sd FROM r FULL JOIN s ON r.d > s.d AND r.id % 7 = 3",
        "SELECT r.id, COUNT(*), MIN(s.id) FROM r JOIN s ON r.d < s.d GROUP BY r.id",
    ] {
        let given = match forced(&ctx, sql, &Tuning::PLAIN).await {
            Ok(given) => given,
            Err(error) => panic!("{sql}\n{error}"),
        };
        // As text: DataFusion's own join copies the dictionaries together, and cannot.
        let plain = |name: &str| format!("(SELECT id, CAST(d AS VARCHAR) AS d FROM {name}) {name}");
        let text = sql
            .replace("FROM r", &format!("FROM {}", plain("r")))
            .replace("JOIN s", &format!("JOIN {}", plain("s")));
        let expected = stock(&ctx, &text).await.unwrap();
        let as_text = |answer: &Answer| {
            let schema = expected.schema.clone();
            let batches = answer.batches.iter().map(|batch| {
                let columns = batch.columns().iter().zip(schema.fields());
                let columns = columns.map(|(array, field)| cast(array, field.data_type()).unwrap());
                RecordBatch::try_new(schema.clone(), columns.collect()).unwrap()
            });
            Answer {
                plan: String::new(),
                schema: schema.clone(),
                batches: batches.collect(),
            }
        };
        assert_offloaded(sql, &given.plan, &["Bowtie"]);
        same_rows(&expected, &as_text(&given)).unwrap();
    }
}

/// What rows share, such as a dictionary's values, does not make batches short.
#[tokio::test]
async fn shared_values_do_not_shorten_batches() {
    let ctx = session();
    let text: Vec<String> = (0..30_000).map(|i| format!("value {i:030}")).collect();
    let dictionary: DictionaryArray<Int32Type> = text.iter().map(String::as_str).collect();
    let lists = (0..30_000).map(|i| Some([Some(i), None, Some(1)]));
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
    let a = Int32Array::from_iter_values((0..30_000).map(|i| i * 7919 % 30_000));
    let wide = RecordBatch::try_from_iter([
        ("a", Arc::new(a) as ArrayRef),
        ("d", Arc::new(dictionary) as ArrayRef),
        ("l", Arc::new(lists) as ArrayRef),
    ])
    .unwrap();
    register(&ctx, "wide", wide);
    register(&ctx, "many", table(30_000, 0));
    for condition in [
        "wide.a < many.a",
        "wide.a < many.a AND wide.a <> many.id",
        "wide.a < many.a AND (wide.a + many.id) % 5 = 3",
    ] {
        let sql = format!("SELECT wide.d, wide.l FROM wide JOIN many ON {condition} LIMIT 2000000");
        let answer = forced(&ctx, &sql, &Tuning::PLAIN).await.unwrap();
        let batches = answer.batches.len();
        assert!(batches < 2_000, "{batches} batches: {condition}");
    }
}

/// A few groups of views do not keep the bytes of all rows, and what waits on the host is counted with the bytes of its views.
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
    let table = MemTable::try_new(batches[0].schema(), vec![batches]).unwrap();
    ctx.register_table("v", Arc::new(table)).unwrap();
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

/// Text of a megabyte, many duplicates of a key, and NULLs, joined and grouped: every budget does.
#[tokio::test]
async fn adverse_keys_under_small_budgets() {
    let ctx = session();
    set(&ctx, "bowtie.offload", "off");
    for (name, rows) in [
        (
            "huge",
            "value % 9 AS k, value AS v, concat(repeat('x', 1000000), CAST(value % 5 AS VARCHAR)) AS t FROM generate_series(1, 12)",
        ),
        (
            "dup",
            "7 AS k, value AS v, 'the same text' AS t FROM generate_series(1, 50000)",
        ),
        (
            "nulls",
            "CAST(NULL AS BIGINT) AS k, value AS v, CAST(NULL AS VARCHAR) AS t FROM generate_series(1, 30000)",
        ),
        (
            "mixed",
            "value * 7919 % 20000 AS k, value AS v, concat('text ', CAST(value % 9000 AS VARCHAR)) AS t FROM generate_series(1, 40000)",
        ),
    ] {
        let sql = format!("CREATE TABLE {name} AS SELECT {rows}");
        ctx.sql(&sql).await.unwrap().collect().await.unwrap();
    }
    for sql in [
        "SELECT a.k, b.k AS j, length(b.t), length(a.t) FROM huge a FULL JOIN huge b ON a.t = b.t AND a.v < b.v",
        "SELECT k, length(t), count(*), length(min(t)), count(DISTINCT t) FROM huge GROUP BY ROLLUP (k, t)",
        "SELECT count(*), sum(a.v), sum(huge.v) FROM dup a JOIN huge ON a.k = huge.k",
        "SELECT k, t, count(*), sum(v), median(v) FROM dup GROUP BY GROUPING SETS ((k), (t), ())",
        "SELECT count(*), sum(a.v), sum(b.v) FROM nulls a FULL JOIN nulls b ON a.k = b.k",
        "SELECT k, t, count(*), sum(v) FROM nulls GROUP BY CUBE (k, t)",
        "SELECT count(*), sum(n), sum(length(m)) FROM (SELECT k, count(DISTINCT t) AS n, max(t) AS m FROM mixed GROUP BY k)",
        // Groups that stay on the device must not take the room of the projection below them.
        "SELECT count(*), sum(n), sum(m) FROM (SELECT k, w, count(*) AS n, max(u) AS m FROM \
         (SELECT a.k, b.v AS w, a.v + b.v AS u FROM mixed a JOIN mixed b ON a.v = b.v) AS x GROUP BY k, w)",
    ] {
        let stock = stock(&ctx, sql).await.unwrap();
        for (device_memory, chunk_rows) in [("1MB", "auto"), ("1MB", "500"), ("256MB", "auto")] {
            let tuning = Tuning {
                device_memory,
                chunk_rows,
                ..Tuning::PLAIN
            };
            let given = forced(&ctx, sql, &tuning).await;
            let given = given.unwrap_or_else(|error| panic!("{sql}\n{tuning:?}\n{error}"));
            same_rows(&stock, &given).unwrap();
        }
    }
}
