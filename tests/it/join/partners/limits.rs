//! Subqueries that keep no rows of each row outside, or as many as a parameter says, and names that a column below has, too.

use arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;

use crate::join::partners::{tables, tunings};
use crate::support::answer::{forced, stock};
use crate::support::compare::same_rows;
use crate::support::session::session;

/// Checks that a query has the rows of another one, by DataFusion alone and by force. Returns the last plan.
async fn check_same(ctx: &SessionContext, sql: &str, other: &str) -> String {
    let expected = stock(ctx, other).await.unwrap();
    let mut given = stock(ctx, sql)
        .await
        .unwrap_or_else(|e| panic!("{sql}\n{e}"));
    same_rows(&expected, &given).unwrap_or_else(|e| panic!("{sql}\n{}\n{e}", given.plan));
    for tuning in tunings(0, 3) {
        given = forced(ctx, sql, &tuning)
            .await
            .unwrap_or_else(|e| panic!("{sql}\n{e}"));
        same_rows(&expected, &given).unwrap_or_else(|e| panic!("{sql}\n{}\n{e}", given.plan));
    }
    given.plan
}

#[tokio::test]
async fn a_limit_of_no_rows() {
    let ctx = session();
    tables(&ctx, &DataType::Int64, (40, 60), 0.1);
    let first = "(SELECT q.ts, q.s FROM q WHERE q.k = t.k ORDER BY q.ts LIMIT 0)";
    let nulls = "SELECT id, CAST(NULL AS BIGINT) AS ts FROM t";
    for (sql, other) in [
        (
            format!("SELECT t.id, l.ts FROM t, LATERAL {first} l"),
            "SELECT id, ts FROM t WHERE false",
        ),
        (
            format!("SELECT t.id, l.ts FROM t LEFT JOIN LATERAL {first} l ON true"),
            nulls,
        ),
        (
            format!(
                "SELECT t.id, {} AS ts FROM t",
                first.replace("q.ts, q.s", "q.ts")
            ),
            nulls,
        ),
    ] {
        check_same(&ctx, &sql, other).await;
    }
}

#[tokio::test]
async fn a_limit_by_a_parameter() {
    let ctx = session();
    tables(&ctx, &DataType::Int64, (60, 90), 0.1);
    let condition = "q.k = t.k AND q.ts <= t.ts";
    for (name, join) in [("inside", "JOIN"), ("outside", "LEFT JOIN")] {
        let of = |limit: &str| {
            format!(
                "SELECT t.id, l.ts FROM t {join} LATERAL (SELECT * FROM q WHERE {condition} ORDER BY q.ts DESC LIMIT {limit}) l ON true"
            )
        };
        let prepare = format!("PREPARE {name}(BIGINT) AS {}", of("$1"));
        ctx.sql(&prepare).await.unwrap();
        for limit in ["0", "1", "3"] {
            let plan = check_same(&ctx, &format!("EXECUTE {name}({limit})"), &of(limit)).await;
            let kept = format!("partners=last {limit} ");
            assert!(limit == "0" || plan.contains(&kept), "{plan}");
        }
        // NULL is no limit.
        let all = format!("SELECT t.id, q.ts FROM t {join} q ON {condition}");
        check_same(&ctx, &format!("EXECUTE {name}(NULL)"), &all).await;
        let error = stock(&ctx, &format!("EXECUTE {name}(-1)")).await;
        assert!(error.is_err(), "a negative limit");
    }
}

#[tokio::test]
async fn computed_columns_with_the_name_of_one_below() {
    let ctx = session();
    tables(&ctx, &DataType::Int64, (60, 90), 0.1);
    for order in ["q.ts DESC, q.id", "k DESC, q.id"] {
        let of = |computed: &str| {
            format!(
                "SELECT t.id, l.* FROM t LEFT JOIN LATERAL (SELECT q.ts + q.id AS {computed}, q.s FROM q WHERE q.k = t.k AND q.ts <= t.ts ORDER BY {order} LIMIT 2) l ON true"
            )
        };
        let other = of("k2")
            .replace("BY k DESC", "BY k2 DESC")
            .replace("l.*", "l.k2 AS k, l.s");
        let plan = check_same(&ctx, &of("k"), &other).await;
        assert!(plan.contains("partners="), "{plan}");
    }
}
