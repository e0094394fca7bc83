//! As-of joins over all types that have an order.

use arrow::datatypes::DataType;

use crate::join::partners::tunings;
use crate::join::partners::{Limited, check_limited};
use crate::support::key_types::orderable_types;
use crate::support::session::session;
use crate::support::tables::{keyed_table, register};

#[tokio::test]
async fn every_type_of_time() {
    for (at, data_type) in orderable_types().into_iter().enumerate() {
        for nulls in [0.0, 0.2] {
            let ctx = session();
            register(&ctx, "t", &keyed_table(&data_type, 40, nulls, 1));
            register(&ctx, "q", &keyed_table(&data_type, 60, nulls, 2));
            // DataFusion compares no intervals of months, days and nanoseconds, and orders dictionaries by a way of its own.
            let is_dictionary = matches!(data_type, DataType::Dictionary(..));
            for (op, order) in [("<=", "DESC"), (">", "ASC")] {
                let subquery =
                    format!("(SELECT q.k FROM q WHERE q.k {op} t.k ORDER BY q.k {order} LIMIT 2)");
                let sql = format!(
                    "SELECT t.id, t.k, l.k AS lk FROM t LEFT JOIN LATERAL {subquery} l ON true"
                );
                let limited = match &data_type {
                    _ if is_dictionary => Limited::No,
                    // −0.0 and 0.0 are equal in a condition, and not in an order.
                    t if t.is_floating() => Limited::First,
                    _ => Limited::Finally,
                };
                check_limited(&ctx, &sql, limited, &tunings(at, 2)).await;
            }
        }
    }
}
