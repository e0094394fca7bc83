//! Aggregates over overlapping intervals, counted by two searches: forced and stock give the same rows, on all types of
//! ends, with NULLs, points, and intervals that end before they begin.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::prelude::SessionContext;

use crate::join_aggregate::check::{check, tunings};
use crate::support::answer::answer;
use crate::support::intervals::{OVERLAPS as CONDITIONS, Shape, intervals, tables};
use crate::support::session::{session, set};
use crate::support::tables::{register, register_batches};
use crate::support::tuning::Tuning;

/// Whether the answer of `sql` is by counts of intervals.
async fn is_counted(ctx: &SessionContext, sql: &str) -> bool {
    Tuning::PLAIN.apply(ctx);
    set(ctx, "bowtie.offload", "force");
    let analyzed = answer(ctx, &format!("EXPLAIN ANALYZE {sql}"))
        .await
        .unwrap();
    let text = format!("{:?}", analyzed.batches);
    text.contains("indexed_intervals=")
}

/// Join types with the groups that can be fused with them, and aggregates that counts serve.
const QUERIES: [(&str, &str, &str); 13] = [
    ("INNER", "r.id", "count(*)"),
    (
        "INNER",
        "r.id",
        "count(*), count(s.v), sum(r.v), avg(r.w), min(r.v)",
    ),
    (
        "INNER",
        "r.k, r.t",
        "count(s.id), count(s.w), max(r.w), count(r.v)",
    ),
    ("INNER", "s.id", "count(*), sum(s.v), count(s.w)"),
    ("INNER", "s.t", "count(*), avg(s.v), min(s.w)"),
    ("INNER", "s.id", "count(r.v), count(r.t), count(*)"),
    ("INNER", "", "count(*)"),
    (
        "INNER",
        "",
        "count(*), sum(r.v), sum(s.v), avg(s.w), max(r.w)",
    ),
    (
        "LEFT",
        "r.id",
        "count(*), count(s.id), count(s.v), sum(r.v)",
    ),
    ("LEFT", "", "count(*), count(s.v), sum(r.v), min(s.w)"),
    ("RIGHT", "s.id, s.t", "count(*), sum(s.v)"),
    (
        "RIGHT",
        "s.id",
        "count(r.id), count(r.t), count(*) FILTER (WHERE s.v > 3)",
    ),
    ("RIGHT", "", "count(*), count(r.v), sum(s.v)"),
];

fn query((kind, group, aggregates): (&str, &str, &str), condition: &str) -> String {
    let (listed, grouped) = match group.is_empty() {
        true => (String::new(), String::new()),
        false => (format!("{group}, "), format!(" GROUP BY {group}")),
    };
    format!("SELECT {listed}{aggregates} FROM r {kind} JOIN s ON {condition}{grouped}")
}

/// Every condition with every query; the shapes of the tables and the tunings in rotation.
#[tokio::test]
async fn conditions_and_queries() {
    let shapes = [
        (Shape::PLAIN, Shape::PLAIN),
        // Points of one side alone, which open intervals do not overlap at their ends.
        (
            Shape {
                points: false,
                ..Shape::PLAIN
            },
            Shape {
                longest: 1,
                nulls: 0.0,
                ..Shape::PLAIN
            },
        ),
        (
            Shape::PLAIN,
            Shape {
                reversed: true,
                ..Shape::PLAIN
            },
        ),
        (
            Shape {
                reversed: true,
                rows: 41,
                ..Shape::PLAIN
            },
            Shape::PLAIN,
        ),
        (
            Shape {
                rows: 90,
                nulls: 0.0,
                ..Shape::PLAIN
            },
            Shape {
                rows: 7,
                nulls: 1.0,
                ..Shape::PLAIN
            },
        ),
    ];
    let mut turn = 0;
    for (r, s) in shapes {
        let ctx = session();
        tables(&ctx, &DataType::Int32, r, s);
        for condition in CONDITIONS {
            for of in QUERIES {
                turn += 1;
                check(&ctx, &query(of, condition), true, &tunings(turn, 2)).await;
            }
        }
    }
}

/// Types of the ends: those with natural keys are counted, and others are probed, with the same rows.
#[tokio::test]
async fn types_of_ends() {
    for (turn, (data_type, counted)) in [
        (DataType::Int8, true),
        (DataType::UInt16, true),
        (DataType::Int64, true),
        (DataType::UInt64, true),
        (DataType::Float32, true),
        (DataType::Float64, true),
        (DataType::Date32, true),
        (DataType::Timestamp(TimeUnit::Millisecond, None), true),
        (DataType::Decimal128(20, 2), false),
        (DataType::Utf8, false),
    ]
    .into_iter()
    .enumerate()
    {
        let ctx = session();
        tables(&ctx, &data_type, Shape::PLAIN, Shape::PLAIN);
        for of in [QUERIES[1], QUERIES[3], QUERIES[8]] {
            let sql = query(of, CONDITIONS[4]);
            check(&ctx, &sql, true, &tunings(turn * 5, 3)).await;
            // As text a range may end before it begins.
            if data_type != DataType::Utf8 {
                assert_eq!(is_counted(&ctx, &sql).await, counted, "{data_type} {sql}");
            }
        }
    }
}

/// Which queries are counted, and which are probed: an argument of the other side, intervals that end before they begin,
/// and open intervals where both sides have points.
#[tokio::test]
async fn what_is_counted() {
    let ctx = session();
    let plain = Shape {
        rows: 500,
        ..Shape::PLAIN
    };
    tables(&ctx, &DataType::Int64, plain, plain);
    for of in QUERIES {
        for condition in [CONDITIONS[0], CONDITIONS[5]] {
            let sql = query(of, condition);
            let open = condition == CONDITIONS[5];
            // Index and metric are there, but tiles with points of both sides are probed.
            assert!(is_counted(&ctx, &sql).await, "{open} {sql}");
        }
    }
    for of in [
        ("INNER", "r.id", "sum(s.v)"),
        ("INNER", "s.id", "count(*), avg(r.v)"),
        ("LEFT", "r.id", "count(*), max(s.v)"),
    ] {
        let sql = query(of, CONDITIONS[0]);
        check(&ctx, &sql, true, &tunings(0, 2)).await;
        assert!(!is_counted(&ctx, &sql).await, "{sql}");
    }
    for condition in [
        "r.lo <= s.hi AND r.hi >= s.lo AND r.v <= s.v",
        "r.lo <= s.hi AND r.hi >= s.lo AND r.t LIKE s.t || '%'",
        "r.lo <= s.hi AND r.hi <= s.lo",
    ] {
        let sql = query(QUERIES[0], condition);
        check(&ctx, &sql, true, &tunings(0, 2)).await;
        assert!(!is_counted(&ctx, &sql).await, "{sql}");
    }
    let reversed = Shape {
        reversed: true,
        ..plain
    };
    tables(&ctx, &DataType::Int64, reversed, reversed);
    let sql = query(QUERIES[0], CONDITIONS[0]);
    assert!(!is_counted(&ctx, &sql).await, "{sql}");
}

/// Chunks of the right side some of which have intervals that end before they begin: these are probed, the others are
/// counted, and each row has the matches of both.
#[tokio::test]
async fn some_chunks_are_probed() {
    let ctx = session();
    register(&ctx, "r", &intervals(&DataType::Int32, Shape::PLAIN));
    let batches = (0..6).map(|i| {
        let shape = Shape {
            rows: 49,
            reversed: i % 3 == 1,
            seed: 100 + i,
            ..Shape::PLAIN
        };
        intervals(&DataType::Int32, shape)
    });
    register_batches(&ctx, "s", batches.collect());
    for condition in [CONDITIONS[1], CONDITIONS[4]] {
        for of in QUERIES {
            let sql = query(of, condition);
            let each: Vec<_> = tunings(0, 40)
                .into_iter()
                .filter(|tuning| tuning.chunk_rows == "7" || tuning.chunk_rows == "49")
                .take(3)
                .collect();
            check(&ctx, &sql, true, &each).await;
        }
    }
}

/// Group keys that are distinct need no table of groups; those that are not, and those that only look so, do.
#[tokio::test]
async fn groups_with_and_without_distinct_keys() {
    let ctx = session();
    tables(&ctx, &DataType::Int32, Shape::PLAIN, Shape::PLAIN);
    let mut turn = 0;
    for group in [
        "r.id",
        "r.v, r.id",
        "r.v",
        "r.w",
        "r.id + 1",
        "r.t, r.v, r.w",
    ] {
        for kind in ["INNER", "LEFT"] {
            turn += 3;
            let sql = query(
                (kind, group, "count(*), count(s.v), sum(r.v)"),
                CONDITIONS[0],
            );
            check(&ctx, &sql, true, &tunings(turn, 3)).await;
        }
    }
}
