//! Aggregates of the other side's values under two inequalities: forced and stock give the same rows, and where there are many more matches
//! than rows none is enumerated.

use arrow::datatypes::DataType;

use crate::join_aggregate::check::{check, tunings};
use crate::join_aggregate::overlaps::{QUERIES, analyzed, query};
use crate::support::intervals::{Shape, tables};
use crate::support::session::session;

/// Every direction of the inequality that is tested, with and without keys.
const CONDITIONS: [&str; 8] = [
    "r.lo < s.lo AND r.v < s.v",
    "r.lo >= s.lo AND r.v <= s.v",
    "r.lo <= s.hi AND r.v > s.v",
    "r.hi > s.lo AND r.v >= s.v",
    "r.k = s.k AND r.w < s.w AND r.hi > s.hi",
    "r.t = s.t AND r.lo < s.lo AND r.hi > s.hi",
    "r.t < s.t AND r.w >= s.w",
    "r.lo BETWEEN s.lo - 20 AND s.lo + 20 AND r.v <= s.v",
];

/// Without groups, and by a value of each row: values of both sides in one query.
const OF_BOTH_SIDES: [&str; 7] = [
    "SELECT max(r.v), max(s.v), count(*) FROM r JOIN s ON {}",
    "SELECT sum(s.id), min(r.w), count(r.v), avg(s.v) FROM r JOIN s ON {}",
    "SELECT count(s.v), sum(r.id), sum(s.id) FROM r JOIN s ON {}",
    "SELECT sum(s.id), max(s.v), sum(r.id) FROM r LEFT JOIN s ON {}",
    "SELECT min(r.v), count(r.v), max(s.w) FROM r RIGHT JOIN s ON {}",
    "SELECT avg(r.v), avg(s.w) FROM r JOIN s ON {}",
    "SELECT r.id % 7, r.id / 30, max(s.v), count(*), sum(r.id) FROM r JOIN s ON {} GROUP BY r.id % 7, r.id / 30",
];

#[tokio::test]
async fn values_of_both_sides() {
    let mut turn = 0;
    for (data_type, nulls, rows) in [
        (DataType::Int64, 0.1, (300, 211)),
        (DataType::Float64, 0.2, (90, 400)),
        (DataType::Utf8, 0.0, (257, 130)),
        (DataType::Int16, 1.0, (20, 30)),
    ] {
        let ctx = session();
        let shape = |rows| Shape {
            rows,
            nulls,
            ..Shape::PLAIN
        };
        tables(&ctx, &data_type, shape(rows.0), shape(rows.1));
        for condition in &CONDITIONS[..7] {
            for of in OF_BOTH_SIDES {
                turn += 1;
                if turn % 3 == 0 {
                    let sql = of.replace("{}", condition);
                    check(&ctx, &sql, true, &tunings(turn / 3, 1)).await;
                }
            }
        }
    }
}

#[tokio::test]
async fn conditions_and_queries() {
    let mut turn = 0;
    for (data_type, nulls, rows) in [
        (DataType::Int32, 0.1, (300, 211)),
        (DataType::Float64, 0.0, (64, 400)),
        (DataType::Decimal128(20, 2), 0.05, (257, 130)),
    ] {
        let ctx = session();
        let shape = |rows| Shape {
            rows,
            nulls,
            ..Shape::PLAIN
        };
        tables(&ctx, &data_type, shape(rows.0), shape(rows.1));
        for condition in CONDITIONS {
            for of in QUERIES {
                turn += 1;
                check(&ctx, &query(of, condition), true, &tunings(turn, 1)).await;
            }
        }
    }
}

/// A group is a row of either side, and no match is enumerated.
#[tokio::test]
async fn no_match_is_enumerated() {
    let ctx = session();
    let shape = Shape {
        rows: 500,
        ..Shape::PLAIN
    };
    tables(&ctx, &DataType::Int64, shape, shape);
    for condition in &CONDITIONS[..4] {
        let of_both = OF_BOTH_SIDES.map(|of| of.replace("{}", condition));
        let grouped = QUERIES.map(|of| query(of, condition));
        for sql in of_both.into_iter().chain(grouped) {
            let analyzed = analyzed(&ctx, &sql).await;
            assert!(analyzed.contains("candidate_pairs=0"), "{sql}\n{analyzed}");
            assert!(analyzed.contains("folded_levels="), "{sql}\n{analyzed}");
            assert!(analyzed.contains("counted_"), "{sql}\n{analyzed}");
        }
    }
}
