//! Filters and projections that read the value of a scalar subquery: they run on the device, which is told the value when the query runs.

use datafusion::prelude::SessionContext;

use crate::support::answer::{check, forced, stock};
use crate::support::compare::same_rows;
use crate::support::session::session;
use crate::support::tables::{mixed_table, register};
use crate::support::tuning::Tuning;

async fn tables() -> SessionContext {
    let ctx = session();
    register(&ctx, "r", &mixed_table(700, 0.1, 5));
    register(&ctx, "s", &mixed_table(500, 0.1, 6));
    ctx
}

/// `{}`: the query below the filter, whose rows a join above it reads on the device.
fn above_a_join(filter: &str) -> String {
    format!(
        "SELECT x.id, s.id FROM (SELECT r.id, r.g, r.a, r.lo, CAST(r.hi AS DECIMAL(12, 2)) AS m, r.t, s.a AS b FROM r JOIN s ON r.g = s.g AND r.a < s.a) AS x \
         JOIN s ON x.id = s.id WHERE {filter}"
    )
}

#[tokio::test]
async fn filters_compare_with_a_subquery() {
    let ctx = tables().await;
    let filters = [
        "x.a + x.b > (SELECT avg(a) FROM s)",
        "x.m * 2 > (SELECT max(CAST(lo AS DECIMAL(12, 2))) / 3 FROM s) OR x.a + x.b IS NULL",
        "x.a + x.b > (SELECT min(a) FROM s) AND x.a + x.b < (SELECT max(b) + 15 FROM s)",
        "x.lo + x.b < (SELECT max(hi) / 2 FROM s) AND x.a < x.b",
        // No row: NULL.
        "x.a + x.b > (SELECT sum(a) FROM s HAVING sum(a) < 0)",
        "(x.a + x.b > (SELECT sum(a) FROM s HAVING sum(a) < 0)) IS NULL",
        "x.a + x.b + (SELECT count(a) FROM s) > 490",
        "CASE WHEN x.a > (SELECT min(b) FROM s) THEN x.b ELSE x.a END > 5",
    ];
    for filter in filters {
        let sql = above_a_join(filter);
        for n in 0..4 {
            let stock = stock(&ctx, &sql).await.unwrap();
            let given = forced(&ctx, &sql, &Tuning::nth(n)).await.unwrap();
            // As DataFusion's nodes show it.
            let on_host = given.plan.contains("scalar_subquery(");
            assert!(!on_host, "{filter}\n{}", given.plan);
            same_rows(&stock, &given).unwrap();
        }
    }
}

/// Text has no constant that is told later: the filter stays on the host.
#[tokio::test]
async fn text_of_a_subquery() {
    let ctx = tables().await;
    let sql = above_a_join("x.t > (SELECT min(t) FROM s) AND x.a < x.b");
    let stock = stock(&ctx, &sql).await.unwrap();
    check(&ctx, &sql, &Tuning::nth(0), &stock, &["BowtieJoinExec"]).await;
}

/// The value of a subquery that cannot be converted is an error of DataFusion's, raised for rows alone.
#[tokio::test]
async fn a_subquery_whose_conversion_fails() {
    let ctx = tables().await;
    let failing =
        above_a_join("x.a + x.b > CAST((SELECT min(concat('no number ', t)) FROM s) AS BIGINT)");
    let forced = forced(&ctx, &failing, &Tuning::nth(0)).await;
    for failed in [stock(&ctx, &failing).await, forced] {
        let Err(error) = failed else {
            panic!("it has rows");
        };
        assert!(error.to_string().contains("Cannot cast string"), "{error}");
    }
}
