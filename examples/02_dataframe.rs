//! A theta join with the DataFrame API: pairs of flights where one flew more than 500 miles farther
//! than the other in less time in the air.
//!
//! Most flights from New York head west, against the jet stream. The ones to Puerto Rico and to the
//! Virgin Islands do not, and make up most of the answer.
//!
//! ```text
//! cargo run --release --example 02_dataframe
//! ```

use std::time::Instant;

use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::functions_aggregate::count::count_all;
use datafusion::functions_aggregate::expr_fn::max;
use datafusion::physical_plan::displayable;
use datafusion::prelude::*;
use datafusion_bowtie::BowtieSessionExt;

const FLIGHTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/flights.parquet");

#[tokio::main]
async fn main() -> Result<()> {
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_bowtie()?
        .build();
    let ctx = SessionContext::new_with_state(state);

    let plan = routes(&ctx).await?.create_physical_plan().await?;
    println!("{}", displayable(plan.as_ref()).indent(false));
    for offload in ["off", "auto"] {
        ctx.sql(&format!("SET bowtie.offload = '{offload}'"))
            .await?;
        let begun = Instant::now();
        routes(&ctx).await?.show().await?;
        println!("bowtie.offload = '{offload}': {:.2?}", begun.elapsed());
    }
    Ok(())
}

/// No option and no new method: the join is an ordinary one, and bowtie finds it in the plan.
async fn routes(ctx: &SessionContext) -> Result<DataFrame> {
    let flights = ctx
        .read_parquet(FLIGHTS, ParquetReadOptions::default())
        .await?;
    let far = flights.clone().alias("far")?;
    let near = flights.alias("near")?;
    far.join_on(
        near,
        JoinType::Inner,
        [
            col("far.distance").gt(col("near.distance") + lit(500)),
            col("far.air_time").lt(col("near.air_time")),
        ],
    )?
    .aggregate(
        vec![col("far.dest"), col("near.dest")],
        vec![
            count_all().alias("pairs"),
            max(col("near.air_time") - col("far.air_time")).alias("minutes_less"),
        ],
    )?
    .select([
        col("far.dest").alias("far"),
        col("near.dest").alias("near"),
        col("pairs"),
        col("minutes_less"),
    ])?
    .sort(vec![
        col("pairs").sort(false, false),
        col("far").sort(true, false),
        col("near").sort(true, false),
    ])?
    .limit(0, Some(10))
}
