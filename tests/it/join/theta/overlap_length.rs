//! Conditions on the length of an overlap, as `least` and `greatest` say it: they are comparisons of the two sides, which counts need no pairs of.

use arrow::datatypes::DataType;

use crate::support::answer::{analyzed, check, stock};
use crate::support::intervals::{Shape, tables};
use crate::support::session::{session, set};
use crate::support::tuning::Tuning;

const CONDITIONS: [&str; 9] = [
    "least(r.hi, s.hi) - greatest(r.lo, s.lo) >= 3",
    "least(s.hi, r.hi) - greatest(r.lo, s.lo) > 0",
    "least(r.hi, s.hi) - greatest(s.lo, r.lo) + 1 >= 4",
    "2 < 1 + (least(r.hi, s.hi) - greatest(r.lo, s.lo))",
    "least(r.hi, s.hi) - greatest(r.lo, s.lo) - 1 >= 0 AND r.k = s.k",
    "least(r.hi, s.hi) - greatest(r.lo, s.lo) >= -2",
    "least(r.hi, s.hi) > greatest(r.lo, s.lo)",
    "greatest(r.lo, s.lo) <= least(r.hi, s.hi) AND r.t = s.t",
    // Of values of other sizes.
    "least(r.hi, s.hi) - greatest(r.lo, s.lo) >= 3 AND r.id <> s.id",
];

fn shapes() -> [(Shape, Shape); 4] {
    let whole = Shape {
        nulls: 0.0,
        ..Shape::PLAIN
    };
    [
        (whole, whole),
        (Shape::PLAIN, whole),
        (
            whole,
            Shape {
                reversed: true,
                ..whole
            },
        ),
        (
            Shape {
                longest: 2,
                ..whole
            },
            Shape::PLAIN,
        ),
    ]
}

#[tokio::test]
async fn join_types_and_types_of_ends() {
    let types = [
        DataType::Int32,
        DataType::Int64,
        DataType::UInt16,
        DataType::Float64,
        DataType::Float32,
        DataType::Decimal128(12, 2),
    ];
    let kinds = ["INNER", "LEFT", "FULL", "LEFT SEMI", "RIGHT ANTI"];
    let mut turn = 0;
    for (i, (r, s)) in shapes().into_iter().enumerate() {
        for data_type in &types {
            // No unsigned interval is reversed.
            if *data_type == DataType::UInt16 && i == 2 {
                continue;
            }
            let ctx = session();
            tables(&ctx, data_type, r, s);
            for condition in CONDITIONS {
                turn += 1;
                let kind = kinds[turn % kinds.len()];
                let columns = match kind {
                    "LEFT SEMI" => "r.id",
                    "RIGHT ANTI" => "s.id",
                    _ => "r.id, s.id AS j",
                };
                let sql = format!("SELECT {columns} FROM r {kind} JOIN s ON {condition}");
                let expected = match stock(&ctx, &sql).await {
                    Ok(expected) => expected,
                    Err(error) => panic!("{sql}\n{data_type}\n{error}"),
                };
                let plan = check(&ctx, &sql, &Tuning::nth(turn), &expected, &["Bowtie"]).await;
                let adds = ["+ 1", "1 +", "- 1"]
                    .iter()
                    .any(|one| condition.contains(one));
                let subtracts = condition.contains(" - greatest");
                // A difference of unsigned values wraps, and whole numbers are added to integers alone.
                let is_rewritten = match data_type {
                    DataType::UInt16 => !subtracts,
                    t => t.is_integer() || !adds,
                };
                let theta = plan.split("theta=[").nth(1).unwrap_or_default();
                let theta = theta.split(']').next().unwrap_or_default();
                let is_compared = theta.contains("least(");
                assert_eq!(is_compared, is_rewritten, "{sql}\n{data_type}\n{plan}");
                // Bounds of floats are wider, so candidates are tested.
                let is_exact = is_rewritten && !data_type.is_floating();
                let is_tested = plan.contains("compiled_filter=") || plan.contains("residual=");
                assert_eq!(is_tested, !is_exact, "{sql}\n{data_type}\n{plan}");
            }
        }
    }
}

/// Differences that wrap in 64 bits are DataFusion's.
#[tokio::test]
async fn differences_at_the_ends_of_integers() {
    let ctx = session();
    for (name, seed) in [("r", 0), ("s", 1)] {
        let values = format!(
            "CREATE TABLE {name} AS SELECT column1 + {seed} AS id, column2 AS lo, column3 AS hi FROM (VALUES
               (1, 9223372036854775807, -9223372036854775807), (2, -9223372036854775807, 9223372036854775807),
               (3, 0, 9223372036854775807), (4, -9223372036854775807, 0), (5, 3, 8), (6, 5, 4))"
        );
        ctx.sql(&values).await.unwrap().collect().await.unwrap();
    }
    for least in ["3", "0", "-4"] {
        let sql = format!(
            "SELECT r.id, s.id AS j FROM r JOIN s ON least(r.hi, s.hi) - greatest(r.lo, s.lo) >= {least}"
        );
        let expected = stock(&ctx, &sql).await.unwrap();
        check(&ctx, &sql, &Tuning::PLAIN, &expected, &["Bowtie"]).await;
    }
}

/// Counts take two searches a row, also where some intervals are shorter than the overlap that is asked for.
#[tokio::test]
async fn counts_need_no_pairs() {
    let ctx = session();
    let whole = Shape {
        nulls: 0.0,
        rows: 300,
        ..Shape::PLAIN
    };
    tables(&ctx, &DataType::Int64, whole, whole);
    for (table, of) in [("p", "r"), ("q", "s")] {
        let sql = format!(
            "CREATE TABLE {table} AS SELECT id, coalesce(lo, 0) AS lo, coalesce(hi, 0) AS hi, v FROM {of}"
        );
        ctx.sql(&sql).await.unwrap().collect().await.unwrap();
    }
    let sql = "SELECT r.id, count(*), count(s.v) FROM p r JOIN q s ON least(r.hi, s.hi) - greatest(r.lo, s.lo) >= 4 GROUP BY r.id";
    let expected = stock(&ctx, sql).await.unwrap();
    check(
        &ctx,
        sql,
        &Tuning::PLAIN,
        &expected,
        &["BowtieJoinAggregateExec"],
    )
    .await;
    Tuning::PLAIN.apply(&ctx);
    set(&ctx, "bowtie.offload", "force");
    let analyzed = analyzed(&ctx, sql).await;
    assert!(analyzed.contains("candidate_pairs=0"), "{analyzed}");
}
