//! Join types, other conditions, aggregates, limits and small budgets.

use crate::support::answer::{check, forced, stock};
use crate::support::join_types::KINDS;
use crate::support::lists::{PREDICATES, Shape, TECHNIQUES, table};
use crate::support::session::{session, set};
use crate::support::tables::register;
use crate::support::tuning::Tuning;

fn tables(nulls: f64) -> datafusion::prelude::SessionContext {
    let ctx = session();
    let shape = |rows, seed| Shape::short(rows, nulls, seed);
    register(&ctx, "r", &table(shape(60, 5)));
    register(&ctx, "s", &table(shape(45, 6)));
    ctx
}

/// Each join type × each predicate, with what else a condition may hold.
#[tokio::test]
async fn join_types_and_conditions() {
    let ctx = tables(0.1);
    let others = [
        "",
        " AND r.g = s.g",
        " AND r.a < s.a",
        " AND r.a + s.a > 12",
        " AND concat(r.t, s.t) < 'f'",
        " AND r.g = s.g AND r.id <= s.id AND r.a * s.a > 30",
        " AND (r.g IS NOT DISTINCT FROM s.g) AND r.t <> s.t",
        " AND array_has_any(r.v, s.v)",
    ];
    let mut n = 0;
    for kind in KINDS {
        for predicate in PREDICATES {
            let other = others[n % others.len()];
            let condition = format!("{}{other}", predicate.guarded());
            let sql = kind.sql("r", "s", &["id", "t"], &condition);
            let stock = match stock(&ctx, &sql).await {
                Ok(stock) => stock,
                Err(error) => panic!("{sql}: {error}"),
            };
            let sql = kind.sql("r", "s", &["id", "t"], &format!("{}{other}", predicate.sql));
            set(
                &ctx,
                "bowtie.set_strategy",
                TECHNIQUES[n % TECHNIQUES.len()],
            );
            let plan = check(&ctx, &sql, &Tuning::nth(n), &stock, &["BowtieJoinExec"]).await;
            assert!(plan.contains("strategy=set"), "{sql}\n{plan}");
            n += 1;
        }
    }
}

/// Aggregates above: of counts alone, of folds over match lists, and of pairs.
#[tokio::test]
async fn aggregates() {
    let ctx = tables(0.1);
    let mut n = 0;
    for predicate in PREDICATES {
        for (select, group) in [
            ("count(*)", ""),
            ("count(*), sum(r.a), min(s.t), avg(s.a)", ""),
            ("r.g, count(*), sum(r.a), count(r.t)", " GROUP BY r.g"),
            ("s.id, count(*), max(s.a)", " GROUP BY s.id"),
            (
                "s.g, count(r.a), sum(r.a), min(r.a), max(r.t)",
                " GROUP BY s.g",
            ),
            (
                "r.g, count(s.a), sum(s.a), min(s.a), max(s.t)",
                " GROUP BY r.g",
            ),
        ] {
            for other in ["", " AND r.a < s.a"] {
                n += 1;
                // One in five, in rotation.
                if n % 5 != 0 {
                    continue;
                }
                let kind = ["JOIN", "LEFT JOIN", "RIGHT JOIN"][n % 3];
                let of = |condition: &str| {
                    format!("SELECT {select} FROM r {kind} s ON {condition}{other}{group}")
                };
                let stock = stock(&ctx, &of(&predicate.guarded())).await.unwrap();
                set(
                    &ctx,
                    "bowtie.set_strategy",
                    TECHNIQUES[n % TECHNIQUES.len()],
                );
                check(
                    &ctx,
                    &of(predicate.sql),
                    &Tuning::nth(n),
                    &stock,
                    &["Bowtie"],
                )
                .await;
            }
        }
    }
}

#[tokio::test]
async fn expressions_limits_and_self_joins() {
    let ctx = tables(0.0);
    let mut n = 0;
    for sql in [
        "SELECT r.id AS i, s.id AS j FROM r JOIN s ON array_has_all(array_append(s.v, 3), array_distinct(r.v))",
        "SELECT r.id AS i, s.id AS j FROM r JOIN s ON array_jaccard(make_array(r.a, r.g), make_array(s.g, s.a)) > 0.3",
        "SELECT p.id AS i, q.id AS j FROM r p JOIN r q ON array_jaccard(p.v, q.v) >= 0.6 AND p.id < q.id",
        "SELECT p.id AS i, q.id AS j FROM r p JOIN r q ON p.v <@ q.v AND p.id <> q.id",
        "SELECT r.id AS i FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.v @> r.v AND s.g = r.g)",
        "SELECT r.id AS i FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE array_has_any(s.v, r.v) AND s.a > r.a)",
        "SELECT r.id AS i, s.id AS j FROM r JOIN s ON array_has(s.v, CAST(r.a AS INT) + 1)",
        // In chains of joins and aggregations.
        "SELECT r.id AS i, q.id AS j FROM r JOIN s ON r.a = s.a JOIN r q ON array_dice(s.v, q.v) > 0.5",
        "SELECT q.g, count(*) AS n FROM r JOIN s ON array_jaccard(r.v, s.v) > 0.5 JOIN r q ON q.a = s.a GROUP BY q.g",
        "SELECT r.t, s.g, count(*) AS n, sum(r.a) AS a FROM r JOIN s ON r.v @> s.v GROUP BY r.t, s.g",
    ] {
        let stock = stock(&ctx, sql).await.unwrap();
        for technique in TECHNIQUES {
            set(&ctx, "bowtie.set_strategy", technique);
            let plan = check(&ctx, sql, &Tuning::nth(n), &stock, &["BowtieJoinExec"]).await;
            assert!(plan.contains("strategy=set"), "{sql}\n{plan}");
            n += 1;
        }
    }
    let limited = "SELECT r.id, s.id FROM r JOIN s ON array_has_any(r.v, s.v) LIMIT 7";
    let answer = forced(&ctx, limited, &Tuning::PLAIN).await.unwrap();
    assert_eq!(
        answer.batches.iter().map(|b| b.num_rows()).sum::<usize>(),
        7
    );
}

/// No rows, and no lists.
#[tokio::test]
async fn empty_sides() {
    let ctx = tables(0.1);
    for (left, right) in [
        ("(SELECT * FROM r WHERE id < 0)", "s"),
        ("r", "(SELECT * FROM s WHERE id < 0)"),
        ("(SELECT * FROM r WHERE v IS NULL)", "s"),
        ("r", "(SELECT * FROM s WHERE cardinality(v) = 0)"),
    ] {
        for (n, kind) in KINDS.into_iter().enumerate() {
            let condition = "array_jaccard(r.v, s.v) >= 0.5 AND r.a <= s.a";
            let sql = kind.sql(left, right, &["id", "t"], condition);
            let stock = stock(&ctx, &sql).await.unwrap();
            set(
                &ctx,
                "bowtie.set_strategy",
                TECHNIQUES[n % TECHNIQUES.len()],
            );
            let tuning = Tuning::nth(n);
            let answer = forced(&ctx, &sql, &tuning).await.unwrap();
            crate::support::compare::same_rows(&stock, &answer).unwrap();
        }
    }
}

/// The functions have a second name each.
#[tokio::test]
async fn second_names() {
    let ctx = tables(0.1);
    for (n, measure) in ["overlap", "jaccard", "dice", "cosine", "containment"]
        .into_iter()
        .enumerate()
    {
        let least = if measure == "overlap" { "2" } else { "0.4" };
        let sql = |function: &str| {
            format!(
                "SELECT r.id, s.id AS j, {function}(r.v, s.v) AS x FROM r JOIN s ON {function}(r.v, s.v) >= {least}"
            )
        };
        let stock = stock(&ctx, &sql(&format!("array_{measure}"))).await;
        let stock = stock.unwrap();
        assert!(!stock.rows().is_empty(), "{measure}");
        let sql = sql(&format!("list_{measure}"));
        let plan = check(&ctx, &sql, &Tuning::nth(n), &stock, &["BowtieJoinExec"]).await;
        assert!(plan.contains("strategy=set"), "{sql}\n{plan}");
    }
}
