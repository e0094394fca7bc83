//! As-of joins and nearest neighbours against a plain computation.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int32Type, Int64Type};

use crate::join::partners::tunings;
use crate::join::partners::{events, rows_of};
use crate::support::session::session;
use crate::support::tables::register;

/// A row of a table of events: its id, key and time.
type Event = (i64, Option<i32>, Option<i64>);

fn read(batch: &RecordBatch) -> Vec<Event> {
    let ids = batch.column(0).as_primitive::<Int64Type>();
    let keys = batch.column(1).as_primitive::<Int32Type>();
    let times = batch.column(3).as_primitive::<Int64Type>();
    let rows = 0..batch.num_rows();
    rows.map(|i| {
        let key = keys.is_valid(i).then(|| keys.value(i));
        let time = times.is_valid(i).then(|| times.value(i));
        (ids.value(i), key, time)
    })
    .collect()
}

/// A way to choose partners: the condition and the order in SQL, and the rank of a partner, if it is one: less is better.
type Choice = (&'static str, &'static str, fn(i64, i64) -> Option<i64>);

const CHOICES: [Choice; 6] = [
    ("q.ts <= t.ts", "q.ts DESC", |t, q| (q <= t).then_some(-q)),
    ("q.ts < t.ts", "q.ts DESC", |t, q| (q < t).then_some(-q)),
    ("q.ts >= t.ts", "q.ts", |t, q| (q >= t).then_some(q)),
    ("q.ts <= t.ts AND q.ts >= t.ts - 5", "q.ts DESC", |t, q| {
        (q <= t && q >= t - 5).then_some(-q)
    }),
    (
        "q.ts BETWEEN t.ts - 6 AND t.ts + 6",
        "abs(q.ts - t.ts)",
        |t, q| ((t - q).abs() <= 6).then_some((t - q).abs()),
    ),
    ("q.ts IS NOT NULL", "abs(q.ts - t.ts)", |t, q| {
        Some((t - q).abs())
    }),
];

#[tokio::test]
async fn partners_are_those_of_a_plain_computation() {
    for (at, (rows, nulls)) in [
        ((70, 110), 0.1),
        ((300, 40), 0.0),
        ((0, 20), 0.1),
        ((20, 0), 0.1),
        ((1, 1), 0.0),
    ]
    .into_iter()
    .enumerate()
    {
        let ctx = session();
        let t = events(&DataType::Int64, rows.0, 60, nulls, 10 + at as u64);
        let q = events(&DataType::Int64, rows.1, 60, nulls, 20 + at as u64);
        register(&ctx, "t", &t);
        register(&ctx, "q", &q);
        let (t, q) = (read(&t), read(&q));
        for (condition, order, rank) in CHOICES {
            for limit in [1, 3] {
                let mut expected = vec![];
                for (id, key, time) in &t {
                    let partners = q
                        .iter()
                        .filter(|(_, other, _)| key.is_some() && key == other);
                    let mut ranks: Vec<i64> = match time {
                        Some(time) => partners
                            .filter_map(|(_, _, of)| rank(*time, (*of)?))
                            .collect(),
                        // Without a time all are equally far, and none is before or behind.
                        None => match condition {
                            "q.ts IS NOT NULL" => partners
                                .filter(|(_, _, of)| of.is_some())
                                .map(|_| i64::MAX)
                                .collect(),
                            _ => vec![],
                        },
                    };
                    ranks.sort_unstable();
                    ranks.truncate(limit);
                    let shown = |rank: i64| match rank {
                        i64::MAX => String::new(),
                        rank => rank.abs().to_string(),
                    };
                    match ranks.is_empty() {
                        true => expected.push(format!("{id}|")),
                        false => {
                            expected.extend(ranks.iter().map(|r| format!("{id}|{}", shown(*r))))
                        }
                    }
                }
                expected.sort();
                let shown = match order.contains("abs") {
                    true => "abs(l.ts - t.ts)",
                    false => "l.ts",
                };
                let sql = format!(
                    "SELECT t.id, {shown} FROM t LEFT JOIN LATERAL (SELECT * FROM q WHERE q.k = t.k AND {condition} ORDER BY {order} LIMIT {limit}) l ON true"
                );
                for tuning in &tunings(9 * at, 5) {
                    assert_eq!(
                        rows_of(&ctx, &sql, tuning).await,
                        expected,
                        "{sql}\n{tuning:?}"
                    );
                }
            }
        }
    }
}
