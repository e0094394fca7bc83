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

const FLIGHTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/flights.parquet");

/// For each destination, the pairs of flights that were under way to it together: the second one left after the first,
/// and before its arrival.
const TOGETHER: &str = "\
SELECT a.dest, count(*) AS pairs
FROM flights a
JOIN flights b
  ON a.dest = b.dest
 AND b.dep > a.dep
 AND b.dep < a.arr
GROUP BY a.dest
ORDER BY pairs DESC, a.dest
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

    for offload in ["off", "auto"] {
        ctx.sql(&format!("SET bowtie.offload = '{offload}'"))
            .await?;
        let begun = Instant::now();
        ctx.sql(TOGETHER).await?.show().await?;
        println!("bowtie.offload = '{offload}': {:.2?}", begun.elapsed());
    }
    Ok(())
}
