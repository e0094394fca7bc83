//! Joins of overlapping intervals: forced and stock give the same rows, by two range joins where no interval ends before it begins.

use arrow::datatypes::DataType;

use crate::support::answer::{answer_and_counts, check, stock};
use crate::support::intervals::{OVERLAPS, Shape, tables};
use crate::support::session::{session, set};
use crate::support::tuning::Tuning;

const KINDS: [&str; 8] = [
    "INNER",
    "LEFT",
    "RIGHT",
    "FULL",
    "LEFT SEMI",
    "RIGHT SEMI",
    "LEFT ANTI",
    "RIGHT ANTI",
];

fn query(kind: &str, condition: &str) -> String {
    let columns = match kind {
        "LEFT SEMI" | "LEFT ANTI" => "r.id, r.t",
        "RIGHT SEMI" | "RIGHT ANTI" => "s.id, s.t",
        _ => "r.id, r.lo, r.t, s.id AS j, s.hi, s.t AS u",
    };
    format!("SELECT {columns} FROM r {kind} JOIN s ON {condition}")
}

#[tokio::test]
async fn join_types_and_conditions() {
    let whole = Shape {
        nulls: 0.0,
        points: false,
        ..Shape::PLAIN
    };
    let shapes = [
        (whole, whole),
        (Shape::PLAIN, Shape::PLAIN),
        (
            Shape {
                points: true,
                longest: 2,
                ..whole
            },
            whole,
        ),
        (
            whole,
            Shape {
                reversed: true,
                ..whole
            },
        ),
    ];
    let mut turn = 0;
    for (r, s) in shapes {
        for data_type in [DataType::Int32, DataType::Decimal128(20, 2)] {
            let ctx = session();
            tables(&ctx, &data_type, r, s);
            for condition in OVERLAPS {
                for kind in KINDS {
                    turn += 1;
                    let sql = query(kind, condition);
                    let stock = stock(&ctx, &sql).await.unwrap();
                    check(&ctx, &sql, &Tuning::nth(turn), &stock, &["Bowtie"]).await;
                }
            }
        }
    }
}

/// The two range joins are in the metrics, and a pair that is enumerated is a match.
#[tokio::test]
async fn no_pair_is_tested() {
    let ctx = session();
    let whole = Shape {
        nulls: 0.0,
        rows: 300,
        ..Shape::PLAIN
    };
    tables(&ctx, &DataType::Int32, whole, whole);
    for kind in ["INNER", "LEFT", "FULL"] {
        let sql = query(kind, OVERLAPS[0]);
        // Rows without a match are no candidates.
        let matches = stock(&ctx, &query("INNER", OVERLAPS[0])).await.unwrap();
        let matches: usize = matches.batches.iter().map(|batch| batch.num_rows()).sum();
        set(&ctx, "bowtie.offload", "force");
        let (given, counts) = answer_and_counts(&ctx, &sql).await.unwrap();
        assert_eq!(
            counts.indexed(),
            ["overlap_ranges"],
            "{sql}\n{}",
            given.plan
        );
        assert_eq!(counts.get("indexed_overlap_ranges"), 1, "{counts:?}");
        assert_eq!(counts.get("candidate_pairs"), matches, "{counts:?}");
    }
}
