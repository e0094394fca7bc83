//! Set joins: lists compared as sets, over the aircraft that left New York City in January 2013 and their destinations.
//!
//! DataFusion evaluates the function on every pair of aircraft, nine million of them. A set join indexes the
//! destinations.
//!
//! ```text
//! cargo run --release --example 05_set_joins
//! ```

use std::time::{Duration, Instant};

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::*;
use datafusion_bowtie::BowtieSessionExt;

const FLIGHTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/flights.parquet");

/// A set for each aircraft.
const AIRCRAFT: &str = "\
CREATE TABLE aircraft AS
SELECT tailnum, min(carrier) AS carrier, array_agg(DISTINCT dest) AS dests
FROM flights
WHERE tailnum IS NOT NULL
GROUP BY tailnum";

/// Containment. The matches are counted without being materialised.
const REPLACED: &str = "\
SELECT a.tailnum, a.carrier, array_length(a.dests) AS destinations,
       count(*) - 1 AS others -- each aircraft went where it went
FROM aircraft a
JOIN aircraft b ON array_has_all(b.dests, a.dests)
WHERE array_length(a.dests) >= 5
GROUP BY a.tailnum, a.carrier, array_length(a.dests)
ORDER BY others DESC, a.tailnum
LIMIT 10";

/// Similarity, with an equality and an inequality.
const ALIKE: &str = "\
SELECT a.carrier, a.tailnum AS one, b.tailnum AS other,
       array_overlap(a.dests, b.dests) AS shared, array_jaccard(a.dests, b.dests) AS jaccard
FROM aircraft a
JOIN aircraft b
  ON array_jaccard(a.dests, b.dests) >= 0.75
 AND a.carrier = b.carrier
 AND a.tailnum < b.tailnum
WHERE array_length(a.dests) >= 6
ORDER BY jaccard DESC, shared DESC, one, other
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
    ctx.sql(AIRCRAFT).await?.collect().await?;

    for (title, sql) in [
        (
            "Aircraft whose destinations most others went to, too",
            REPLACED,
        ),
        (
            "Aircraft of one carrier that went to nearly the same places",
            ALIKE,
        ),
    ] {
        println!("== {title}\n\n{sql}\n");
        let (stock_rows, stock) = run(&ctx, "off", sql).await?;
        let (rows, bowtie) = run(&ctx, "auto", sql).await?;
        assert_eq!(stock_rows, rows, "both ways must give the same rows");
        let ratio = stock.as_secs_f64() / bowtie.as_secs_f64();
        println!("{rows}\noff: {stock:.2?}, auto: {bowtie:.2?}, ratio: {ratio:.1}\n");
    }

    // The decision for each join, and its reason.
    let explained = format!("SELECT node, decision, reason FROM bowtie_explain('{ALIKE}')");
    ctx.sql(&explained).await?.show().await
}

async fn run(ctx: &SessionContext, offload: &str, sql: &str) -> Result<(String, Duration)> {
    ctx.sql(&format!("SET bowtie.offload = '{offload}'"))
        .await?;
    let start = Instant::now();
    let batches = ctx.sql(sql).await?.collect().await?;
    let time = start.elapsed();
    Ok((pretty_format_batches(&batches)?.to_string(), time))
}
