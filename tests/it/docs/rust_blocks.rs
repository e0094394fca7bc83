//! The Rust of the guide compiles, and most of it runs: each block of a page stands here as it does there, in a function that has the names that it reads.

use std::collections::BTreeMap;

use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::*;
use datafusion_bowtie::BowtieSessionExt;

#[rustfmt::skip]
mod first_query {
use datafusion::{error::Result, execution::SessionStateBuilder, prelude::*};
use datafusion_bowtie::BowtieSessionExt;

#[tokio::main]
async fn main() -> Result<()> {
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_bowtie()?
        .build();
    let ctx = SessionContext::new_with_state(state);

    ctx.sql("CREATE TABLE r AS SELECT value AS a FROM generate_series(1, 1000)").await?;
    ctx.sql("CREATE TABLE s AS SELECT value AS a FROM generate_series(1, 900)").await?;
    ctx.sql("SELECT count(*) FROM r JOIN s ON r.a > s.a").await?.show().await?;
    Ok(())
}

    #[test]
    fn it_runs() {
        main().unwrap();
    }
}

#[rustfmt::skip]
async fn profiled(ctx: &SessionContext, query: &str) -> Result<()> {
let profile = datafusion_bowtie::profile(ctx.sql(query).await?).await?.with_sql(query);
std::fs::write("profile.html", profile.to_html())?;
println!("{profile}");                       // the same in short, as text
    Ok(())
}

#[rustfmt::skip]
fn a_session() -> Result<SessionContext> {
use datafusion::{execution::SessionStateBuilder, prelude::*};
use datafusion_bowtie::BowtieSessionExt;

let state = SessionStateBuilder::new()
    .with_config(SessionConfig::new().with_target_partitions(8))
    .with_default_features()
    .with_bowtie()?
    .build();
let ctx = SessionContext::new_with_state(state);
    Ok(ctx)
}

#[rustfmt::skip]
fn enabled(ctx: SessionContext) -> Result<SessionContext> {
use datafusion_bowtie::BowtieContextExt;

let ctx = ctx.enable_bowtie()?;
    Ok(ctx)
}

#[rustfmt::skip]
fn with_options() -> Result<SessionContext> {
use datafusion_bowtie::{BowtieConfigExt, BowtieOptions, Bytes, DeviceChoice, ThetaStrategy};

let options = BowtieOptions::default()
    .with_device(DeviceChoice::Host)
    .with_device_memory(Bytes::at_most(8 << 30)?)      // 8 GiB
    .with_theta_strategy(ThetaStrategy::RANGE);

let state = SessionStateBuilder::new()
    .with_config(SessionConfig::new().with_bowtie_options(options))
    .with_default_features()
    .with_bowtie()?
    .build();
    Ok(SessionContext::new_with_state(state))
}

#[rustfmt::skip]
fn joined(far: DataFrame, near: DataFrame) -> Result<DataFrame> {
use datafusion::functions_aggregate::count::count_all;

let routes = far
    .join_on(
        near,
        JoinType::Inner,
        [
            col("far.distance").gt(col("near.distance") + lit(500)),
            col("far.air_time").lt(col("near.air_time")),
        ],
    )?
    .aggregate(vec![col("far.dest")], vec![count_all()])?;
    Ok(routes)
}

#[tokio::test]
async fn blocks_run() {
    // It would write a file.
    drop(profiled(&a_session().unwrap(), "SELECT 1"));
    for ctx in [
        a_session().unwrap(),
        enabled(SessionContext::new()).unwrap(),
        with_options().unwrap(),
    ] {
        ctx.sql("SET bowtie.offload = 'force'").await.unwrap();
        for (table, distance) in [("far", 2000), ("near", 1000)] {
            let sql = format!(
                "CREATE TABLE {table} AS SELECT value + {distance} AS distance, value % 50 AS air_time, value % 5 AS dest FROM range(0, 100)"
            );
            ctx.sql(&sql).await.unwrap();
        }
        let [far, near] = [ctx.table("far").await, ctx.table("near").await];
        let routes = joined(far.unwrap(), near.unwrap()).unwrap();
        let plan = routes.clone().create_physical_plan().await.unwrap();
        let plan = crate::support::answer::shown(&plan);
        assert!(plan.contains("BowtieJoinAggregateExec"), "{plan}");
        assert_eq!(routes.count().await.unwrap(), 5);
    }
}

/// The lines of the pages' blocks are lines of this file, one after the other.
#[test]
fn blocks_are_those_of_the_pages() {
    let lines = |text: &str| -> String {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty());
        lines.map(|line| format!("{line}\n")).collect()
    };
    let here = lines(include_str!("rust_blocks.rs"));
    let mut found = BTreeMap::new();
    for (page, text) in [
        ("install.md", include_str!("../../../docs/guide/install.md")),
        ("profile.md", include_str!("../../../docs/guide/profile.md")),
        (
            "sessions.md",
            include_str!("../../../docs/guide/sessions.md"),
        ),
    ] {
        for block in text.split("```rust\n").skip(1) {
            let block = block.split("```").next().unwrap_or_default();
            assert!(
                here.contains(&lines(block)),
                "{page}: not in this file:\n{block}"
            );
            *found.entry(page).or_insert(0) += 1;
        }
    }
    let expected = [("install.md", 1), ("profile.md", 1), ("sessions.md", 4)];
    assert_eq!(found, BTreeMap::from(expected));
}
