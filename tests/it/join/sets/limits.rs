//! Small budgets, skew, more matches than a match list holds, and cancelled queries.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, ListArray, RecordBatch};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SessionContext;

use crate::support::answer::{analyzed, answer_and_counts, forced, plan_of, shown};
use crate::support::lists::{TECHNIQUES, of};
use crate::support::metrics::Counts;
use crate::support::pool::{polled_for, released_within};
use crate::support::session::{device, session, session_in, set};
use crate::support::tables::register_whole;
use crate::support::tuning::Tuning;

/// `id`, and the list `list(id)`.
fn lists(ids: std::ops::Range<i64>, list: impl Fn(i64) -> Vec<i32>) -> RecordBatch {
    let lists: Vec<Vec<i32>> = ids.clone().map(list).collect();
    let offsets = OffsetBuffer::from_lengths(lists.iter().map(Vec::len));
    let values = Int32Array::from(lists.concat());
    let field = Arc::new(Field::new_list_field(DataType::Int32, true));
    let list = ListArray::new(field, offsets, Arc::new(values), None);
    RecordBatch::try_from_iter([
        (
            "id",
            Arc::new(Int64Array::from_iter_values(ids)) as ArrayRef,
        ),
        ("v", Arc::new(list)),
    ])
    .unwrap()
}

async fn number(ctx: &SessionContext, sql: &str) -> i64 {
    number_and_counts(ctx, sql).await.0
}

async fn number_and_counts(ctx: &SessionContext, sql: &str) -> (i64, Counts) {
    let (answer, counts) = answer_and_counts(ctx, sql)
        .await
        .unwrap_or_else(|e| panic!("{sql}: {e}"));
    assert!(answer.plan.contains("strategy=set"), "{}", answer.plan);
    let batch = answer.batches.iter().find(|b| b.num_rows() > 0).unwrap();
    let number = batch.column(0).as_primitive::<Int64Type>().value(0);
    (number, counts)
}

/// Under 1 MB tiles are halved, and every match is found once.
#[tokio::test]
async fn a_budget_of_one_megabyte() {
    const SETS: i64 = 3_000;
    let ctx = session();
    // Neighbours within nine share an element, those of equal number modulo 100 too.
    let list = |i: i64| {
        (0..10)
            .map(|j| (i + j) as i32)
            .chain([-(i % 100) as i32 - 1])
            .collect()
    };
    register_whole(&ctx, "r", lists(0..SETS, list));
    let expected: i64 = (0..SETS)
        .map(|i| {
            let near = (i - 9).max(0)..=(i + 9).min(SETS - 1);
            let equal = (i % 100..SETS).step_by(100).filter(|j| !near.contains(j));
            near.clone().count() as i64 + equal.count() as i64
        })
        .sum();
    for technique in TECHNIQUES {
        set(&ctx, "bowtie.offload", "force");
        set(&ctx, "bowtie.set_strategy", technique);
        set(&ctx, "bowtie.device_memory", "1MB");
        let predicate = of("array_has_any(a.v, b.v)");
        let condition = predicate.sql;
        // Without and with pairs.
        for (other, expected) in [("", expected), (" AND a.id <= b.id", (expected + SETS) / 2)] {
            let sql = format!("SELECT count(*) FROM r a JOIN r b ON {condition}{other}");
            let (number, counts) = number_and_counts(&ctx, &sql).await;
            assert_eq!(number, expected, "{technique}: {sql}");
            let ran = counts.indexed();
            assert!(!ran.is_empty(), "{technique}: {counts:?}");
            // A card encodes the sets in fewer bytes, and chooses by what is left.
            if device() == "host" {
                assert!(counts.get("chunks") > 1, "{technique}: {counts:?}");
                let by = predicate.run_by(technique);
                assert!(by.is_none_or(|by| ran == [by]), "{ran:?}: {sql}");
            }
        }
    }
}

/// A million sets of three elements, a set of a million under 256 MB, and sets of a hundred thousand of which a few fit at once; all
/// sizes divided by `times`.
async fn small_budgets(times: i64) {
    let ctx = session();
    set(&ctx, "bowtie.offload", "force");
    let budget = |mega: i64| format!("{}KB", mega * 1_000 / times);
    set(&ctx, "bowtie.device_memory", &budget(256));
    let n = 1_000_000 / times;
    let three = |i: i64| (0..3).map(|j| i as i32 + j).collect();
    register_whole(&ctx, "r", lists(0..n, three));
    // Neighbours share two of four.
    let sql = "SELECT count(*) FROM r a JOIN r b ON array_jaccard(a.v, b.v) >= 0.5";
    assert_eq!(number(&ctx, sql).await, n + 2 * (n - 1));
    let long = |i: i64| match i {
        // Too sparse to be element ids themselves.
        0 => (0..n as i32).map(|j| j * 2_000).collect(),
        i => vec![0, i as i32 * 2_000, 1],
    };
    register_whole(&ctx, "r", lists(0..1_000, long));
    let sql = "SELECT count(*) FROM r a JOIN r b ON array_overlap(a.v, b.v) >= 2";
    // The short ones share 0 and 1, and each with the long one 0 and one more.
    assert_eq!(number(&ctx, sql).await, 1 + 2 * 999 + 999 * 999);

    set(&ctx, "bowtie.device_memory", &budget(24));
    let huge = |i: i64| {
        let step = (i as i32 % 3 + 1) * 7_000;
        (0..n as i32 / 10).map(|j| j * step).collect()
    };
    register_whole(&ctx, "r", lists(0..12, huge));
    for technique in ["auto", "inverted_index", "prefix"] {
        set(&ctx, "bowtie.set_strategy", technique);
        let sql = "SELECT count(*) FROM r a JOIN r b ON array_containment(a.v, b.v) >= 0.5";
        // Four sets each of multiples of one, of two and of three: half of those of two are among those of one, but a third of
        // those of three are.
        assert_eq!(number(&ctx, sql).await, 3 * 16 + 2 * 16, "{technique}");
    }
}

#[tokio::test]
async fn small_budgets_of_small_sets() {
    small_budgets(8).await;
}

#[tokio::test]
#[ignore = "takes a minute where code is not optimised"]
async fn budgets_of_256_megabytes() {
    small_budgets(1).await;
}

/// One element in every set, and one set of all elements.
#[tokio::test]
async fn skew() {
    let ctx = session();
    let list = |i: i64| match i {
        0 => (0..50_000).collect(),
        i => vec![0, i as i32, i as i32 + 1],
    };
    register_whole(&ctx, "r", lists(0..2_000, list));
    set(&ctx, "bowtie.offload", "force");
    for technique in ["auto", "prefix", "inverted_index", "rarest", "signature"] {
        set(&ctx, "bowtie.set_strategy", technique);
        for (condition, expected) in [
            ("array_has_any(a.v, b.v)", 4_000_000),
            // Itself, the set of all elements, and from there all.
            ("array_has_all(a.v, b.v)", 2_000 + 1_999),
            // A neighbour shares two of four.
            ("array_jaccard(a.v, b.v) >= 0.5", 2_000 + 2 * 1_998),
            ("array_jaccard(a.v, b.v) > 0.5", 2_000),
        ] {
            let sql = format!("SELECT count(*) FROM r a JOIN r b ON {condition}");
            assert_eq!(
                number(&ctx, &sql).await,
                expected,
                "{technique} {condition}"
            );
        }
    }
}

/// Few sets of many elements.
#[tokio::test]
async fn huge_sets() {
    let ctx = session();
    register_whole(
        &ctx,
        "r",
        lists(0..5, |i| (0..120_000).map(|j| j * (i as i32 + 1)).collect()),
    );
    set(&ctx, "bowtie.offload", "force");
    for technique in ["auto", "intersect", "inverted_index"] {
        set(&ctx, "bowtie.set_strategy", technique);
        // Those of 1 and 2, and those of 2 and 4, share 60,000.
        for (overlap, expected) in [(60_000, 9), (60_001, 5)] {
            let sql = format!(
                "SELECT count(*) FROM r a JOIN r b ON array_overlap(a.v, b.v) >= {overlap}"
            );
            assert_eq!(number(&ctx, &sql).await, expected, "{technique} {overlap}");
        }
    }
}

/// A thousand sets of a million sparse elements: neighbours share all but a thousand, and each further one a thousand fewer.
#[tokio::test]
#[ignore = "takes 12 GB, and minutes without a GPU"]
async fn a_thousand_sets_of_a_million() {
    const SETS: i64 = 1_000;
    const ELEMENTS: i64 = 1_000_000;
    let ctx = session();
    set(&ctx, "bowtie.offload", "force");
    // Odd, so that no two numbers of 31 bits become one.
    let anywhere = |x: i64| (x as i32).wrapping_mul(0x2545_f491) & i32::MAX;
    let step = ELEMENTS / SETS;
    register_whole(
        &ctx,
        "r",
        lists(0..SETS, |i| {
            (i * step..i * step + ELEMENTS).map(anywhere).collect()
        }),
    );
    // Pairs of sets whose positions differ by at most `apart`.
    let within = |apart: i64| SETS + 2 * (1..=apart).map(|d| SETS - d).sum::<i64>();
    for (condition, expected) in [
        ("array_overlap(a.v, b.v) >= 900000", within(100)),
        // 889,000 of 1,111,000, where 888,000 of 1,112,000 are too few.
        ("array_jaccard(a.v, b.v) >= 0.8", within(111)),
        ("array_has_all(b.v, a.v)", within(0)),
        ("array_has_any(b.v, a.v)", within(SETS - 1)),
    ] {
        let from = Instant::now();
        let sql = format!("SELECT count(*) FROM r a JOIN r b ON {condition}");
        assert_eq!(number(&ctx, &sql).await, expected, "{condition}");
        println!("{condition}: {:?}", from.elapsed());
    }
}

/// Within which a step ends, and so releases its memory.
const SOON: Duration = Duration::from_secs(8);

fn everything_matches(rows: i64) -> (SessionContext, Arc<dyn MemoryPool>) {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 30));
    let ctx = session_in(Arc::clone(&pool));
    register_whole(&ctx, "r", lists(0..rows, |i| vec![-1, i as i32]));
    Tuning::PLAIN.apply(&ctx);
    set(&ctx, "bowtie.offload", "force");
    (ctx, pool)
}

/// Four hundred million matches come a few at a time, and a limit ends them.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_ends_what_matches_too_often() {
    let (ctx, pool) = everything_matches(20_000);
    let sql = "SELECT a.id, b.id AS j FROM r a JOIN r b ON array_has_any(a.v, b.v) LIMIT 10";
    let from = Instant::now();
    let answer = forced(&ctx, sql, &Tuning::PLAIN).await.unwrap();
    assert_eq!(
        answer.batches.iter().map(|b| b.num_rows()).sum::<usize>(),
        10
    );
    assert!(
        from.elapsed() < Duration::from_secs(20),
        "{:?}",
        from.elapsed()
    );
    drop(answer);
    released_within(SOON, &pool, sql).await;
}

/// Where a probe finds more matches than a match list holds, the probe side is split, and the index is kept.
#[tokio::test(flavor = "multi_thread")]
async fn too_many_matches_leave_the_index() {
    let (ctx, _) = everything_matches(20_000);
    set(&ctx, "bowtie.set_strategy", "inverted_index");
    let sql = "SELECT a.id, b.id AS j FROM r a JOIN r b ON array_has_any(a.v, b.v) LIMIT 10";
    let analyzed = analyzed(&ctx, sql).await;
    assert!(analyzed.contains("indexed_inverted_index=1,"), "{analyzed}");
}

/// A dropped stream ends the probe.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_stream_frees_everything() {
    let (ctx, pool) = everything_matches(60_000);
    for sql in [
        "SELECT a.id, b.id AS j FROM r a JOIN r b ON array_has_any(a.v, b.v)",
        "SELECT a.id, b.id AS j FROM r a JOIN r b ON array_jaccard(a.v, b.v) >= 0.3 AND a.id < b.id",
    ] {
        for technique in ["inverted_index", "signature"] {
            set(&ctx, "bowtie.set_strategy", technique);
            let plan = plan_of(&ctx, sql).await.unwrap();
            assert!(shown(&plan).contains("strategy=set"), "{}", shown(&plan));
            let mut stream = execute_stream(plan, ctx.task_ctx()).unwrap();
            polled_for(Duration::from_millis(300), &mut stream, sql).await;
            assert!(pool.reserved() > 0, "{technique}: {sql}");
            drop(stream);
            released_within(SOON, &pool, sql).await;
        }
    }
}
