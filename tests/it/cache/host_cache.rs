//! Tables in memory that have no room on the device: their codes stay in host memory.

use crate::cache::{GROUPED, batch, measured, session, table};
use crate::support::session::{device, set};

#[tokio::test]
async fn codes_are_made_once() {
    let (ctx, runtime) = session(64 << 20, "1MB");
    set(&ctx, "bowtie.host_cache", "32MB");
    set(&ctx, "bowtie.chunk_rows", "8000");
    let batches = (0..12).map(|n| batch(n * 8_000, 8_000)).collect();
    ctx.register_table("r", table(vec![batches])).unwrap();
    for _ in 0..3 {
        let read = measured(&ctx, GROUPED).await;
        assert!(read.resident <= 1 << 20 && read.sent > 0, "{read:?}");
    }
    measured(&ctx, "SELECT v, t FROM r WHERE v % 1000 = 3 ORDER BY v").await;
    // The CPU backend shares the arrays of the table, and a GPU those that have no codes.
    let codes = match device() == "host" {
        true => 0,
        false => 12 * 8_000,
    };
    let reserved = ctx.runtime_env().memory_pool.reserved();
    assert!(
        reserved >= codes && (codes > 0) == (reserved > 0),
        "{reserved}"
    );
    // The table is dropped, and its codes go with the next scan.
    ctx.deregister_table("r").unwrap();
    ctx.register_table("r", table(vec![vec![batch(0, 10)]]))
        .unwrap();
    measured(&ctx, GROUPED).await;
    // The new one has ten rows.
    assert!(ctx.runtime_env().memory_pool.reserved() < 1 << 10);
    ctx.deregister_table("r").unwrap();
    super::lines(&ctx, "SELECT * FROM bowtie_cache()").await;
    crate::cache::released(&runtime).await;
}
