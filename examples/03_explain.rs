//! How to see what Bowtie does with a query, and why: `EXPLAIN`, `EXPLAIN ANALYZE`, the table
//! function `bowtie_explain`, and the options.
//!
//! ```text
//! cargo run --release --example 03_explain
//! ```

use datafusion::arrow::array::AsArray;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::*;
use datafusion_bowtie::BowtieSessionExt;

const FLIGHTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/flights.parquet");

/// How many planes were under way when a flight left, itself included: a join of points with the
/// intervals around them, and work for Bowtie.
const UNDER_WAY: &str = "\
SELECT b.flight_id, b.dep, count(*) AS under_way
FROM flights a
JOIN flights b ON a.dep <= b.dep AND b.dep < a.arr
GROUP BY b.flight_id, b.dep
ORDER BY under_way DESC, b.flight_id
LIMIT 5";

/// Pairs of flights of one aircraft: an equality alone, for which the stock hash join is already the right operator.
/// The quotes will be doubled below.
const SAME_AIRCRAFT: &str = "\
SELECT count(*) AS pairs
FROM flights a
JOIN flights b ON a.tailnum = b.tailnum
WHERE a.origin = 'JFK'";

#[tokio::main]
async fn main() -> Result<()> {
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_bowtie()?
        .build();
    let ctx = SessionContext::new_with_state(state);
    ctx.register_parquet("flights", FLIGHTS, ParquetReadOptions::default())
        .await?;

    println!("== EXPLAIN: which operators run\n");
    print_plans(&ctx, &format!("EXPLAIN {UNDER_WAY}")).await?;

    println!("== EXPLAIN ANALYZE: what they did\n");
    print_plans(&ctx, &format!("EXPLAIN ANALYZE {UNDER_WAY}")).await?;

    println!("== bowtie_explain: a join that Bowtie takes\n");
    why(&ctx, UNDER_WAY).await?;

    println!("\n== bowtie_explain: a join that Bowtie leaves alone\n");
    why(&ctx, SAME_AIRCRAFT).await?;

    println!("\n== bowtie_explain: the first join again, with Bowtie switched off\n");
    ctx.sql("SET bowtie.offload = 'off'").await?;
    why(&ctx, UNDER_WAY).await?;

    println!("\n== A value that an option does not have\n");
    let sql = "SET bowtie.offload = 'sometimes'";
    match ctx.sql(sql).await {
        Ok(_) => println!("{sql}: accepted"),
        Err(refusal) => println!("{sql}\n{refusal}"),
    }
    Ok(())
}

/// Prints the plans one below the other, which reads better than one wide table.
async fn print_plans(ctx: &SessionContext, explain: &str) -> Result<()> {
    for batch in ctx.sql(explain).await?.collect().await? {
        let kinds = batch.column(0).as_string::<i32>();
        let plans = batch.column(1).as_string::<i32>();
        for (kind, plan) in kinds.iter().zip(plans) {
            println!("{}:\n{}", kind.unwrap_or(""), plan.unwrap_or(""));
        }
    }
    println!();
    Ok(())
}

/// One row for each operator that Bowtie considered.
async fn why(ctx: &SessionContext, query: &str) -> Result<()> {
    // The query is a string inside a query, so its own quotes are doubled.
    let quoted = query.replace('\'', "''");
    ctx.sql(&format!("SELECT * FROM bowtie_explain('{quoted}')"))
        .await?
        .show()
        .await
}
