//! `bowtie_nearest` of intervals: forced and stock give the rows of a plain query that computes all distances.

use arrow::datatypes::{DataType, TimeUnit};

use crate::join::partners::tunings;
use crate::support::answer::{answer, forced, stock};
use crate::support::compare::same_rows;
use crate::support::intervals::{Shape, tables};
use crate::support::session::{session, set};

/// The `k` nearest intervals by all distances. Intervals with the same ends are equally near, so neither is told from the other.
fn plainly(keys: &str, k: usize, within: Option<i64>, number: &str) -> String {
    let within = match within {
        Some(within) => format!("WHERE d <= {within}"),
        None => String::new(),
    };
    format!(
        "WITH ordered AS (
             SELECT r.id, s.lo AS lo, s.hi AS hi, CASE
                 WHEN s.lo > r.hi THEN CAST(s.lo AS {number}) - CAST(r.hi AS {number})
                 WHEN s.hi < r.lo THEN CAST(r.lo AS {number}) - CAST(s.hi AS {number})
                 ELSE 0 END AS d
             FROM r JOIN s ON {keys} AND r.lo <= r.hi AND s.lo <= s.hi),
         numbered AS (
             SELECT *, row_number() OVER (PARTITION BY id ORDER BY d, lo, hi) AS place FROM ordered {within})
         SELECT r.id, n.lo, n.hi, n.d FROM r LEFT JOIN numbered n ON r.id = n.id AND n.place <= {k}"
    )
}

#[tokio::test]
async fn nearest_intervals_are_those_of_all_distances() {
    let shapes = [
        Shape::PLAIN,
        Shape {
            reversed: true,
            ..Shape::PLAIN
        },
        Shape {
            longest: 1,
            nulls: 0.0,
            rows: 33,
            ..Shape::PLAIN
        },
    ];
    let types = [
        (DataType::Int32, "BIGINT"),
        (DataType::Int64, "BIGINT"),
        (DataType::Float64, "DOUBLE"),
        (DataType::Date32, "BIGINT"),
        (DataType::Timestamp(TimeUnit::Millisecond, None), "BIGINT"),
    ];
    let keys = [
        ("NULL", "true"),
        ("'k'", "r.k = s.k"),
        ("'t = t, k'", "r.t = s.t AND r.k = s.k"),
    ];
    let mut turn = 0;
    for (i, (data_type, number)) in types.iter().enumerate() {
        let ctx = session();
        tables(&ctx, data_type, shapes[i % 3], shapes[(i + 1) % 3]);
        for (by, plain_keys) in keys {
            for (k, within) in [(1, None), (3, None), (2, Some(4)), (100, Some(0))] {
                if within.is_some() && !data_type.is_integer() && *data_type != DataType::Float64 {
                    continue;
                }
                turn += 1;
                let within_text = within.map_or("NULL".to_string(), |within| within.to_string());
                let sql = format!(
                    "SELECT id, lo_right AS lo, hi_right AS hi, distance AS d
                     FROM bowtie_nearest('r', 's', 'lo, hi', {by}, {k}, {within_text})"
                );
                let expected = stock(&ctx, &plainly(plain_keys, k, within, number))
                    .await
                    .unwrap();
                for tuning in tunings(turn, 2) {
                    let given = forced(&ctx, &sql, &tuning)
                        .await
                        .unwrap_or_else(|e| panic!("{sql}\n{e}"));
                    if let Err(difference) = same_rows(&expected, &given) {
                        panic!("{data_type} {sql}\n{}\n{difference}", given.plan);
                    }
                }
                set(&ctx, "bowtie.offload", "off");
                let given = answer(&ctx, &sql).await.unwrap();
                if let Err(difference) = same_rows(&expected, &given) {
                    panic!("{data_type} {sql}\n{}\n{difference}", given.plan);
                }
            }
        }
    }
}

/// Names of both sides, columns of the result, and what is refused.
#[tokio::test]
async fn names_and_refusals() {
    let ctx = session();
    tables(&ctx, &DataType::Int64, Shape::PLAIN, Shape::PLAIN);
    let sql = "SELECT * FROM bowtie_nearest(
        'r', 'SELECT lo AS begins, hi AS ends, t, id AS distance FROM s', 'lo = begins, hi = ends', 't') LIMIT 1";
    let given = answer(&ctx, sql).await.unwrap();
    let schema = given.batches[0].schema();
    let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    let expected = [
        "id",
        "lo",
        "hi",
        "k",
        "t",
        "w",
        "v",
        "begins",
        "ends",
        "distance",
        "distance_right",
    ];
    assert_eq!(names, expected);
    for (arguments, expected) in [
        (
            "'r', 's', 'lo, hi, k'",
            "the beginning and the end of intervals",
        ),
        (
            "'r', 's', 't, t'",
            "the nearest rows need integers up to BIGINT",
        ),
        (
            "'r', 's', 'lo, hi', 'k', 0",
            "k is a whole number from 1 to 4294967295",
        ),
        ("'r', 's', 'lo, hi', 'k', 1, -1", "a whole number from 0 on"),
        (
            "'r', 'SELECT *, random() AS x FROM s', 'lo, hi'",
            "a volatile function",
        ),
    ] {
        let sql = format!("SELECT * FROM bowtie_nearest({arguments})");
        let error = answer(&ctx, &sql).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{sql}\n{error}");
    }
    let sql = "SELECT * FROM bowtie_asof('r', 's', 'lo, hi')";
    let error = answer(&ctx, sql).await.unwrap_err().to_string();
    assert!(error.contains("on is one column"), "{error}");
}

/// Open ends are infinite, and a greatest distance changes no unit.
#[tokio::test]
async fn distances_of_open_ends_and_of_dates() {
    let ctx = session();
    for (sql, expected) in [
        (
            "SELECT distance FROM bowtie_nearest(
                $$SELECT '-Infinity'::DOUBLE AS lo, 5.0::DOUBLE AS hi$$,
                $$SELECT * FROM (VALUES (1.0::DOUBLE, 2.0::DOUBLE), (10.0, 11.0)) AS v(lo, hi)$$, 'lo, hi')",
            "0.0",
        ),
        (
            "SELECT distance FROM bowtie_nearest(
                $$SELECT DATE '2026-01-01' AS lo, DATE '2026-01-02' AS hi$$,
                $$SELECT DATE '2026-01-05' AS lo, DATE '2026-01-06' AS hi$$, 'lo, hi')",
            "3",
        ),
        (
            "SELECT distance FROM bowtie_nearest(
                $$SELECT DATE '2026-01-01' AS lo, DATE '2026-01-02' AS hi$$,
                $$SELECT DATE '2026-01-05' AS lo, DATE '2026-01-06' AS hi$$, 'lo, hi', NULL, 1, INTERVAL '5 days')",
            "3",
        ),
    ] {
        for offload in ["force", "off"] {
            set(&ctx, "bowtie.offload", offload);
            let given = answer(&ctx, sql).await.unwrap();
            let distance = given.batches.iter().find(|batch| batch.num_rows() > 0);
            let distance = arrow::util::display::array_value_to_string(distance.unwrap().column(0), 0);
            assert_eq!(distance.unwrap(), expected, "{sql}");
        }
    }
}
