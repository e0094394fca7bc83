//! A theta join over Parquet in an object store. Bowtie replaces operators, not tables, so a join does not depend on
//! where its rows come from.
//!
//! The store is in memory here. One of a cloud is registered in the same way, under its own URL.
//!
//! ```text
//! cargo run --release --example 04_object_store
//! ```

use std::sync::Arc;
use std::time::Instant;

use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::prelude::*;
use datafusion_bowtie::BowtieSessionExt;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path;

const FLIGHTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/flights.parquet");

/// For each departure, the others from its airport within 15 minutes, as in `01_theta_sql.rs`.
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

#[tokio::main]
async fn main() -> Result<()> {
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_bowtie()?
        .build();
    let ctx = SessionContext::new_with_state(state);

    let store = InMemory::new();
    let file = std::fs::read(FLIGHTS)?;
    store
        .put(&Path::from("flights.parquet"), file.into())
        .await?;

    let bucket = ObjectStoreUrl::parse("mem://bucket")?;
    ctx.register_object_store(bucket.as_ref(), Arc::new(store));
    ctx.register_parquet(
        "flights",
        "mem://bucket/flights.parquet",
        ParquetReadOptions::default(),
    )
    .await?;

    let start = Instant::now();
    ctx.sql(BUSIEST).await?.show().await?;
    println!("{:.2?}", start.elapsed());
    Ok(())
}
