//! Two theta joins in SQL, over the 27 004 flights that left New York City in January 2013.
//!
//! Each query runs twice, with Bowtie switched off and with Bowtie left to decide. For each run the
//! example prints the physical plan and the time, then the rows, which have to be the same.
//!
//! ```text
//! cargo run --release --example 01_theta_sql
//! ```

use std::time::{Duration, Instant};

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::displayable;
use datafusion::prelude::*;
use datafusion_bowtie::BowtieSessionExt;

const FLIGHTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/flights.parquet");

/// A band join. Stock DataFusion hashes on the airport, of which there are three, and tests the band on each remaining
/// pair: a quarter of a billion of them.
const BUSIEST: &str = "\
SELECT a.flight_id, a.carrier, a.flight, a.origin, a.dest, a.dep,
       count(*) - 1 AS nearby -- each flight is near itself
FROM flights a
JOIN flights b
  ON a.origin = b.origin
 AND b.dep BETWEEN a.dep - INTERVAL '15 minutes' AND a.dep + INTERVAL '15 minutes'
GROUP BY a.flight_id, a.carrier, a.flight, a.origin, a.dest, a.dep
ORDER BY nearby DESC, a.flight_id
LIMIT 10";

/// Two inequalities, each on columns of its own, and no equality to hash on: stock DataFusion tests all 729 million
/// pairs.
const OVERTAKEN: &str = "\
SELECT a.flight_id, a.carrier, a.flight, a.origin, a.dest, a.sched_dep, a.dep,
       count(*) AS overtaken_by
FROM flights a
JOIN flights b
  ON b.sched_dep > a.sched_dep
 AND b.dep < a.dep
GROUP BY a.flight_id, a.carrier, a.flight, a.origin, a.dest, a.sched_dep, a.dep
ORDER BY overtaken_by DESC, a.flight_id
LIMIT 10";

#[tokio::main]
async fn main() -> Result<()> {
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_bowtie()?
        .build();
    let ctx = SessionContext::new_with_state(state);
    ctx.register_parquet("flights", FLIGHTS, ParquetReadOptions::default())
        .await?;

    compare(
        &ctx,
        "Departures with the most others from their airport within 15 minutes",
        BUSIEST,
    )
    .await?;
    compare(
        &ctx,
        "Flights that the most others overtook: scheduled later, and gone earlier",
        OVERTAKEN,
    )
    .await
}

async fn compare(ctx: &SessionContext, title: &str, sql: &str) -> Result<()> {
    println!("== {title}\n\n{sql}\n");
    let (stock_rows, stock) = run(ctx, "off", sql).await?;
    let (rows, bowtie) = run(ctx, "auto", sql).await?;
    assert_eq!(stock_rows, rows, "both ways must give the same rows");

    let ratio = stock.as_secs_f64() / bowtie.as_secs_f64();
    println!("{rows}\n\nThe rows are the same both ways.");
    println!("off: {stock:.2?}, auto: {bowtie:.2?}, ratio: {ratio:.1}\n");
    Ok(())
}

async fn run(ctx: &SessionContext, offload: &str, sql: &str) -> Result<(String, Duration)> {
    ctx.sql(&format!("SET bowtie.offload = '{offload}'"))
        .await?;

    // What EXPLAIN shows as the physical plan, without its table around it.
    let plan = ctx.sql(sql).await?.create_physical_plan().await?;
    println!(
        "-- bowtie.offload = '{offload}'\n{}",
        displayable(plan.as_ref()).indent(false)
    );

    // The time is that of the whole query: planning, reading the file, joining, aggregating.
    let start = Instant::now();
    let batches = ctx.sql(sql).await?.collect().await?;
    let time = start.elapsed();
    Ok((pretty_format_batches(&batches)?.to_string(), time))
}
