//! Keys of each orderable type, ascending and descending, with NULLs first and last.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};

use crate::sort::check::Sorted;
use crate::support::answer::declines;
use crate::support::key_types::{is_dictionary_of_floats, orderable_types};
use crate::support::session::session;
use crate::support::tables::{keyed_table, register};
use crate::support::tuning::Tuning;

const ORDERS: [(&str, &str); 4] = [
    ("ASC NULLS LAST", "DESC NULLS LAST"),
    ("ASC NULLS FIRST", "ASC NULLS FIRST"),
    ("DESC NULLS LAST", "ASC NULLS LAST"),
    ("DESC NULLS FIRST", "DESC NULLS FIRST"),
];

#[tokio::test]
async fn every_type_in_every_order() {
    for (seed, data_type) in orderable_types().into_iter().enumerate() {
        let ctx = session();
        register(&ctx, "t", &keyed_table(&data_type, 90, 0.15, seed as u64));
        register(&ctx, "u", &keyed_table(&data_type, 80, 0.15, 99));
        for (turn, (first, second)) in ORDERS.into_iter().enumerate() {
            let joined = "SELECT t.k, t.l, t.id FROM t JOIN u ON t.id = u.id";
            let sql = format!("{joined} ORDER BY t.k {first}, t.l {second}, t.id");
            if is_dictionary_of_floats(&data_type) {
                declines(
                    &ctx,
                    &sql,
                    "BowtieSortExec",
                    "which bowtie does not sort by",
                )
                .await;
                continue;
            }
            let limited = format!("{joined} ORDER BY t.k {first}, t.l {second}, t.id LIMIT 17");
            for sql in [&sql, &limited] {
                let sorted = Sorted {
                    sql,
                    keys: 3,
                    limited: false,
                    nodes: &["BowtieSortExec", "BowtieJoinExec"],
                };
                sorted.check(&ctx, &Tuning::nth(seed * 4 + turn)).await;
            }
            // One key, with ties.
            let sql = format!("{joined} ORDER BY t.k {first}");
            let sorted = Sorted {
                sql: &sql,
                keys: 1,
                limited: false,
                nodes: &["BowtieSortExec"],
            };
            sorted.check(&ctx, &Tuning::nth(seed * 3 + turn)).await;
        }
    }
}

/// Text of up to 300 bytes that begins alike, with empty values and NULLs.
#[tokio::test]
async fn long_text_with_common_prefixes() {
    let rows = 300usize;
    let prefix = "the same beginning of each of these texts ";
    let text: StringArray = (0..rows)
        .map(|i| match i * 7 % 13 {
            0 => None,
            1 => Some(String::new()),
            2 => Some(prefix.to_string()),
            3 => Some(prefix.repeat(1 + i % 7) + &format!("{}", i * 31 % 100)),
            n => Some(format!("{prefix}{}\0{}", i * 17 % 10, "z".repeat(n))),
        })
        .collect();
    let ids = Int64Array::from_iter_values(0..rows as i64);
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(ids) as ArrayRef, false),
        ("t", Arc::new(text), true),
    ])
    .unwrap();
    let ctx = session();
    register(&ctx, "r", &batch);
    for (turn, (order, _)) in ORDERS.into_iter().enumerate() {
        for text in [
            "r.t",
            "arrow_cast(r.t, 'Utf8View') AS t",
            "arrow_cast(r.t, 'LargeBinary') AS t",
        ] {
            for limit in ["", " LIMIT 40"] {
                let sql = format!(
                    "SELECT t, id FROM (SELECT {text}, r.id FROM r JOIN r AS s ON r.id = s.id) \
                     ORDER BY t {order}, id{limit}"
                );
                let sorted = Sorted {
                    sql: &sql,
                    keys: 2,
                    limited: false,
                    nodes: &["Bowtie"],
                };
                match text {
                    "r.t" => drop(sorted.check(&ctx, &Tuning::nth(turn * 5)).await),
                    // The cast may stay on the host.
                    _ => {
                        let stock = crate::support::answer::stock(&ctx, &sql).await.unwrap();
                        let tuning = Tuning::nth(turn * 5);
                        let given = crate::support::answer::forced(&ctx, &sql, &tuning);
                        let given = given.await.unwrap();
                        crate::sort::check::same_order(&stock, &given, 2).unwrap();
                    }
                }
            }
        }
    }
}
