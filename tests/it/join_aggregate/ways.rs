//! EXPLAIN ANALYZE says how matches were counted, and how aggregates of a join were computed.

use arrow::datatypes::DataType;

use crate::join_aggregate::overlaps::analyzed;
use crate::support::intervals::{Shape, tables};
use crate::support::session::{device, session};

/// A query, what ran, and what did not.
const FEW_ROWS: [(&str, &[&str], &[&str]); 9] = [
    (
        "SELECT r.id, sum(s.v) FROM r JOIN s ON r.lo < s.lo GROUP BY r.id",
        &["folded_ranges="],
        &["folded_covers=", "by_pairs=", "counted_"],
    ),
    // Only the side of the points can be sorted.
    (
        "SELECT r.id, max(s.v), count(*) FROM r JOIN s ON r.w BETWEEN s.v AND s.w GROUP BY r.id",
        &["folded_covers=", "weighed="],
        &["by_pairs="],
    ),
    (
        "SELECT count(*), sum(r.v) FROM r JOIN s ON r.lo < s.lo AND r.v < s.v",
        &["weighed=", "counted_"],
        &["folded_levels=", "by_pairs="],
    ),
    (
        "SELECT r.id, min(s.v) FROM r JOIN s ON r.lo < s.lo AND r.v < s.v GROUP BY r.id",
        &["folded_levels=", "counted_"],
        &["weighed=", "by_pairs="],
    ),
    (
        "SELECT r.id, sum(s.v), count(*) FROM r JOIN s ON r.lo < s.lo AND r.v < s.v AND r.id > s.id GROUP BY r.id",
        &["folded_walk=", "weighed=", "counted_walk="],
        &["by_pairs=", "folded_levels="],
    ),
    (
        "SELECT r.id, max(s.v), count(*) FROM r JOIN s ON r.lo * s.v > 200 GROUP BY r.id",
        &["folded_walk=", "counted_filter="],
        &["by_pairs="],
    ),
    (
        "SELECT r.id, s.id FROM r JOIN s ON r.lo * s.v > 200 AND r.w <> s.w",
        &["counted_filter="],
        &["sliced="],
    ),
    (
        "SELECT r.id, s.id FROM r JOIN s ON r.lo <= s.hi",
        &["sliced="],
        &["counted_"],
    ),
    (
        "SELECT r.id, s.id FROM r JOIN s ON r.lo = s.hi AND r.v < s.v",
        &["strategy=range"],
        &["counted_", "sliced="],
    ),
];

#[tokio::test]
async fn few_rows() {
    let ctx = session();
    let shape = Shape {
        rows: 3000,
        nulls: 0.0,
        ..Shape::PLAIN
    };
    tables(&ctx, &DataType::Int64, shape, Shape { seed: 2, ..shape });
    for (sql, ran, did_not) in FEW_ROWS {
        let analyzed = analyzed(&ctx, sql).await;
        for name in ran {
            assert!(analyzed.contains(name), "{sql}: {name}\n{analyzed}");
        }
        for name in did_not {
            assert!(!analyzed.contains(name), "{sql}: {name}\n{analyzed}");
        }
    }
}

/// Enough rows without correlation for an index of the tested column.
#[tokio::test]
async fn many_rows() {
    let ctx = session();
    let shape = Shape {
        rows: 20_000,
        nulls: 0.0,
        ..Shape::PLAIN
    };
    tables(&ctx, &DataType::Int64, shape, Shape { seed: 2, ..shape });
    let sql = "SELECT count(*) FROM r JOIN s ON r.lo < s.lo AND r.id * 7919 % 20011 < s.id";
    let analyzed = analyzed(&ctx, sql).await;
    // A GPU walks these in the time of a launch.
    let counted = match device().as_str() {
        "host" => ["counted_merge=", "counted_wavelet_tree="],
        _ => ["counted_walk=", "counted_wavelet_tree="],
    };
    assert!(
        counted.iter().any(|name| analyzed.contains(name)),
        "{analyzed}"
    );
}
