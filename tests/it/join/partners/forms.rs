//! The forms in which SQL asks for the first partners of each row.

use arrow::datatypes::DataType;

use crate::join::partners::tunings;
use crate::join::partners::{Limited, check_limited, tables};
use crate::support::session::session;

/// `t` with a number of each row, which is unique.
const NUMBERED: &str = "(SELECT *, row_number() OVER () AS r FROM t) t";

/// Conditions of `t` and `q` whose partners are ranges of `q.ts`.
const CONDITIONS: [&str; 8] = [
    "q.ts <= t.ts",
    "t.k = q.k AND q.ts <= t.ts",
    "t.k = q.k AND q.ts < t.ts",
    "t.s = q.s AND t.ts <= q.ts",
    "t.s = q.s AND t.k = q.k AND q.ts > t.ts",
    "t.k = q.k AND q.ts BETWEEN t.ts - 4 AND t.ts",
    "(t.k IS NOT DISTINCT FROM q.k) AND q.ts >= t.ts - 3 AND q.ts < t.ts + 3",
    "t.k = q.k AND q.ts <= t.ts AND q.ts >= t.ts - 6",
];

const JOINS: [&str; 3] = ["t JOIN q", "t LEFT JOIN q", "q RIGHT JOIN t"];

#[tokio::test]
async fn numbers_of_rows() {
    let ctx = session();
    tables(&ctx, &DataType::Int64, (60, 90), 0.1);
    let mut at = 0;
    for condition in CONDITIONS {
        for join in JOINS {
            let numbered = match join.strip_prefix("t ") {
                Some(rest) => format!("{NUMBERED} {rest}"),
                None => format!("{}{NUMBERED}", &join[..join.len() - 1]),
            };
            for order in ["q.ts DESC", "q.ts"] {
                let of = |from: &str, key: &str, rest: &str| {
                    format!(
                        "SELECT id, k, ts, qts{rest} FROM (SELECT t.id, t.k, t.ts, q.ts AS qts, row_number() OVER (PARTITION BY {key} ORDER BY {order}) AS rn \
                         FROM {from} ON {condition}) WHERE "
                    )
                };
                at += 4;
                let tunings = tunings(at, 4);
                for keep in ["rn = 1", "rn <= 3"] {
                    let sql = of(&numbered, "t.r", "") + keep;
                    check_limited(&ctx, &sql, Limited::Finally, &tunings).await;
                    let sql = of(join, "t.id", "") + keep;
                    check_limited(&ctx, &sql, Limited::First, &tunings).await;
                }
                let sql = of(&numbered, "t.r", ", rn") + "1 = rn";
                check_limited(&ctx, &sql, Limited::Finally, &tunings[..1]).await;
                let sql = of(&numbered, "t.r", ", rn") + "rn < 3";
                check_limited(&ctx, &sql, Limited::First, &tunings[..1]).await;
                let sql = of(&numbered, "t.r", "") + "rn < 3 AND qts > 5";
                check_limited(&ctx, &sql, Limited::Finally, &tunings[..1]).await;
                let sql = of(join, "t.k", "") + "rn <= 2";
                let sql = sql.replace("id, k, ts, qts", "k, qts");
                check_limited(&ctx, &sql, Limited::First, &tunings[..1]).await;
            }
        }
    }
}

#[tokio::test]
async fn further_keys_and_ranks() {
    let ctx = session();
    tables(&ctx, &DataType::Int64, (60, 120), 0.1);
    for (at, condition) in CONDITIONS.into_iter().enumerate() {
        for (function, keep) in [
            ("row_number()", "<= 2"),
            ("rank()", "= 1"),
            ("rank()", "<= 3"),
        ] {
            for order in ["q.ts DESC, q.id", "q.ts, q.k DESC, q.id DESC"] {
                let sql = format!(
                    "SELECT id, ts, qts, qid FROM (SELECT t.id, t.ts, q.ts AS qts, q.id AS qid, {function} OVER (PARTITION BY t.r ORDER BY {order}) AS rn \
                     FROM {NUMBERED} LEFT JOIN q ON {condition}) WHERE rn {keep}"
                );
                check_limited(&ctx, &sql, Limited::First, &tunings(5 * at, 2)).await;
            }
        }
    }
}

#[tokio::test]
async fn lateral_subqueries() {
    let ctx = session();
    tables(&ctx, &DataType::Int64, (60, 90), 0.1);
    for (at, condition) in CONDITIONS.into_iter().enumerate() {
        let tunings = tunings(7 * at, 4);
        for order in ["q.ts DESC", "q.ts ASC"] {
            for limit in ["LIMIT 1", "LIMIT 3"] {
                let subquery =
                    format!("(SELECT * FROM q WHERE {condition} ORDER BY {order} {limit}) l");
                let left = format!("SELECT t.*, l.ts FROM t LEFT JOIN LATERAL {subquery} ON true");
                check_limited(&ctx, &left, Limited::Finally, &tunings).await;
                let inner = format!("SELECT t.id, l.ts FROM t, LATERAL {subquery}");
                check_limited(&ctx, &inner, Limited::Finally, &tunings).await;
            }
            let skipping = format!(
                "SELECT t.id, l.ts FROM t, LATERAL (SELECT q.ts FROM q WHERE {condition} ORDER BY {order} LIMIT 2 OFFSET 1) l"
            );
            check_limited(&ctx, &skipping, Limited::First, &tunings[..1]).await;
            let scalar = format!(
                "SELECT t.id, (SELECT q.ts + 1 FROM q WHERE {condition} ORDER BY {order} LIMIT 1) AS x, t.ts FROM t"
            );
            check_limited(&ctx, &scalar, Limited::Finally, &tunings[..1]).await;
            let two = format!(
                "SELECT t.id, a.ts, b.ts FROM t LEFT JOIN LATERAL (SELECT q.ts FROM q WHERE {condition} ORDER BY {order} LIMIT 1) a ON true \
                 LEFT JOIN LATERAL (SELECT q.ts AS ts FROM q WHERE q.ts >= t.ts ORDER BY q.ts LIMIT 1) b ON true"
            );
            check_limited(&ctx, &two, Limited::Finally, &tunings[..2]).await;
        }
    }
    // A table with itself, and rows of which none has a partner.
    for sql in [
        "SELECT t.id, u.ts FROM t LEFT JOIN LATERAL (SELECT * FROM t u WHERE u.k = t.k AND u.ts < t.ts ORDER BY u.ts DESC LIMIT 1) u ON true",
        "SELECT t.id, u.ts FROM t LEFT JOIN LATERAL (SELECT * FROM q u WHERE u.ts < t.ts - 1000 ORDER BY u.ts DESC LIMIT 1) u ON true",
        "SELECT t.id, u.x FROM t LEFT JOIN LATERAL (SELECT coalesce(q.k, 0) AS x FROM q WHERE q.ts < 3 AND q.s = t.s AND q.ts < t.ts ORDER BY q.ts, q.k LIMIT 1) u ON true",
        "SELECT t.id, u.ts FROM t LEFT JOIN LATERAL (SELECT * FROM q WHERE q.k = t.k ORDER BY q.ts NULLS FIRST LIMIT 1) u ON true",
    ] {
        let ctx = &ctx;
        let limited = match sql.contains("coalesce") {
            true => Limited::First,
            false => Limited::Finally,
        };
        check_limited(ctx, sql, limited, &tunings(3, 4)).await;
    }
}

#[tokio::test]
async fn nearest_partners() {
    for data_type in [DataType::Int64, DataType::Int32, DataType::Float64] {
        for nulls in [0.0, 0.1] {
            let ctx = session();
            tables(&ctx, &data_type, (60, 90), nulls);
            let conditions = [
                "t.k = q.k",
                "t.k = q.k AND t.s = q.s",
                "t.k = q.k AND q.ts BETWEEN t.ts - 7 AND t.ts + 7",
                "q.ts >= t.ts - 5 AND q.ts <= t.ts + 2",
                "t.s = q.s AND abs(q.ts - t.ts) <= 3",
            ];
            for (at, condition) in conditions.into_iter().enumerate() {
                for order in ["abs(q.ts - t.ts)", "abs(t.ts - q.ts), q.ts"] {
                    for limit in [1, 4] {
                        let sql = format!(
                            "SELECT t.id, t.ts, abs(l.ts - t.ts) FROM t LEFT JOIN LATERAL (SELECT * FROM q WHERE {condition} ORDER BY {order} LIMIT {limit}) l ON true"
                        );
                        let further = order.contains(',') && data_type == DataType::Float64;
                        let limited = match further {
                            // It is a range of other values than the distance is of: partners are chosen among all matches.
                            _ if condition.contains("abs") => Limited::Finally,
                            true => Limited::First,
                            false => Limited::Finally,
                        };
                        check_limited(&ctx, &sql, limited, &tunings(6 * at, 4)).await;
                    }
                }
            }
            // The farthest ones, and those of an order that the sides share otherwise.
            for order in [
                "abs(q.ts - t.ts) DESC",
                "q.ts - t.ts",
                "q.ts + t.ts",
                "abs(q.ts - 3)",
            ] {
                let sql = format!(
                    "SELECT t.id, abs(l.ts - t.ts) >= 0 FROM t LEFT JOIN LATERAL (SELECT * FROM q WHERE q.k = t.k AND q.ts <= t.ts ORDER BY {order} LIMIT 2) l ON true"
                );
                check_limited(&ctx, &sql, Limited::Finally, &tunings(order.len(), 1)).await;
            }
        }
    }
}

#[tokio::test]
async fn integers_whose_difference_wraps() {
    let ctx = session();
    for sql in [
        "CREATE TABLE t AS SELECT * FROM (VALUES (1, CAST(2147483647 AS INT)), (2, CAST(-2147483648 AS INT)), (3, CAST(0 AS INT)), (4, NULL)) v(id, ts)",
        "CREATE TABLE q AS SELECT * FROM (VALUES (1, CAST(-2147483648 AS INT)), (2, CAST(5 AS INT)), (3, CAST(2147483646 AS INT))) v(id, ts)",
    ] {
        ctx.sql(sql).await.unwrap().collect().await.unwrap();
    }
    // The sum of a wrapped difference fails in no row here, but its order is another one.
    let sql = "SELECT t.id, l.ts FROM t LEFT JOIN LATERAL (SELECT * FROM q WHERE q.id > t.id - 100 ORDER BY abs(CAST(q.ts AS BIGINT) - CAST(t.ts AS BIGINT)), q.id LIMIT 1) l ON true";
    check_limited(&ctx, sql, Limited::Finally, &tunings(0, 2)).await;
    let sql = "SELECT t.id, l.ts FROM t LEFT JOIN LATERAL (SELECT * FROM q WHERE q.ts IS NOT NULL AND q.ts > t.ts - 1 ORDER BY abs(q.ts - t.ts), q.ts LIMIT 1) l ON true";
    check_limited(&ctx, sql, Limited::Finally, &tunings(0, 4)).await;
}

#[tokio::test]
async fn conditions_that_leave_no_range() {
    let ctx = session();
    tables(&ctx, &DataType::Int64, (60, 90), 0.1);
    let (first, no) = (Limited::First, Limited::No);
    for (kind, condition, limited) in [
        ("LEFT", "t.k = q.k AND q.ts <= t.ts AND q.id > t.id", first),
        ("LEFT", "t.k = q.k AND q.ts <= t.ts AND q.ts <> t.id", first),
        (
            "INNER",
            "t.k = q.k AND q.ts <= t.ts AND (q.id + t.id) % 2 = 0",
            first,
        ),
        ("FULL", "t.k = q.k AND q.ts <= t.ts", no),
        ("RIGHT", "t.k = q.k AND q.ts <= t.ts", no),
        ("LEFT", "t.k = q.k AND (q.id + t.id) % 2 = 0", no),
    ] {
        let sql = format!(
            "SELECT id, qts FROM (SELECT t.id, q.ts AS qts, row_number() OVER (PARTITION BY t.id ORDER BY q.ts DESC, q.id) AS rn FROM t {kind} JOIN q ON {condition}) WHERE rn = 1"
        );
        check_limited(&ctx, &sql, limited, &tunings(0, 3)).await;
    }
    // Numbers of other rows than partners, and functions that count on all of them.
    for (window, limited) in [
        (
            "row_number() OVER (PARTITION BY t.id, q.k ORDER BY q.ts DESC)",
            no,
        ),
        ("row_number() OVER (ORDER BY q.ts DESC, t.id, q.id)", no),
        (
            "dense_rank() OVER (PARTITION BY t.id ORDER BY q.ts DESC)",
            no,
        ),
        (
            "row_number() OVER (PARTITION BY t.id ORDER BY q.id, q.ts)",
            first,
        ),
    ] {
        let sql = format!(
            "SELECT id, qts FROM (SELECT t.id, q.ts AS qts, {window} AS rn FROM t LEFT JOIN q ON t.k = q.k AND q.ts <= t.ts) WHERE rn <= 2"
        );
        check_limited(&ctx, &sql, limited, &tunings(0, 1)).await;
    }
    // What may fail is evaluated of all partners; what cannot fail, of those that are kept.
    for (further, limited) in [
        ("1000 / (qts * 2 + 1) < 3", Limited::No),
        ("qts > id", Limited::First),
    ] {
        let sql = format!(
            "SELECT id, qts FROM (SELECT t.id, q.ts AS qts, row_number() OVER (PARTITION BY t.id ORDER BY q.ts DESC, q.id) AS rn FROM t LEFT JOIN q ON t.k = q.k AND q.ts <= t.ts) WHERE rn = 1 AND {further}"
        );
        check_limited(&ctx, &sql, limited, &tunings(0, 1)).await;
    }
    let sql = "SELECT id, qts, n FROM (SELECT t.id, q.ts AS qts, row_number() OVER w AS rn, count(*) OVER w AS n \
               FROM t LEFT JOIN q ON t.k = q.k AND q.ts <= t.ts WINDOW w AS (PARTITION BY t.id ORDER BY q.ts DESC)) WHERE rn = 1";
    check_limited(&ctx, sql, Limited::No, &tunings(0, 1)).await;
}

#[tokio::test]
async fn partners_below_other_nodes() {
    let ctx = session();
    tables(&ctx, &DataType::Int64, (80, 120), 0.1);
    let asof = "SELECT t.id, t.k, t.ts, l.ts AS qts FROM t LEFT JOIN LATERAL (SELECT * FROM q WHERE q.k = t.k AND q.ts <= t.ts ORDER BY q.ts DESC LIMIT 1) l ON true";
    for sql in [
        format!("SELECT k, count(*), count(qts), sum(qts), min(ts - qts) FROM ({asof}) GROUP BY k"),
        format!("SELECT count(*), sum(qts) FROM ({asof})"),
        format!("SELECT id, qts FROM ({asof}) WHERE qts > 7 ORDER BY qts, id LIMIT 9"),
        format!("SELECT a.id, q.id FROM ({asof}) a JOIN q ON a.qts = q.ts AND a.k = q.k"),
        format!("SELECT a.id FROM ({asof}) a WHERE EXISTS (SELECT 1 FROM q WHERE q.ts = a.qts)"),
        format!("{asof} ORDER BY t.id LIMIT 7"),
    ] {
        check_limited(&ctx, &sql, Limited::Finally, &tunings(11, 4)).await;
    }
}

#[tokio::test]
async fn numbers_in_qualify() {
    let ctx = session();
    tables(&ctx, &DataType::Int64, (60, 90), 0.1);
    for (at, condition) in CONDITIONS.into_iter().enumerate() {
        let tunings = tunings(3 * at, 2);
        for (from, key, limited) in [
            (NUMBERED, "t.r", Limited::Finally),
            ("t", "t.id", Limited::First),
        ] {
            let sql = format!(
                "SELECT t.id, t.ts, q.ts AS qts FROM {from} LEFT JOIN q ON {condition} \
                 QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY q.ts DESC) <= 2"
            );
            check_limited(&ctx, &sql, limited, &tunings).await;
        }
    }
}
