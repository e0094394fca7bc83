use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::*;
use datafusion_bowtie::BowtieSessionExt;

#[tokio::test]
async fn smoke() {
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_bowtie()
        .unwrap()
        .build();
    let ctx = SessionContext::new_with_state(state);
    for set in ["SET bowtie.offload = 'force'"] {
        ctx.sql(set).await.unwrap();
    }
    ctx.sql("CREATE TABLE r AS SELECT value AS id, (value * 7919) % 1009 AS a, (value * 104729) % 997 AS b FROM generate_series(1, 300)").await.unwrap().collect().await.unwrap();
    ctx.sql("CREATE TABLE s AS SELECT value AS id, (value * 6101) % 1013 AS a, (value * 3571) % 991 AS b FROM generate_series(1, 200)").await.unwrap().collect().await.unwrap();
    let queries = [
        "SELECT sum(s.b), count(*), min(r.b), max(s.b), avg(s.a) FROM r JOIN s ON r.a > s.a",
        "SELECT r.id, sum(s.b), count(*) c, min(s.b) FROM r JOIN s ON r.a > s.a GROUP BY r.id ORDER BY 1 LIMIT 3",
        "SELECT r.id, count(s.id) c FROM r LEFT JOIN s ON r.a > s.a AND s.a > 900 GROUP BY r.id ORDER BY 2, 1 LIMIT 3",
        "SELECT count(*) FROM (SELECT r.id, s.id FROM r JOIN s ON r.a > s.a AND r.b < s.b)",
        "SELECT r.id i, s.id j FROM r FULL JOIN s ON r.a > s.a + 100 AND r.b < s.b - 800 ORDER BY 1, 2 LIMIT 5",
        "SELECT count(*) FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE r.a > s.a AND r.b < s.b)",
        "SELECT r.id, s.id FROM r JOIN s ON r.id % 10 = s.id % 10 AND r.a BETWEEN s.a - 5 AND s.a + 5 AND r.b + s.b > 100 ORDER BY 1, 2 LIMIT 5",
    ];
    for q in queries {
        for off in ["force", "off"] {
            ctx.sql(&format!("SET bowtie.offload = '{off}'"))
                .await
                .unwrap();
            println!(
                "{}",
                pretty_format_batches(
                    &ctx.sql(&format!("EXPLAIN FORMAT INDENT {q}"))
                        .await
                        .unwrap()
                        .collect()
                        .await
                        .unwrap()
                )
                .unwrap()
            );
            let out = ctx.sql(q).await.unwrap().collect().await;
            match out {
                Ok(o) => println!("{off}\n{}", pretty_format_batches(&o).unwrap()),
                Err(e) => println!("{off} ERR {e}"),
            }
        }
        println!(
            "{}",
            pretty_format_batches(
                &ctx.sql(&format!("SELECT * FROM bowtie_explain('{q}')"))
                    .await
                    .unwrap()
                    .collect()
                    .await
                    .unwrap()
            )
            .unwrap()
        );
    }
}
