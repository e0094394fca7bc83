//! Conditions with both sides in one expression, compiled to a pair program: join type × condition, with extreme values; aggregates
//! above; expressions that fail.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Float32Array, Float64Array, Int64Array, RecordBatch,
    TimestampMicrosecondArray, UInt16Array,
};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::support::answer::{check, forced, stock};
use crate::support::compare::similar_rows;
use crate::support::join_types::{JOIN_TYPES, KINDS};
use crate::support::session::session;
use crate::support::tables::{mixed_table, register};
use crate::support::tuning::Tuning;

/// Over columns of [`mixed_table`]: small integers and floats.
const MIXED: &[&str] = &[
    "r.a * s.b > 10",
    "r.a * s.b + r.b > s.a",
    "r.a < s.a AND r.a * s.b > 10",
    "r.a < s.a OR r.b < s.b",
    "r.a < s.a OR s.b IS NULL",
    "r.a < s.a AND r.b <> s.b AND (r.b > 5 OR s.b > 5)",
    "CASE WHEN r.b > 4 THEN r.a > s.a ELSE s.b > 4 END",
    "CASE r.g WHEN s.g THEN r.a WHEN 2 THEN s.a END > 5",
    "r.c * s.c >= 0.5",
    "r.lo <= s.hi AND s.lo <= r.hi AND r.c + s.c < 1.5",
    "(r.c - s.c) * (r.c - s.c) + (r.a - s.a) * (r.a - s.a) < 20",
    "abs(r.a - s.a) > 5",
    "(r.a + s.a) IN (3, 7, 12, NULL)",
    "(r.a + s.a) NOT IN (3, 7, 12)",
    "r.a - s.a BETWEEN r.b AND s.b",
    "(r.a IS DISTINCT FROM s.a) AND NOT (r.b = s.b)",
    "r.g = s.g AND r.a * s.a > 12",
    "r.g = s.g AND r.a < s.a AND r.b + s.b <> 9",
    // Of one side alone, which cannot be pushed below an outer join.
    "r.a < s.a AND (r.t LIKE 'a%' OR s.t > 'm')",
    // Beside a residual.
    "r.a < s.a AND r.a * s.b > 10 AND r.t LIKE '%' || substr(s.t, 2)",
    "r.a * s.b > 10 AND greatest(r.a, s.a) < 12",
];

/// Over columns of [`extremes`].
const EXTREMES: &[&str] = &[
    "r.l + s.l > s.u",
    "r.l * s.l <= r.l",
    "-r.l < s.l - r.u",
    "r.d + s.d > r.f",
    "r.d - s.d < 1.0",
    "r.d * s.d <> s.d / r.d",
    "r.d % s.d < r.f",
    "r.f * s.f >= r.d",
    "r.d = s.d OR r.f > s.f",
    "(r.d IS DISTINCT FROM s.d) AND ((r.f IS NOT DISTINCT FROM s.f) OR r.b)",
    "r.b <> s.b OR r.l > s.l",
    "r.b AND s.b OR NOT r.b AND r.day < s.day",
    "CASE WHEN r.day < s.day THEN s.at ELSE r.at END > s.at",
    "CAST(r.u + s.u AS DOUBLE) > r.d",
    "TRY_CAST(r.l + s.l AS INT) > r.u",
    "CASE WHEN s.l <> 0 AND s.l <> -1 THEN r.l / s.l ELSE r.l END > 2",
];

fn extremes(rows: usize, seed: u64) -> RecordBatch {
    let rng = &mut StdRng::seed_from_u64(seed);
    macro_rules! drawn {
        ($array:ident, $values:expr) => {{
            let values = $values;
            let rows = (0..rows).map(|_| {
                let value = *values.choose(rng).unwrap();
                (!rng.random_bool(0.1)).then_some(value)
            });
            Arc::new($array::from_iter(rows)) as ArrayRef
        }};
    }
    let floats = [
        0.0,
        -0.0,
        1.5,
        -2.0,
        1e300,
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    let small = [0f32, -0.0, 1.5, f32::MAX, f32::INFINITY, f32::NAN];
    RecordBatch::try_from_iter([
        (
            "id",
            Arc::new(Int64Array::from_iter_values(0..rows as i64)) as ArrayRef,
        ),
        ("l", drawn!(Int64Array, [0, 1, -1, 3, i64::MIN, i64::MAX])),
        ("u", drawn!(UInt16Array, [0, 1, 7, u16::MAX])),
        ("d", drawn!(Float64Array, floats)),
        ("f", drawn!(Float32Array, small)),
        ("b", drawn!(BooleanArray, [true, false])),
        ("day", drawn!(Date32Array, [0, 1, -1, i32::MAX])),
        (
            "at",
            drawn!(TimestampMicrosecondArray, [0, 1, -1, i64::MIN]),
        ),
    ])
    .unwrap()
}

/// Returns the join types that bowtie's nodes had.
async fn run(
    conditions: &[&str],
    large: RecordBatch,
    small: RecordBatch,
    columns: &[&str],
) -> BTreeSet<&'static str> {
    let ctx = session();
    register(&ctx, "large", &large);
    register(&ctx, "small", &small);
    let mut seen = BTreeSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        for (j, kind) in KINDS.iter().enumerate() {
            let (left, right) = match (i + j) % 2 {
                0 => ("large", "small"),
                _ => ("small", "large"),
            };
            let sql = kind.sql(left, right, columns, condition);
            let stock = stock(&ctx, &sql).await.unwrap();
            for n in 0..3 {
                let tuning = Tuning::nth(i * 10 + j + 47 * n);
                let plan = check(&ctx, &sql, &tuning, &stock, &["BowtieJoinExec"]).await;
                assert!(plan.contains("compiled_filter="), "{sql}\n{plan}");
                seen.extend(JOIN_TYPES.iter().filter(|name| {
                    let shown = format!("join_type={name},");
                    plan.contains(&shown)
                }));
            }
        }
    }
    seen
}

#[tokio::test]
async fn mixed_conditions() {
    let tables = (mixed_table(47, 0.2, 1), mixed_table(19, 0.2, 2));
    let seen = run(MIXED, tables.0, tables.1, &["id", "t"]).await;
    assert_eq!(seen, BTreeSet::from(JOIN_TYPES));
}

/// Overflow, NaN, −0.0, infinities: integers wrap, and the sign of a NaN decides as it does in DataFusion.
#[tokio::test]
async fn extreme_values() {
    // In optimised code, which of two NaNs of different signs is DataFusion's sum or product depends on the row's place in a vector.
    let is_certain = |condition: &&&str| {
        cfg!(debug_assertions)
            || !["r.d + s.d", "r.d * s.d"]
                .iter()
                .any(|of| condition.contains(of))
    };
    let conditions: Vec<&str> = EXTREMES.iter().filter(is_certain).copied().collect();
    run(&conditions, extremes(31, 3), extremes(23, 4), &["id"]).await;
}

/// More rows than a block of candidates and a task, for each strategy.
#[tokio::test]
async fn long_ranges() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(1500, 0.1, 5));
    register(&ctx, "s", &mixed_table(150, 0.1, 6));
    for condition in [
        "r.a * s.b + r.b > 120",
        "r.a < s.a AND (r.b + s.b) % 11 = 3",
        "r.a < s.a AND r.b > s.b AND (r.lo + s.hi) % 11 = 3",
        "r.a <> s.a AND (r.lo + s.hi) % 11 = 3",
    ] {
        for query in [
            "r.id AS i, s.id AS j FROM r JOIN s",
            "r.id AS i FROM r LEFT ANTI JOIN s",
            "s.id AS i FROM r RIGHT SEMI JOIN s",
            "r.id AS i, s.id AS j FROM r FULL JOIN s",
        ] {
            let sql = format!("SELECT {query} ON {condition}");
            let stock = stock(&ctx, &sql).await.unwrap();
            // Chunks as long as the tables, and a device memory that cuts tiles: short chunks have no long ranges.
            for n in [0, 27] {
                check(&ctx, &sql, &Tuning::nth(n), &stock, &["compiled_filter="]).await;
            }
        }
    }
}

/// The match counts are exact, so aggregates of the probe side need no pairs; others do.
#[tokio::test]
async fn aggregates() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(90, 0.2, 7));
    register(&ctx, "s", &mixed_table(60, 0.2, 8));
    let mut turn = 0;
    for condition in [
        "r.a * s.b > 10",
        "r.a < s.a AND r.b * s.b > 10",
        "r.a < s.a AND r.b > s.b AND r.c + s.c < 1.5",
        "r.g = s.g AND r.a * s.a > 12",
        "r.a < s.a AND r.b * s.b > 10 AND r.t LIKE '%' || substr(s.t, 2)",
    ] {
        for query in [
            "count(*), sum(r.b), avg(r.c) FROM r JOIN s ON ?",
            "count(*), sum(s.b), max(s.t) FROM r JOIN s ON ?",
            "count(*), sum(s.b), avg(r.c), min(r.t) FROM r JOIN s ON ?",
            "r.g, count(*), sum(r.b), sum(s.b), max(s.t) FROM r JOIN s ON ? GROUP BY r.g",
            "s.g, count(*), sum(s.b), min(s.c) FROM r JOIN s ON ? GROUP BY s.g",
            "r.g, count(s.id), sum(r.b), sum(s.b) FROM r LEFT JOIN s ON ? GROUP BY r.g",
            "DISTINCT r.g FROM r JOIN s ON ?",
        ] {
            let sql = format!("SELECT {}", query.replace('?', condition));
            let stock = stock(&ctx, &sql).await.unwrap();
            turn += 1;
            for n in 0..4 {
                let tuning = Tuning::nth(turn + 31 * n);
                let given = forced(&ctx, &sql, &tuning).await.unwrap();
                assert!(
                    given.plan.contains("compiled_filter="),
                    "{sql}\n{}",
                    given.plan
                );
                // DISTINCT may become a semi join.
                let fused = given.plan.contains("BowtieJoinAggregateExec");
                assert!(fused || query.starts_with("DISTINCT"), "{sql}");
                if let Err(difference) = similar_rows(&stock, &given) {
                    panic!("{sql}\n{tuning:?}\n{difference}");
                }
            }
        }
    }
}

/// DataFusion does not evaluate the right operand of AND and OR where the left one decides for all pairs of a batch. With a whole
/// batch for each row of the left side, a guard on that side keeps divisions from pairs on which they would fail.
#[tokio::test]
async fn guards_of_one_side() {
    let ctx = session();
    for (table, rows) in [("r", 30), ("s", 20_000)] {
        let sql = format!(
            "CREATE TABLE {table} AS SELECT value AS a, value % 10 AS b FROM generate_series(1, {rows})"
        );
        ctx.sql(&sql).await.unwrap().collect().await.unwrap();
    }
    for from in [
        "r LEFT JOIN s ON (r.b = 0 OR s.a / r.b > 30)",
        "r FULL JOIN s ON (r.b <> 0 AND s.a / r.b > 30) OR r.a * s.a > 50000",
    ] {
        let sql = format!("SELECT sum(r.a + s.a) AS n, count(*) AS c FROM {from}");
        let stock = stock(&ctx, &sql).await.unwrap();
        for n in [0, 7, 33] {
            let given = forced(&ctx, &sql, &Tuning::nth(n)).await.unwrap();
            if let Err(difference) = similar_rows(&stock, &given) {
                panic!("{sql}\n{difference}");
            }
        }
    }
}

#[tokio::test]
async fn failures() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(80, 0.0, 9));
    register(&ctx, "s", &mixed_table(70, 0.0, 10));
    for (condition, fails) in [
        ("r.a / (r.b - s.b) > 1", true),
        ("r.a % (r.b - s.b) = 1", true),
        ("r.a > s.a AND r.a / (r.b - s.b) > 1", true),
        ("CAST(r.a * s.a AS TINYINT) > s.b", true),
        ("CASE WHEN r.b <> s.b THEN r.a / (r.b - s.b) END > 1", false),
        ("r.a / (r.b - s.b + 100) >= 0", false),
        ("r.c / (r.c - s.c) > 1", false),
    ] {
        for query in [
            "r.id AS i, s.id AS j FROM r JOIN s ON ?",
            "r.id AS i, s.id AS j FROM r FULL JOIN s ON ?",
            "r.id AS i FROM r LEFT SEMI JOIN s ON ?",
            "s.id AS i FROM r RIGHT ANTI JOIN s ON ?",
            "count(*) AS n FROM r JOIN s ON ?",
        ] {
            let sql = format!("SELECT {}", query.replace('?', condition));
            let stock = stock(&ctx, &sql).await;
            assert_eq!(stock.is_err(), fails, "{sql}");
            for n in [0, 7, 33, 70] {
                let tuning = Tuning::nth(n);
                match (&stock, forced(&ctx, &sql, &tuning).await) {
                    (Ok(stock), Ok(given)) => {
                        assert!(
                            given.plan.contains("compiled_filter="),
                            "{sql}\n{}",
                            given.plan
                        );
                        if let Err(difference) = similar_rows(stock, &given) {
                            panic!("{sql}\n{tuning:?}\n{difference}");
                        }
                    }
                    (Err(expected), Err(error)) => {
                        let (expected, error) =
                            (expected.strip_backtrace(), error.strip_backtrace());
                        // Which of the failing values the error names is undefined.
                        let last = |error: &str| {
                            let what = error.rsplit(": ").next().unwrap();
                            what.replace(|c: char| c.is_ascii_digit() || c == '-', "")
                        };
                        assert_eq!(last(&error), last(&expected), "{sql}");
                    }
                    (Ok(_), Err(error)) => panic!("{sql}\n{tuning:?}\nfails when forced: {error}"),
                    (Err(error), Ok(_)) => panic!("{sql}\n{tuning:?}\nonly stock fails: {error}"),
                }
            }
        }
    }
}
