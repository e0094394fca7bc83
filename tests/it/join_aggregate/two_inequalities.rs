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
    for of in QUERIES {
        for condition in &CONDITIONS[..4] {
            let sql = query(of, condition);
            let analyzed = analyzed(&ctx, &sql).await;
            assert!(analyzed.contains("candidate_pairs=0"), "{sql}\n{analyzed}");
        }
    }
}
