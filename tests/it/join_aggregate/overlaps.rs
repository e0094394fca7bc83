//! Aggregates of the intervals that a row's interval overlaps: forced and stock give the same rows, and where no interval ends before it
//! begins no overlap is enumerated.

use arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;

use crate::join_aggregate::check::{check, tunings};
use crate::support::answer::answer;
use crate::support::intervals::{OVERLAPS, Shape, intervals, tables};
use crate::support::session::{session, set};
use crate::support::tables::{register, register_batches};
use crate::support::tuning::Tuning;

/// Join type, groups and aggregates, of which one at least has an argument on the side that is not grouped.
pub(super) const QUERIES: [(&str, &str, &str); 9] = [
    (
        "INNER",
        "r.id",
        "sum(s.v), avg(s.w), min(s.v), max(s.w), count(s.v)",
    ),
    (
        "INNER",
        "s.id",
        "sum(r.v), avg(r.w), min(r.v), max(r.w), count(r.v)",
    ),
    (
        "INNER",
        "r.k, r.t",
        "min(s.t), max(s.t), sum(r.v), count(*)",
    ),
    ("INNER", "s.t", "min(r.t), max(r.lo), sum(s.v), count(s.w)"),
    ("LEFT", "r.id", "sum(s.w), count(*), min(s.hi), count(s.id)"),
    ("RIGHT", "s.id", "avg(r.v), count(r.id), max(r.t)"),
    ("LEFT", "r.t", "sum(s.v * 2.5), max(s.id)"),
    ("RIGHT", "s.k", "sum(CAST(r.v AS DECIMAL(12, 2))), min(r.w)"),
    (
        "INNER",
        "r.id",
        "count(*) FILTER (WHERE s.v > 3), sum(s.v) FILTER (WHERE s.v > 3)",
    ),
];

pub(super) fn query((kind, group, aggregates): (&str, &str, &str), condition: &str) -> String {
    format!("SELECT {group}, {aggregates} FROM r {kind} JOIN s ON {condition} GROUP BY {group}")
}

/// What EXPLAIN ANALYZE says of `sql`.
pub(super) async fn analyzed(ctx: &SessionContext, sql: &str) -> String {
    Tuning::PLAIN.apply(ctx);
    set(ctx, "bowtie.offload", "force");
    let analyzed = answer(ctx, &format!("EXPLAIN ANALYZE {sql}"))
        .await
        .unwrap();
    format!("{:?}", analyzed.batches)
}

/// Shapes of both tables: with and without NULLs, points of either side or both, and intervals that end before they begin.
fn shapes() -> Vec<(Shape, Shape)> {
    let whole = Shape {
        nulls: 0.0,
        points: false,
        ..Shape::PLAIN
    };
    let points = Shape {
        points: true,
        longest: 2,
        ..whole
    };
    let reversed = Shape {
        reversed: true,
        ..whole
    };
    vec![
        (whole, Shape { rows: 150, ..whole }),
        (points, whole),
        (Shape { rows: 111, ..whole }, points),
        (points, points),
        (reversed, whole),
        (whole, reversed),
        (Shape::PLAIN, Shape::PLAIN),
    ]
}

/// The shapes by a third of the conditions with queries, which are others for each of them.
#[tokio::test]
async fn conditions_and_queries() {
    let mut turn = 0;
    for (r, s) in shapes() {
        let ctx = session();
        tables(&ctx, &DataType::Int32, r, s);
        for condition in OVERLAPS {
            for of in QUERIES {
                turn += 1;
                if turn % 3 == 0 {
                    check(&ctx, &query(of, condition), true, &tunings(turn / 3, 1)).await;
                }
            }
        }
    }
}

/// All types of ends that can be compared, also those whose keys depend on the values of a side.
#[tokio::test]
async fn types_of_ends() {
    let shape = Shape {
        nulls: 0.0,
        ..Shape::PLAIN
    };
    let types = [
        DataType::UInt8,
        DataType::Int64,
        DataType::Float32,
        DataType::Float64,
        DataType::Date32,
        DataType::Decimal128(20, 2),
        DataType::Decimal256(50, 3),
        DataType::Utf8,
        DataType::Utf8View,
    ];
    for (turn, data_type) in types.into_iter().enumerate() {
        let ctx = session();
        tables(&ctx, &data_type, shape, shape);
        for of in [QUERIES[0], QUERIES[1], QUERIES[4]] {
            let sql = query(of, OVERLAPS[turn % 2 * 4]);
            check(&ctx, &sql, true, &tunings(turn * 5, 3)).await;
        }
    }
}

/// Which overlaps are found by two range joins. Where ends that are equal do not overlap, points of one side are none.
#[tokio::test]
async fn what_is_not_enumerated() {
    let [whole, left_points, right_points, both_points, reversed, ..] = shapes()[..] else {
        panic!("shapes");
    };
    for (shapes, closed, open) in [
        (whole, true, true),
        (left_points, true, true),
        (right_points, true, true),
        (both_points, true, false),
        (reversed, false, false),
    ] {
        let ctx = session();
        tables(&ctx, &DataType::Int64, shapes.0, shapes.1);
        for of in QUERIES {
            for (condition, expected) in [(OVERLAPS[0], closed), (OVERLAPS[1], open)] {
                let sql = query(of, condition);
                let analyzed = analyzed(&ctx, &sql).await;
                let by_ranges = analyzed.contains("indexed_overlap_ranges=1");
                assert_eq!(by_ranges, expected, "{sql}\n{analyzed}");
                if expected {
                    assert!(analyzed.contains("candidate_pairs=0"), "{sql}\n{analyzed}");
                }
            }
        }
    }
}

/// Chunks of which some have intervals that end before they begin, and some have points.
#[tokio::test]
async fn chunks_of_several_shapes() {
    let ctx = session();
    let whole = shapes()[0].0;
    register(&ctx, "r", &intervals(&DataType::Int32, whole));
    let batches = (0..6).map(|i| {
        let shape = Shape {
            rows: 49,
            reversed: i % 3 == 1,
            points: i % 3 == 2,
            seed: 100 + i,
            ..whole
        };
        intervals(&DataType::Int32, shape)
    });
    register_batches(&ctx, "s", batches.collect());
    for condition in [OVERLAPS[1], OVERLAPS[4]] {
        for of in QUERIES {
            let each: Vec<_> = tunings(0, 40)
                .into_iter()
                .filter(|tuning| tuning.chunk_rows == "7" || tuning.chunk_rows == "49")
                .take(3)
                .collect();
            check(&ctx, &query(of, condition), true, &each).await;
        }
    }
}

/// Ranges of points: the grouped side may be the one that is sorted.
#[tokio::test]
async fn points_in_ranges() {
    let ctx = session();
    tables(&ctx, &DataType::Int32, Shape::PLAIN, Shape::PLAIN);
    let mut turn = 0;
    for condition in [
        "r.lo BETWEEN s.lo AND s.hi",
        "s.lo BETWEEN r.lo AND r.hi",
        "r.t = s.t AND r.lo < s.lo",
        "r.lo BETWEEN s.lo - 3 AND s.lo + 3",
    ] {
        for of in QUERIES {
            turn += 1;
            check(&ctx, &query(of, condition), true, &tunings(turn, 3)).await;
        }
    }
}

/// Ends that are cast to the other side's type may become equal.
#[tokio::test]
async fn ends_that_a_cast_makes_equal() {
    let ctx = session();
    for sql in [
        "CREATE TABLE l AS SELECT 9007199254740992::BIGINT AS lo, 9007199254740993::BIGINT AS hi, 1 AS id",
        "CREATE TABLE m AS SELECT 9007199254740992::DOUBLE AS lo, 9007199254741002::DOUBLE AS hi, 5 AS v",
    ] {
        answer(&ctx, sql).await.unwrap();
    }
    for sql in [
        "SELECT l.id, sum(m.v), count(*) FROM l JOIN m ON l.lo < m.hi AND l.hi > m.lo GROUP BY l.id",
        "SELECT l.id, sum(m.v), count(*) FROM l JOIN m ON l.lo <= m.hi AND l.hi >= m.lo GROUP BY l.id",
    ] {
        check(&ctx, sql, true, &tunings(0, 4)).await;
    }
}
