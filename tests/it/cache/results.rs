//! Aggregations over stored tables are finished on the device: averages and sums of floats too.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, RecordBatch};
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;

use crate::cache::{session, stock_lines};
use crate::support::answer::{plan_of, shown};
use crate::support::session::set;

/// `k`, a decimal `d` and a float `f` for each row.
fn register(ctx: &SessionContext, rows: Vec<(i64, Option<i128>, Option<f64>)>, digits: u8) {
    let keys = rows.iter().map(|row| row.0).collect::<Int64Array>();
    let decimals = rows.iter().map(|row| row.1).collect::<Decimal128Array>();
    let decimals = decimals.with_precision_and_scale(digits, 2).unwrap();
    let floats = rows.iter().map(|row| row.2).collect::<Float64Array>();
    let columns: [(&str, ArrayRef); 3] = [
        ("k", Arc::new(keys)),
        ("d", Arc::new(decimals)),
        ("f", Arc::new(floats)),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.map(|(name, column)| (name, column, true)),
    )
    .unwrap();
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
    ctx.deregister_table("x").unwrap();
    ctx.register_table("x", Arc::new(table)).unwrap();
}

/// The rows by the device and by DataFusion are the same, and the device finishes the aggregation above which a join stands.
async fn check(ctx: &SessionContext, aggregates: &str) {
    let grouped = format!("SELECT k, {aggregates} FROM x GROUP BY k");
    let sql = format!("SELECT g.* FROM ({grouped}) AS g JOIN x ON g.k = x.k ORDER BY 1, 2");
    let plan = shown(&plan_of(ctx, &sql).await.unwrap());
    assert!(
        plan.contains("BowtieAggregateExec") && !plan.contains("finish=host"),
        "{plan}"
    );
    for sql in [grouped + " ORDER BY k", sql] {
        let expected = stock_lines(ctx, &sql).await;
        for chunk_rows in ["auto", "3", "100"] {
            set(ctx, "bowtie.chunk_rows", chunk_rows);
            assert_eq!(crate::cache::lines(ctx, &sql).await, expected, "{sql}");
        }
    }
}

#[tokio::test]
async fn averages_and_sums() {
    let (ctx, _) = session(64 << 20, "32MB");
    let rows = (0..500).map(|n: i64| {
        let there = n % 7 > 0 && n % 11 != 3;
        let decimal = there.then(|| i128::from(n * n % 1013 - 500));
        (n % 11, decimal, there.then_some(n as f64 / 4.0 - 30.0))
    });
    register(&ctx, rows.collect(), 15);
    check(&ctx, "avg(d), avg(f), sum(f), count(d), avg(k), max(d)").await;
    check(&ctx, "avg(CAST(k AS INT)), avg(d + 1), sum(d)").await;
    // Negative zeros, infinities, not a number, and groups of NULLs.
    let rows = vec![
        (1, Some(-1), Some(-0.0)),
        (2, Some(-1), Some(f64::INFINITY)),
        (2, Some(0), Some(1.0)),
        (3, None, None),
        (4, Some(-5), Some(f64::NAN)),
        (4, Some(-6), Some(1.0)),
        (5, Some(10_i128.pow(14)), Some(-0.0)),
        (5, Some(-10_i128.pow(14)), Some(0.0)),
    ];
    register(&ctx, rows, 15);
    check(&ctx, "avg(d), avg(f), sum(f)").await;
}

/// Decimals whose average is beyond its type: DataFusion's error, or its result where it adds them in wider decimals.
#[tokio::test]
async fn averages_that_overflow() {
    let (ctx, _) = session(64 << 20, "32MB");
    let sql = "SELECT k, avg(d) FROM x GROUP BY k";
    for digits in [20, 25, 28, 38] {
        let most = 10_i128.pow(u32::from(digits)) - 1;
        for value in [most, -most, most / 10_000] {
            register(
                &ctx,
                vec![(1, Some(value), None), (1, Some(value), None)],
                digits,
            );
            set(&ctx, "bowtie.offload", "off");
            let stock = ctx.sql(sql).await.unwrap().collect().await;
            set(&ctx, "bowtie.offload", "force");
            let forced = ctx.sql(sql).await.unwrap().collect().await;
            match (stock, forced) {
                (Ok(stock), Ok(forced)) => {
                    let shown =
                        |batches| arrow::util::pretty::pretty_format_batches(batches).unwrap();
                    assert_eq!(shown(&stock).to_string(), shown(&forced).to_string());
                }
                (Err(stock), Err(forced)) => {
                    let message = "Overflow in AvgAccumulator";
                    assert!(stock.to_string().contains(message), "{stock}");
                    assert!(forced.to_string().contains(message), "{forced}");
                }
                other => panic!("{digits} {value}: {other:?}"),
            }
        }
    }
}
