//! The second query over a table sends nothing.

use crate::cache::{GROUPED, batch, lines, read, session, table};
use crate::support::answer::{plan_of, shown};
use crate::support::session::set;

#[tokio::test]
async fn the_second_query_sends_nothing() {
    let (ctx, _) = session(64 << 20, "32MB");
    ctx.register_table(
        "r",
        table(vec![
            vec![batch(0, 900), batch(900, 40)],
            vec![],
            vec![batch(940, 1)],
        ]),
    )
    .unwrap();
    ctx.register_table("s", table(vec![vec![batch(5, 300)]]))
        .unwrap();
    let (resident, sent) = read(&ctx, GROUPED).await;
    assert!(resident == 0 && sent > 900 * 2, "{resident} {sent}");
    assert_eq!(read(&ctx, GROUPED).await, (sent, 0));
    // Another query needs the same columns, and one of another table.
    let join = "SELECT count(*), sum(r.v), min(s.t) FROM r JOIN s ON r.v = s.v AND r.k < s.k + 1";
    let (resident, sent_for_join) = read(&ctx, join).await;
    assert!(
        resident >= 941 * 3 && sent_for_join > 0,
        "{resident} {sent_for_join}"
    );
    assert_eq!(read(&ctx, join).await, (resident + sent_for_join, 0));
}

/// Batches that are longer than a chunk are stored in several.
#[tokio::test]
async fn long_batches() {
    let (ctx, _) = session(64 << 20, "32MB");
    set(&ctx, "bowtie.chunk_rows", "100");
    ctx.register_table(
        "r",
        table(vec![
            vec![batch(0, 1_037)],
            vec![batch(9, 99), batch(7, 101)],
        ]),
    )
    .unwrap();
    let (_, sent) = read(&ctx, GROUPED).await;
    assert_eq!(read(&ctx, GROUPED).await, (sent, 0));
    let stored = lines(
        &ctx,
        "SELECT rows FROM bowtie_cache() WHERE \"column\" = 'v'",
    )
    .await;
    assert_eq!(stored, ["| 1237 |"]);
}

/// Filters and projections over a scan run on the device.
#[tokio::test]
async fn filters_and_projections_are_on_the_device() {
    let (ctx, _) = session(64 << 20, "32MB");
    ctx.register_table("r", table(vec![vec![batch(0, 900)]]))
        .unwrap();
    let sql = "SELECT k + 1 AS l, sum(v * 2) FROM r WHERE v > 17 GROUP BY k + 1 ORDER BY l";
    let plan = shown(&plan_of(&ctx, sql).await.unwrap());
    let below: Vec<&str> = plan
        .lines()
        .skip_while(|l| !l.contains("BowtieAggregateExec"))
        .collect();
    assert!(below.len() > 2, "{plan}");
    assert!(
        below.iter().all(|line| line.trim().starts_with("Bowtie")),
        "{plan}"
    );
    assert!(
        plan.contains("BowtieFilterExec") && plan.contains("BowtieScanExec"),
        "{plan}"
    );
    read(&ctx, sql).await;
    // Without a cache they stay where they were.
    set(&ctx, "bowtie.cache", "off");
    let plan = shown(&plan_of(&ctx, sql).await.unwrap());
    assert!(
        plan.contains("BowtieUploadExec") && !plan.contains("BowtieScanExec"),
        "{plan}"
    );
}

/// A scan with a limit is an upload, as its rows are not the table's.
#[tokio::test]
async fn a_scan_with_a_limit_is_uploaded() {
    let (ctx, _) = session(64 << 20, "32MB");
    ctx.register_table("r", table(vec![vec![batch(0, 900)]]))
        .unwrap();
    let sql = "SELECT count(*), count(v) FROM (SELECT v FROM r LIMIT 10) AS x";
    let plan = shown(&plan_of(&ctx, sql).await.unwrap());
    assert!(!plan.contains("BowtieScanExec"), "{plan}");
}
