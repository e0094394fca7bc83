//! A stored column is never stale.

use std::time::Duration;

use crate::cache::{GROUPED, batch, lines, read, session, table};

/// INSERT adds batches. What is stored of the others is used again.
#[tokio::test]
async fn inserted_rows_are_seen() {
    let (ctx, _) = session(64 << 20, "32MB");
    crate::support::session::set(&ctx, "bowtie.chunk_rows", "256");
    let batches = (0..4).map(|n| batch(n * 256, 256)).collect();
    ctx.register_table("r", table(vec![batches])).unwrap();
    let (_, all) = read(&ctx, GROUPED).await;
    for round in 0..3 {
        lines(
            &ctx,
            &format!("INSERT INTO r VALUES (1, {round}, '1 more'), (2, 1000, '1')"),
        )
        .await;
        let (resident, sent) = read(&ctx, GROUPED).await;
        assert!(resident >= all * 3 / 4, "{round}: {resident} of {all}");
        assert!(sent > 0 && sent < all / 2, "{round}: {sent}");
        assert_eq!(read(&ctx, GROUPED).await.1, 0);
    }
}

/// A table of the same name, schema and size.
#[tokio::test]
async fn a_table_that_is_made_again_is_another_one() {
    let (ctx, runtime) = session(64 << 20, "32MB");
    let mut last = vec![];
    for round in 0..5 {
        ctx.register_table("r", table(vec![vec![batch(round * 11, 500)]]))
            .unwrap();
        let (resident, sent) = read(&ctx, GROUPED).await;
        assert!(resident == 0 && sent > 0, "{round}: {resident} {sent}");
        let sum = lines(&ctx, "SELECT sum(v) FROM r").await;
        assert_ne!(sum, last);
        last = sum;
        ctx.deregister_table("r").unwrap();
    }
    // The columns of dropped tables go with the next scan.
    ctx.register_table("r", table(vec![vec![batch(0, 1)]]))
        .unwrap();
    read(&ctx, GROUPED).await;
    let in_use = || runtime.device_memory()[0].in_use;
    for _ in 0..100 {
        if in_use() < 1000 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} bytes are kept", in_use());
}

/// Tables that share batches, in another order and of other partitions.
#[tokio::test]
async fn tables_of_the_same_batches() {
    let (ctx, _) = session(64 << 20, "32MB");
    let [a, b, c] = [batch(0, 100), batch(500, 100), batch(900, 30)];
    ctx.register_table("r", table(vec![vec![a.clone(), b.clone(), c.clone()]]))
        .unwrap();
    read(&ctx, GROUPED).await;
    let others = [
        vec![vec![a.clone(), a.clone(), c.clone()]],
        vec![vec![c.clone(), b.clone(), a.clone()]],
        vec![vec![a.clone()], vec![c.clone()]],
        vec![vec![a.clone(), b.clone()]],
        vec![vec![b.slice(0, 100), b.slice(20, 5)]],
        vec![vec![a.project(&[1, 0, 2]).unwrap()]],
    ];
    for (i, partitions) in others.into_iter().enumerate() {
        ctx.deregister_table("r").unwrap();
        let schema = partitions[0][0].schema();
        let table = datafusion::datasource::MemTable::try_new(schema, partitions).unwrap();
        ctx.register_table("r", std::sync::Arc::new(table)).unwrap();
        for _ in 0..2 {
            read(&ctx, GROUPED).await;
        }
        assert_eq!(read(&ctx, GROUPED).await.1, 0, "{i}");
    }
}
