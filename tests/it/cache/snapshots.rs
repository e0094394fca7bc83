//! Tables of so many arrays that plans share a snapshot of them: queries see what DataFusion's see, at the same moment.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arrow::array::Array;
use datafusion::common::{Constraint, Constraints};
use datafusion::datasource::MemTable;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionContext, col};

use crate::cache::{GROUPED, batch, lines, session, table};
use crate::support::answer::{analyzed, plan_of, shown, text};
use crate::support::session::set;

/// Batches of a table of three columns: it has more than 1,024 arrays.
const BATCHES: i64 = 400;
/// Rows of a batch.
const ROWS: i64 = 4;

/// The batches of two partitions; `v` begins at `first`.
fn partitions(first: i64) -> Vec<Vec<arrow::array::RecordBatch>> {
    let batches = |n: i64| {
        let from = n * BATCHES / 2..(n + 1) * BATCHES / 2;
        from.map(|i| batch(first + i * ROWS, ROWS)).collect()
    };
    vec![batches(0), batches(1)]
}

fn many(first: i64) -> Arc<MemTable> {
    table(partitions(first))
}

/// How many hold an array of the table, the table among them.
fn holders(table: &MemTable) -> usize {
    Arc::strong_count(table.batches[0].try_read().unwrap()[0].column(1))
}

/// A session with bowtie and one of DataFusion alone, with tables `r` and `s` of the same rows, and a view `w`.
async fn twins() -> [SessionContext; 2] {
    let (ctx, _) = session(64 << 20, "32MB");
    let stock = SessionContext::new();
    for ctx in [&ctx, &stock] {
        ctx.register_table("r", many(0)).unwrap();
        ctx.register_table("s", many(700)).unwrap();
        lines(
            ctx,
            "CREATE VIEW w AS SELECT k, v + 1 AS v FROM r WHERE v > 10",
        )
        .await;
    }
    [ctx, stock]
}

const QUERIES: [&str; 9] = [
    GROUPED,
    "SELECT count(*), count(t), min(v), sum(v) FROM r",
    "SELECT k, sum(v) FROM w GROUP BY k ORDER BY k",
    "SELECT k, v FROM r WHERE v > (SELECT avg(v) FROM r) ORDER BY v, k LIMIT 20",
    "SELECT k, v FROM r WHERE v IN (SELECT v * 2 FROM r WHERE k = 3) ORDER BY v, k",
    "SELECT a.k, count(*), max(b.t) FROM r a JOIN r b ON a.v = b.v + 1 GROUP BY a.k ORDER BY a.k",
    "SELECT r.k, count(*), sum(w.v) FROM r JOIN w ON r.v = w.v GROUP BY r.k ORDER BY r.k",
    "SELECT t, v FROM r EXCEPT SELECT t, v FROM s ORDER BY v, t",
    "SELECT v, row_number() OVER (PARTITION BY k ORDER BY v, t) AS n FROM r ORDER BY v, n LIMIT 30",
];

#[tokio::test]
async fn changes_are_seen() {
    let [ctx, stock] = twins().await;
    let statements = [
        "SELECT 1",
        "INSERT INTO r VALUES (1, 2, '1 more'), (NULL, NULL, NULL)",
        "INSERT INTO r SELECT k, v + 10000, t FROM r WHERE v % 2 = 0",
        "INSERT INTO r SELECT a.k, b.v, a.t FROM r a JOIN s b ON a.v = b.v WHERE a.k < 3",
        "DELETE FROM r WHERE v % 3 = 1",
        "UPDATE r SET v = v + 1 WHERE k = 2",
        // As many rows and batches as before.
        "UPDATE r SET v = 7 - v",
        "UPDATE r SET t = 'text 1'",
        "INSERT INTO r SELECT k, v, 'of a view, 1' FROM w WHERE k = 4",
        "CREATE TABLE copied AS SELECT * FROM r",
        "INSERT INTO copied SELECT * FROM copied",
        "INSERT INTO r SELECT * FROM copied WHERE v > 5",
        "DELETE FROM r",
        "INSERT INTO r SELECT * FROM s",
        "CREATE OR REPLACE TABLE s AS SELECT k, v * 2 AS v, t FROM r",
        "CREATE OR REPLACE VIEW w AS SELECT k, v FROM s WHERE v > 90",
    ];
    let mut scans = 0;
    for statement in statements {
        let counts = [lines(&ctx, statement).await, lines(&stock, statement).await];
        assert_eq!(counts[0], counts[1], "{statement}");
        for sql in QUERIES {
            let expected = lines(&stock, sql).await;
            // The second one reads what the first one stored.
            for round in 0..2 {
                let plan = plan_of(&ctx, sql).await.unwrap();
                scans += shown(&plan).matches("BowtieScanExec").count();
                assert_eq!(
                    lines(&ctx, sql).await,
                    expected,
                    "{round}: {statement}; {sql}"
                );
            }
        }
    }
    assert!(scans > statements.len() * QUERIES.len(), "{scans}");
}

/// The rows of a plan, as text.
async fn collected(ctx: &SessionContext, plan: &Arc<dyn ExecutionPlan>) -> String {
    let batches = collect(Arc::clone(plan), ctx.task_ctx()).await.unwrap();
    let text = arrow::util::pretty::pretty_format_batches(&batches);
    text.unwrap().to_string()
}

/// A plan shows the table as it was when the plan was made, whenever and however often it is executed.
#[tokio::test]
async fn a_plan_reads_what_was_there() {
    for (cache, offload) in [("32MB", "force"), ("32MB", "auto"), ("off", "off")] {
        let (ctx, _) = session(64 << 20, cache);
        set(&ctx, "bowtie.offload", offload);
        // DataFusion's repartitioning can be executed once.
        set(&ctx, "datafusion.execution.target_partitions", "1");
        for sql in [
            GROUPED,
            "SELECT a.k, count(*), sum(a.v), max(b.t) FROM r a JOIN r b ON a.v = b.v + 1 GROUP BY a.k ORDER BY a.k",
        ] {
            let table = many(0);
            let array = Arc::downgrade(table.batches[0].try_read().unwrap()[0].column(1));
            ctx.register_table("r", table).unwrap();
            let rows = text(&ctx, sql).await;
            let plan = plan_of(&ctx, sql).await.unwrap();
            let is_offloaded = shown(&plan).contains("BowtieScanExec");
            assert_eq!(is_offloaded, offload == "force", "{}", shown(&plan));
            let mut last = rows.clone();
            for change in [
                "INSERT INTO r SELECT k, v + 1, t FROM r WHERE t LIKE '%1%'",
                "UPDATE r SET v = v + 5",
                "DELETE FROM r WHERE k = 3",
            ] {
                lines(&ctx, change).await;
                assert_eq!(collected(&ctx, &plan).await, rows, "{offload}: {change}");
                let now = text(&ctx, sql).await;
                assert_ne!(now, last, "{offload}: {change}");
                assert_eq!(text(&ctx, sql).await, now, "{offload}: {change}");
                last = now;
            }
            ctx.deregister_table("r").unwrap();
            assert_eq!(collected(&ctx, &plan).await, rows, "{offload}");
            drop(plan);
            gone(&array).await;
        }
    }
}

/// Waits until nobody holds an array: the thread that drops snapshots looks each second.
async fn gone(array: &Weak<dyn Array>) {
    let dropped = Instant::now();
    while array.strong_count() > 0 {
        assert!(
            dropped.elapsed() < Duration::from_secs(4),
            "it has {} holders",
            array.strong_count()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Also without another query.
#[tokio::test]
async fn batches_of_a_dropped_table_go() {
    let (ctx, runtime) = session(64 << 20, "32MB");
    let tables = [many(0), many(1)];
    assert_eq!(holders(&tables[0]), 1);
    let arrays = tables
        .each_ref()
        .map(|table| Arc::downgrade(table.batches[0].try_read().unwrap()[0].column(1)));
    for (table, name) in tables.iter().zip(["r", "s"]) {
        ctx.register_table(name, Arc::clone(table) as _).unwrap();
    }
    for sql in [
        GROUPED,
        "SELECT count(*) FROM r, s WHERE r.v = s.v",
        GROUPED,
    ] {
        text(&ctx, sql).await;
    }
    assert_eq!(holders(&tables[0]), 2, "there is one snapshot");
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(holders(&tables[0]), 2, "a snapshot lives as its table does");
    // Batches that another session's statement, without a cache, has replaced.
    set(&ctx, "bowtie.cache", "off");
    lines(&ctx, "UPDATE r SET v = v + 1").await;
    gone(&arrays[0]).await;
    ctx.deregister_table("s").unwrap();
    drop(tables);
    gone(&arrays[1]).await;
    ctx.deregister_table("r").unwrap();
    for _ in 0..200 {
        let listed = lines(&ctx, "SELECT * FROM bowtie_cache()").await;
        if listed.is_empty() && runtime.device_memory()[0].in_use == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?}", runtime.device_memory());
}

/// Plans that are not offloaded are DataFusion's, to the byte.
#[tokio::test]
async fn plans_that_are_not_offloaded_are_the_same() {
    let (ctx, _) = session(64 << 20, "32MB");
    ctx.register_table("r", many(0)).unwrap();
    ctx.register_table("s", many(700)).unwrap();
    lines(
        &ctx,
        "CREATE VIEW w AS SELECT k, v + 1 AS v FROM r WHERE v > 10",
    )
    .await;
    let windows = [
        "SELECT v, row_number() OVER (PARTITION BY k ORDER BY v) AS n FROM r",
        "SELECT lag(v) OVER (ORDER BY v, t) AS l FROM s LIMIT 3",
    ];
    let automatic = QUERIES.iter().map(|sql| ("auto", *sql));
    let forced = windows.iter().map(|sql| ("force", *sql));
    for (offload, sql) in automatic.chain(forced) {
        set(&ctx, "bowtie.offload", offload);
        let plan = shown(&plan_of(&ctx, sql).await.unwrap());
        assert!(!plan.contains("Bowtie"), "{plan}");
        for explain in [
            "EXPLAIN",
            "EXPLAIN VERBOSE",
            "EXPLAIN FORMAT TREE",
            "EXPLAIN FORMAT PGJSON",
        ] {
            for shows in ["true", "false"] {
                set(&ctx, "datafusion.explain.show_sizes", shows);
                set(&ctx, "datafusion.explain.show_statistics", shows);
                let explained = format!("{explain} {sql}");
                set(&ctx, "bowtie.cache", "off");
                let expected = text(&ctx, &explained).await;
                set(&ctx, "bowtie.cache", "32MB");
                assert_eq!(text(&ctx, &explained).await, expected, "{explained}");
            }
        }
        // Without the metrics, which are times.
        let nodes = async |cache| {
            set(&ctx, "bowtie.cache", cache);
            let text = analyzed(&ctx, sql).await;
            let lines = text.lines().filter_map(|line| line.split_once("metrics="));
            let lines = lines.map(|(node, _)| node.split('|').next_back().unwrap().to_string());
            lines.collect::<Vec<_>>()
        };
        let expected = nodes("off").await;
        assert!(!expected.is_empty());
        assert_eq!(nodes("32MB").await, expected, "{sql}");
    }
}

#[tokio::test]
async fn analyzed_plans_have_the_rows() {
    let [ctx, _] = twins().await;
    for _ in 0..2 {
        let plan = analyzed(&ctx, "SELECT k, sum(v) FROM r GROUP BY k").await;
        let scan = plan.lines().find(|line| line.contains("BowtieScanExec"));
        let scan = scan.unwrap_or_else(|| panic!("{plan}"));
        assert!(scan.contains("output_rows=1.60 K"), "{scan}");
    }
}

/// COPY writes a table's rows, and those of a query that is offloaded.
#[tokio::test]
async fn copies_are_the_same() {
    let [ctx, stock] = twins().await;
    let files = tempfile::tempdir().unwrap();
    for (n, from) in ["r", "w", "(SELECT k, sum(v) FROM r GROUP BY k)"]
        .iter()
        .enumerate()
    {
        let written = [&ctx, &stock].map(async |ctx| {
            let path = files.path().join(format!("{n}_{:p}.csv", ctx));
            let sql = format!("COPY {from} TO '{}' STORED AS CSV", path.display());
            let count = lines(ctx, &sql).await;
            let text = std::fs::read_to_string(path).unwrap();
            let mut rows: Vec<_> = text.lines().map(String::from).collect();
            rows.sort_unstable();
            (count, rows)
        });
        let [ours, expected] = written;
        assert_eq!(ours.await, expected.await, "{from}");
    }
}

/// Keys and orders of a table are known to plans.
#[tokio::test]
async fn keys_and_orders_are_known() {
    let (ctx, _) = session(64 << 20, "32MB");
    let schema = batch(0, 0).schema();
    let new = |partitions| MemTable::try_new(Arc::clone(&schema), partitions).unwrap();
    let keyed = new(partitions(0));
    let key = Constraints::new_unverified(vec![Constraint::PrimaryKey(vec![1])]);
    ctx.register_table("keyed", Arc::new(keyed.with_constraints(key)))
        .unwrap();
    let sorted = new(vec![partitions(0).concat()]);
    let sorted = sorted.with_sort_order(vec![vec![col("v").sort(true, false)]]);
    ctx.register_table("sorted", Arc::new(sorted)).unwrap();
    ctx.register_table("s", many(700)).unwrap();
    for sql in [
        // A column that is neither grouped by nor aggregated.
        "SELECT v, t, count(*) FROM keyed GROUP BY v ORDER BY v",
        "SELECT DISTINCT v, k FROM keyed ORDER BY v",
        "SELECT keyed.t, s.k FROM keyed JOIN s ON keyed.v = s.v ORDER BY keyed.v",
        "SELECT v, k FROM sorted ORDER BY v",
        "SELECT v, t FROM sorted WHERE k = 3 ORDER BY v LIMIT 9",
        "SELECT v, count(*) FROM sorted GROUP BY v ORDER BY v",
        "SELECT sorted.v, s.k FROM sorted JOIN s ON sorted.v = s.v ORDER BY sorted.v",
        "SELECT v, sum(k) OVER (ORDER BY v) AS s FROM sorted ORDER BY v",
    ] {
        set(&ctx, "bowtie.offload", "off");
        let (expected, plan) = (
            text(&ctx, sql).await,
            text(&ctx, &format!("EXPLAIN {sql}")).await,
        );
        set(&ctx, "bowtie.offload", "auto");
        assert_eq!(text(&ctx, &format!("EXPLAIN {sql}")).await, plan);
        set(&ctx, "bowtie.offload", "force");
        for _ in 0..2 {
            assert_eq!(text(&ctx, sql).await, expected, "{sql}");
        }
    }
    // A statement that changes the rows ends the order.
    let sql = "SELECT v FROM sorted ORDER BY v LIMIT 3";
    lines(&ctx, "INSERT INTO sorted VALUES (1, -1, 'last')").await;
    let rows = lines(&ctx, sql).await;
    assert_eq!(rows.len(), 3);
    assert!(rows[0].contains("-1"), "{rows:?}");
}
