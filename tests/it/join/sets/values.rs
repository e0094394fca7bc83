//! The overlap and the similarity of matching lists as columns of the result, which the join knows.

use datafusion::prelude::SessionContext;

use crate::support::answer::{check, forced, stock};
use crate::support::compare::similar_rows;
use crate::support::lists::{PREDICATES, Shape, TECHNIQUES, table};
use crate::support::session::{session, set};
use crate::support::tables::register;
use crate::support::tuning::Tuning;

fn tables(nulls: f64) -> SessionContext {
    let ctx = session();
    let shape = |rows, seed| Shape::short(rows, nulls, seed);
    register(&ctx, "r", &table(shape(60, 5)));
    register(&ctx, "s", &table(shape(45, 6)));
    ctx
}

/// Checks that forced and stock give the same rows, and whether the projection computes set functions.
async fn check_values(
    ctx: &SessionContext,
    (sql, stock_sql): (&str, &str),
    computed: bool,
    at: usize,
) {
    let stock = stock(ctx, stock_sql)
        .await
        .unwrap_or_else(|e| panic!("{stock_sql}\n{e}"));
    for n in [at, at + 3] {
        set(ctx, "bowtie.set_strategy", TECHNIQUES[n % TECHNIQUES.len()]);
        let plan = check(ctx, sql, &Tuning::nth(n), &stock, &["BowtieJoinExec"]).await;
        let is_call = |line: &str| {
            let projects = line.contains("ProjectionExec:") || line.contains("evaluate=");
            let names = ["overlap(", "jaccard(", "dice(", "cosine(", "containment("];
            projects && names.iter().any(|name| line.contains(name))
        };
        let calls = plan.lines().any(is_call);
        assert_eq!(calls, computed, "{sql}\n{plan}");
    }
}

/// What a query may select of the lists that match.
const SELECTED: [&str; 5] = [
    "array_jaccard(r.v, s.v) AS x",
    "array_overlap(s.v, r.v) AS x, array_dice(r.v, s.v) AS y",
    "array_cosine(r.v, s.v) * 100 AS x, r.t",
    "round(array_containment(r.v, s.v), 2) AS x, array_overlap(r.v, s.v) + r.id AS y, array_overlap(r.v, s.v) AS z",
    "r.v, s.v, list_jaccard(r.v, s.v) AS x",
];

#[tokio::test]
async fn values_come_out_of_the_join() {
    for nulls in [0.0, 0.15] {
        let ctx = tables(nulls);
        let mut at = 0;
        for predicate in PREDICATES
            .iter()
            .filter(|predicate| predicate.sql.contains("r.v") && predicate.sql.contains("s.v"))
        {
            for kind in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
                let selected = SELECTED[at % SELECTED.len()];
                let other = [
                    "",
                    " AND r.g = s.g",
                    " AND r.a < s.a",
                    " AND concat(r.t, s.t) < 'f'",
                ][at % 4];
                let sql = |predicate: &str| {
                    format!(
                        "SELECT r.id, s.id AS other, {selected} FROM r {kind} s ON {predicate}{other}"
                    )
                };
                let both = (sql(predicate.sql), sql(&predicate.guarded()));
                check_values(&ctx, (&both.0, &both.1), false, at).await;
                at += 1;
            }
        }
    }
}

#[tokio::test]
async fn what_is_read_of_the_values() {
    let ctx = tables(0.1);
    let join = "FROM r JOIN s ON array_jaccard(r.v, s.v) >= 0.3";
    for (at, sql) in [
        format!("SELECT r.id, s.id AS other, array_jaccard(r.v, s.v) AS x {join} AND r.id <> s.id ORDER BY x DESC, r.id, other"),
        format!("SELECT r.id, max(array_jaccard(r.v, s.v)) AS x, count(*) {join} GROUP BY r.id"),
        format!("SELECT sum(array_overlap(r.v, s.v)), avg(array_dice(r.v, s.v)) {join}"),
        format!("SELECT r.g, r.v, max(array_jaccard(s.v, r.v)) FILTER (WHERE s.id > 3) AS x, min(array_jaccard(r.v, s.v) + r.id), count(DISTINCT array_overlap(r.v, s.v)) {join} GROUP BY r.g, r.v"),
        format!("SELECT * FROM (SELECT r.id, s.id AS other, array_jaccard(r.v, s.v) AS x {join}) WHERE x < 0.6 AND id > 3"),
        format!("SELECT * FROM (SELECT r.id, s.id AS other, array_jaccard(r.v, s.v) AS x, row_number() OVER (PARTITION BY r.id ORDER BY array_jaccard(r.v, s.v) DESC, s.id) AS n {join}) WHERE n <= 2"),
        format!("SELECT r.id, CASE WHEN array_jaccard(r.v, s.v) > 0.5 THEN 'near' ELSE 'far' END AS x {join}"),
        // A comma join with the condition in WHERE, and lists that are computed.
        "SELECT r.id, s.id AS other, array_jaccard(r.v, s.v) AS x FROM r, s WHERE array_jaccard(r.v, s.v) >= 0.3".to_string(),
        "SELECT a.id, b.id AS other, array_overlap(array_distinct(a.v), array_distinct(b.v)) AS x FROM r a JOIN s b ON array_overlap(array_distinct(a.v), array_distinct(b.v)) >= 2".to_string(),
    ].iter().enumerate() {
        let stock = stock(&ctx, sql).await.unwrap_or_else(|e| panic!("{sql}\n{e}"));
        let given = forced(&ctx, sql, &Tuning::nth(5 * at)).await.unwrap();
        assert!(given.plan.contains("BowtieJoinExec"), "{sql}\n{}", given.plan);
        let of_join = given.plan.contains("bowtie_array_");
        assert!(of_join || !sql.contains("(array_"), "{sql}\n{}", given.plan);
        // Sums of floats depend on the order of rows.
        if let Err(difference) = similar_rows(&stock, &given) {
            panic!("{sql}\n{}\n{difference}", given.plan);
        }
    }
    // Functions of other lists are evaluated by rows.
    let sql = "SELECT r.id, s.id AS other, array_jaccard(r.v, array_distinct(s.v)) AS x FROM r JOIN s ON array_overlap(r.v, s.v) >= 2";
    check_values(&ctx, (sql, sql), true, 2).await;
}

/// Without a predicate on the lists: each list is encoded once, and a NULL one has no value.
#[tokio::test]
async fn values_of_all_pairs() {
    let mut at = 0;
    for nulls in [0.0, 0.2] {
        let ctx = tables(nulls);
        for from in [
            "FROM r CROSS JOIN s",
            "FROM r, s WHERE r.id <= s.id",
            "FROM r JOIN s ON r.a < s.a AND r.g >= s.g",
            "FROM r JOIN s ON r.g = s.g",
            "FROM r LEFT JOIN s ON r.g = s.g AND r.a < s.a",
            "FROM r FULL JOIN s ON r.a BETWEEN s.a - 1 AND s.a",
            "FROM r RIGHT JOIN s ON concat(r.t, s.t) < 'd'",
        ] {
            for selected in SELECTED
                .iter()
                .filter(|selected| !selected.contains("r.v, s.v, "))
            {
                at += 1;
                let sql = format!("SELECT r.id, s.id AS other, {selected} {from}");
                check_values(&ctx, (&sql, &sql), false, at).await;
            }
        }
        // Of other lists, of lists of both sides, and of lists that may fail, a value is evaluated by rows.
        for selected in [
            "array_jaccard(r.v, s.v) AS x, array_jaccard(array_distinct(r.v), s.v) AS y",
            "array_overlap(CASE WHEN s.id > 20 THEN r.v ELSE s.v END, s.v) AS x",
            "array_overlap(r.v, make_array(CAST(100 / (s.id + 1) AS INT))) AS x",
        ] {
            let sql = format!("SELECT r.id, s.id AS other, {selected} FROM r CROSS JOIN s");
            check_values(&ctx, (&sql, &sql), true, at).await;
        }
    }
}

/// A list that is no NULL in the rows that an outer join pads has a value there, and one that fails on some row fails as DataFusion does.
#[tokio::test]
async fn lists_of_padded_rows_and_lists_that_fail() {
    let ctx = tables(0.2);
    for (kind, value) in [
        (
            "LEFT",
            "array_overlap(r.v, coalesce(s.v, make_array(CAST(3 AS INT))))",
        ),
        (
            "RIGHT",
            "array_jaccard(coalesce(r.v, make_array(CAST(3 AS INT))), s.v)",
        ),
        (
            "FULL",
            "array_dice(coalesce(r.v, make_array(CAST(3 AS INT))), s.v)",
        ),
    ] {
        for condition in ["r.a < s.a AND r.id > 50", "r.g = s.g AND r.id < 20"] {
            let sql = format!(
                "SELECT r.id, s.id AS other, {value} AS x FROM r {kind} JOIN s ON {condition}"
            );
            check_values(&ctx, (&sql, &sql), true, 1).await;
        }
    }
    // DataFusion evaluates no list of a row that matches nothing.
    let sql = "SELECT r.id, s.id AS other, array_overlap(r.v, make_array(CAST(100 / (s.id - 44) AS INT))) AS x FROM r JOIN s ON r.id < s.id AND s.id < 44";
    check_values(&ctx, (sql, sql), true, 2).await;
    let sql = "SELECT r.id, array_overlap(r.v, make_array(CAST(100 / (s.id - 44) AS INT))) AS x FROM r JOIN s ON r.id < s.id";
    set(&ctx, "bowtie.offload", "off");
    let stock = crate::support::answer::answer(&ctx, sql)
        .await
        .unwrap_err()
        .to_string();
    let given = forced(&ctx, sql, &Tuning::PLAIN)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        stock.contains("Divide by zero") && given.contains("Divide by zero"),
        "{stock}\n{given}"
    );
}
