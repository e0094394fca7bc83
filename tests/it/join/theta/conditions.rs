//! Join type × condition × strategy, in full.

use std::collections::BTreeSet;

use datafusion::prelude::SessionContext;

use crate::support::answer::{Answer, assert_offloaded, check, stock};
use crate::support::join_types::{JOIN_TYPES, KINDS, Kind};
use crate::support::session::session;
use crate::support::tables::{mixed_table, register};
use crate::support::tuning::Tuning;

/// Strategies that a condition can be forced to: the others give way.
struct Condition(&'static str, &'static [&'static str]);

const RANGE: &[&str] = &["range", "tiles"];

const RANGES: &[&str] = &["range", "dominance", "tiles"];

const DOMINANCE: &[&str] = &["dominance", "tiles"];

const TILES: &[&str] = &["tiles"];

const INEQUALITIES: &[Condition] = &[
    Condition("r.a < s.a", RANGE),
    Condition("r.a <= s.a", RANGE),
    Condition("r.a > s.a", RANGE),
    Condition("r.a >= s.a", RANGE),
    Condition("r.c > s.a", RANGE),
    Condition("r.t < s.t", RANGE),
    Condition("r.a + r.b > s.a * 2", RANGE),
    Condition("abs(r.a - 10) < s.b", RANGE),
    // A band, as difference bounds and as BETWEEN.
    Condition("r.a - 2 < s.a AND s.a < r.a + 2", RANGES),
    Condition("r.a BETWEEN s.lo AND s.hi", RANGES),
    Condition("r.a BETWEEN s.a - 1 AND s.a + 1", RANGES),
    Condition("r.a > s.a AND r.a > s.b AND r.a <= s.hi", RANGES),
    // Overlap of intervals.
    Condition("r.lo <= s.hi AND s.lo <= r.hi", DOMINANCE),
    Condition("r.a < s.a AND r.b > s.b", DOMINANCE),
    Condition("r.a < s.a AND r.b > s.b AND r.c >= s.c", DOMINANCE),
    Condition("r.a < s.a AND r.t >= s.t AND r.c < s.c", DOMINANCE),
    Condition("r.a <> s.a", TILES),
    Condition("r.a <> s.a AND r.b <> s.b", TILES),
    Condition("r.a < s.a AND r.b <> s.b", RANGE),
    Condition("r.a < s.a AND r.a <> s.b", RANGE),
];

const EQUALITIES: &[Condition] = &[
    Condition("r.g = s.g", TILES),
    Condition("r.g = s.g AND r.b = s.b", TILES),
    Condition("r.g = s.g AND r.t = s.t", TILES),
    Condition("r.g = s.g AND r.a < s.a", RANGE),
    Condition("r.g = s.g AND r.a BETWEEN s.lo AND s.hi", RANGES),
    Condition("r.g = s.g AND r.a < s.a AND r.b >= s.b", DOMINANCE),
    Condition("r.g = s.g AND r.a <> s.a", TILES),
    Condition("r.g + 1 = s.g AND r.lo <= s.hi AND s.lo <= r.hi", DOMINANCE),
    Condition("(r.g IS NOT DISTINCT FROM s.g) AND r.a < s.a", RANGE),
    Condition("r.g = s.g AND r.a * s.a > 12", TILES),
    Condition("r.g = s.g AND r.a + s.a > 12", RANGE),
];

const RESIDUALS: &[Condition] = &[
    Condition("r.a * s.b > 10", TILES),
    Condition("r.a > s.a AND r.a * s.b > 10", RANGE),
    Condition("r.a < s.a OR r.b < s.b", TILES),
    Condition("r.a < s.a AND (r.b > 5 OR s.b > 5)", RANGE),
    Condition("CASE WHEN r.b > 4 THEN r.a > s.a ELSE s.b > 4 END", TILES),
    Condition("r.a > s.a AND r.t LIKE '%' || substr(s.t, 2)", RANGE),
    Condition(
        "coalesce(r.a, s.a) > 10 AND r.lo <= s.hi AND s.lo <= r.hi",
        DOMINANCE,
    ),
    Condition("(r.a IS DISTINCT FROM s.a) AND r.b < s.b", RANGE),
    Condition("greatest(r.a, s.a) < 12", TILES),
    // One-side predicates inside ON: filters for some joins, conditions for others.
    Condition("r.a > s.a AND r.b > 3", RANGE),
    Condition("r.a > s.a AND s.b < 7", RANGE),
    Condition("r.a > s.a AND r.b IS NULL AND s.t IS NOT NULL", RANGE),
    Condition("r.a < s.a AND r.b > s.b AND s.b < 7 AND r.c < 1", DOMINANCE),
];

/// Sums and differences across the sides.
const LINEAR: &[Condition] = &[
    Condition("r.a + s.b > 10", RANGE),
    Condition("r.a - s.a < 3", RANGE),
    Condition("s.a - r.b >= -1", RANGE),
    Condition("5 >= r.a - s.b", RANGE),
    Condition("r.a - s.a = 2", RANGE),
    Condition("r.a + s.a <> 12", TILES),
    Condition("abs(r.a - s.a) <= 2", RANGES),
    Condition("abs(s.b - r.a) < 4", RANGES),
    Condition("abs(r.a + s.a) <= 7", RANGES),
    Condition("abs(r.a - s.a) > 5", TILES),
    Condition("r.id - s.id < 5", RANGE),
    Condition("r.a > s.a AND r.a + s.b > 10", DOMINANCE),
    // Floats keep the condition as a residual too.
    Condition("r.c - s.c < 0.25", RANGE),
    Condition("r.c + s.c >= 0.5", RANGE),
    Condition("abs(r.c - s.c) <= 0.25", RANGES),
    Condition(
        "CAST(r.c AS FLOAT) - CAST(s.c AS FLOAT) > CAST(0.5 AS FLOAT)",
        RANGE,
    ),
    Condition(
        "CAST(r.c AS DECIMAL(9, 3)) - CAST(s.c AS DECIMAL(7, 2)) < 0.125",
        RANGE,
    ),
    Condition(
        "abs(CAST(r.c AS DECIMAL(9, 3)) - CAST(s.c AS DECIMAL(7, 2))) <= 0.25",
        RANGES,
    ),
    Condition(
        "CAST(r.c AS DECIMAL(9, 3)) + CAST(s.c AS DECIMAL(9, 3)) > 0.123456",
        RANGE,
    ),
];

#[tokio::test]
async fn sums_and_differences() {
    covers_all_types(run(LINEAR, 93).await);
}

/// Integers wrap, floats overflow and NaN propagates: there a rewritten condition would have another result.
#[tokio::test]
async fn sums_and_differences_that_wrap() {
    let ctx = session();
    let sql = "CREATE TABLE extremes AS SELECT arrow_cast(i, 'Int32') AS i, arrow_cast(l, 'Int64') AS l,
        arrow_cast(u, 'UInt64') AS u, d FROM (VALUES
        (-2147483648, -9223372036854775808, 0, 1e308), (2147483647, 9223372036854775807, 18446744073709551615, -1e308),
        (0, 0, 5, 'NaN'::DOUBLE), (-1, 7, 6, 'Infinity'::DOUBLE), (5, -6, 7, '-Infinity'::DOUBLE), (NULL, NULL, NULL, 0.0))
        AS t(i, l, u, d)";
    ctx.sql(sql).await.unwrap().collect().await.unwrap();
    for condition in [
        "r.i - s.i < 3",
        "r.i + s.i > 3",
        "r.l - s.l >= 3",
        "r.l + s.l <= 3",
        "r.u - s.u < arrow_cast(3, 'UInt64')",
        "r.u + s.u < arrow_cast(3, 'UInt64')",
        "r.d - s.d < 3.5",
        "abs(r.d - s.d) <= 1e300",
        "r.d + s.d >= 0.0",
    ] {
        let sql = format!(
            "SELECT r.i AS ri, s.i AS si FROM extremes r FULL JOIN extremes s ON {condition}"
        );
        let stock = stock(&ctx, &sql).await.unwrap();
        for tuning in 0..8 {
            check(
                &ctx,
                &sql,
                &Tuning::nth(tuning),
                &stock,
                &["BowtieJoinExec"],
            )
            .await;
        }
    }
}

#[tokio::test]
async fn inequalities() {
    covers_all_types(run(INEQUALITIES, 0).await);
}

#[tokio::test]
async fn equalities_and_inequalities() {
    covers_all_types(run(EQUALITIES, 31).await);
}

#[tokio::test]
async fn residuals() {
    covers_all_types(run(RESIDUALS, 62).await);
}

fn covers_all_types(seen: BTreeSet<&str>) {
    assert_eq!(seen, BTreeSet::from(JOIN_TYPES));
}

/// Returns the join types that bowtie's nodes had.
async fn run(conditions: &[Condition], first_tuning: usize) -> BTreeSet<&'static str> {
    let ctx = session();
    register(&ctx, "large", &mixed_table(47, 0.2, 1));
    register(&ctx, "small", &mixed_table(19, 0.2, 2));
    let mut seen = BTreeSet::new();
    let mut tuning = first_tuning;
    for (i, Condition(condition, strategies)) in conditions.iter().enumerate() {
        for (j, kind) in KINDS.iter().enumerate() {
            // DataFusion puts the smaller side left where it may, so both orders reach all types.
            let (left, right) = match (i + j) % 2 {
                0 => ("large", "small"),
                _ => ("small", "large"),
            };
            let columns: &[&str] = if i % 3 == 0 {
                &["id"]
            } else {
                &["id", "t", "c"]
            };
            let sql = kind.sql(left, right, columns, condition);
            let stock = stock(&ctx, &sql).await.unwrap();
            let mut plans = vec![];
            for strategy in std::iter::once(&"auto").chain(*strategies) {
                let tuning = {
                    tuning += 1;
                    Tuning::nth(tuning).with_strategy(strategy)
                };
                let plan = check(&ctx, &sql, &tuning, &stock, &["BowtieJoinExec"]).await;
                if *strategy != "auto" {
                    let shown = format!("strategy={strategy}");
                    assert!(plan.contains(&shown), "{sql}\n{plan}");
                }
                plans.push(plan);
            }
            seen.extend(JOIN_TYPES.iter().filter(|name| {
                let shown = format!("join_type={name},");
                plans.iter().any(|plan| plan.contains(&shown))
            }));
            give_way(&ctx, &sql, &stock, strategies).await;
        }
    }
    seen
}

/// A strategy that does not suit the condition gives way to another one.
async fn give_way(ctx: &SessionContext, sql: &str, stock: &Answer, strategies: &[&str]) {
    for strategy in ["range", "dominance", "tiles"] {
        if !strategies.contains(&strategy) {
            let tuning = Tuning::PLAIN.with_strategy(strategy);
            let plan = check(ctx, sql, &tuning, stock, &["BowtieJoinExec"]).await;
            let shown = format!("strategy={strategy},");
            assert!(!plan.contains(&shown), "{sql}\n{plan}");
        }
    }
}

/// No condition at all: every pair, or every row.
#[tokio::test]
async fn products() {
    let ctx = session();
    register(&ctx, "large", &mixed_table(19, 0.2, 1));
    register(&ctx, "small", &mixed_table(13, 0.2, 2));
    let mut queries: Vec<String> = KINDS
        .iter()
        .filter(|kind| matches!(kind, Kind::Join(_)))
        .map(|kind| kind.sql("large", "small", &["id"], "true"))
        .collect();
    queries.push("SELECT * FROM large r, small s".into());
    queries.push("SELECT 1 AS one FROM large r CROSS JOIN small s".into());
    queries.push("SELECT 1 AS one FROM large r JOIN small s ON r.a > s.a".into());
    queries.push("SELECT 1 AS one FROM large r FULL JOIN small s ON r.a > s.a".into());
    for (i, sql) in queries.iter().enumerate() {
        let stock = stock(&ctx, sql).await.unwrap();
        for n in 0..4 {
            check(&ctx, sql, &Tuning::nth(i + 5 * n), &stock, &["Bowtie"]).await;
        }
    }
}

/// Joins above joins, each offloaded.
#[tokio::test]
async fn joins_of_joins() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(23, 0.1, 1));
    register(&ctx, "s", &mixed_table(17, 0.1, 2));
    register(&ctx, "u", &mixed_table(13, 0.1, 3));
    let queries = [
        "SELECT r.id AS i, s.id AS j, u.id AS k FROM r JOIN s ON r.a < s.a JOIN u ON s.b > u.b AND r.c < u.c",
        "SELECT r.id AS i, s.id AS j, u.id AS k FROM r LEFT JOIN s ON r.a < s.a AND r.b > s.b FULL JOIN u ON s.b > u.b",
        "SELECT r.id AS i FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a > r.a AND NOT EXISTS (SELECT 1 FROM u WHERE u.b > s.b))",
        "SELECT r.id AS i, s.id AS j FROM r JOIN s ON r.a < s.a UNION ALL SELECT s.id, u.id FROM s LEFT JOIN u ON s.c >= u.c",
        "SELECT x.id AS i, y.id AS j FROM r x JOIN r y ON x.lo <= y.hi AND y.lo <= x.hi AND x.id < y.id",
    ];
    for (i, sql) in queries.iter().enumerate() {
        let stock = stock(&ctx, sql).await.unwrap();
        for n in 0..Tuning::COUNT / 10 {
            let tuning = Tuning::nth(i + 3 * n);
            let plan = check(&ctx, sql, &tuning, &stock, &["BowtieJoinExec"]).await;
            assert_offloaded(sql, &plan, &[]);
        }
    }
}
