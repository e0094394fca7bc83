//! Groups of many rows, which the device makes: forced and stock give the same rows where only some rows of a group have a match.

use arrow::datatypes::DataType;

use crate::join_aggregate::check::check;
use crate::join_aggregate::overlaps::analyzed;
use crate::support::intervals::{Shape, tables};
use crate::support::session::session;
use crate::support::tuning::Tuning;

/// Of all rows of `r`, with the few of `s` that a condition leaves.
const SOME_MATCH: &str = "(SELECT * FROM s WHERE id < 9) s ON r.lo < s.lo";
const SOME_MATCH_TWICE: &str = "(SELECT * FROM s WHERE id < 60) s ON r.lo < s.lo AND r.v > s.v";
const OVERLAP: &str = "(SELECT * FROM s WHERE id < 40) s ON r.lo <= s.hi AND s.lo <= r.hi";

const QUERIES: [&str; 6] = [
    "SELECT r.k, min(r.v), max(r.v), count(*), avg(r.id) FROM r JOIN {} GROUP BY r.k",
    "SELECT r.t, r.k, max(r.w), min(s.v), count(s.v), sum(s.id) FROM r JOIN {} GROUP BY r.t, r.k",
    "SELECT r.id, min(r.v), sum(s.id), avg(s.id) FROM r JOIN {} GROUP BY r.id",
    "SELECT r.k, max(r.v), count(s.id), sum(r.id) FROM r LEFT JOIN {} GROUP BY r.k",
    "SELECT r.k, min(r.v), sum(r.id) FILTER (WHERE r.id % 3 = 0), max(s.v) FROM r JOIN {} GROUP BY r.k",
    "SELECT DISTINCT r.t FROM r JOIN {}",
];

#[tokio::test]
async fn rows_without_a_match_are_in_no_group() {
    let ctx = session();
    let shape = |rows| Shape {
        rows,
        nulls: 0.1,
        ..Shape::PLAIN
    };
    tables(&ctx, &DataType::Int64, shape(6000), shape(200));
    let mut turn = 0;
    for matches in [SOME_MATCH, SOME_MATCH_TWICE, OVERLAP] {
        for query in QUERIES {
            turn += 1;
            let sql = match turn % 2 {
                0 => query.replace("{}", matches),
                // The other side is the left one.
                _ => {
                    let (side, on) = matches.split_once(" s ON ").unwrap();
                    let query = query.replace("LEFT JOIN", "RIGHT JOIN");
                    let query = query.replace("FROM r ", &format!("FROM {side} s "));
                    query.replace("{}", &format!("r ON {on}"))
                }
            };
            check(&ctx, &sql, true, &[Tuning::PLAIN]).await;
        }
    }
}

#[tokio::test]
async fn many_rows_are_grouped_on_the_device() {
    let ctx = session();
    let shape = Shape {
        rows: 9000,
        nulls: 0.0,
        ..Shape::PLAIN
    };
    tables(&ctx, &DataType::Int64, shape, Shape { seed: 2, ..shape });
    for (sql, is_grouped) in [
        (
            "SELECT r.k, min(r.v), count(*) FROM r JOIN s ON r.lo < s.lo GROUP BY r.k",
            true,
        ),
        // Few rows have a match.
        (
            "SELECT r.k, min(r.v), count(*) FROM r JOIN s ON r.lo < s.lo AND s.id < 1 AND r.id < 100 GROUP BY r.k",
            false,
        ),
    ] {
        let analyzed = analyzed(&ctx, sql).await;
        assert_eq!(
            analyzed.contains("grouped="),
            is_grouped,
            "{sql}\n{analyzed}"
        );
    }
}

/// Overlaps are found in two passes, whose groups have the same keys.
#[tokio::test]
async fn groups_of_both_passes_are_one_group() {
    let ctx = session();
    let shape = Shape {
        rows: 9000,
        points: false,
        nulls: 0.0,
        ..Shape::PLAIN
    };
    tables(&ctx, &DataType::Int64, shape, Shape { seed: 2, ..shape });
    let sql = "SELECT r.id, sum(s.v), count(s.v), min(s.v), avg(s.v) FROM r JOIN s \
               ON r.k = s.k AND r.lo <= s.hi AND s.lo <= r.hi GROUP BY r.id";
    check(&ctx, sql, true, &[Tuning::PLAIN]).await;
    let analyzed = analyzed(&ctx, sql).await;
    assert!(analyzed.contains("indexed_overlap_ranges="), "{analyzed}");
    assert!(analyzed.contains("grouped=2"), "{analyzed}");
}
