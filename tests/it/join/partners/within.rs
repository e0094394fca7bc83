//! The nearest partners within a distance, and the last ones within a tolerance, written as differences: one range of the build side tells them.

use arrow::datatypes::{DataType, TimeUnit};

use crate::join::partners::{Limited, check_limited, tables, tunings};
use crate::support::answer::{check, forced, stock};
use crate::support::session::{session, set};

/// Types of `ts`, and what is subtracted of it.
fn types() -> [(DataType, &'static str); 6] {
    [
        (DataType::Int64, "{}.ts"),
        (DataType::Int16, "{}.ts"),
        (DataType::Float64, "{}.ts"),
        (DataType::Decimal128(12, 3), "{}.ts"),
        (DataType::Decimal128(36, 0), "{}.ts"),
        (
            DataType::Timestamp(TimeUnit::Second, None),
            "CAST({}.ts AS BIGINT)",
        ),
    ]
}

/// A condition with an order, and the partners that EXPLAIN shows, for times `{t}` and `{q}`.
const NEAREST: [(&str, &str); 5] = [
    ("abs({q} - {t}) <= 3", "abs({q} - {t})"),
    ("4 > abs({t} - {q})", "abs({t} - {q})"),
    ("t.k = q.k AND abs({t} - {q}) <= 7", "abs({t} - {q})"),
    ("abs({q} - {t}) <= 2.5", "abs({q} - {t})"),
    ("abs({q} - {t}) <= 6 AND {q} >= {t}", "abs({q} - {t})"),
];

const LAST: [(&str, &str); 3] = [
    ("{t} - {q} BETWEEN 0 AND 5", "q.ts DESC"),
    (
        "t.k = q.k AND {q} - {t} <= 0 AND {t} - {q} <= 9",
        "q.ts DESC",
    ),
    ("t.s = q.s AND {q} - {t} > 1 AND {q} <= {t} + 20", "q.ts"),
];

#[tokio::test]
async fn distances_and_tolerances_are_ranges() {
    for (at, (data_type, value)) in types().into_iter().enumerate() {
        let ctx = session();
        tables(&ctx, &data_type, (70, 110), 0.1);
        let of = |table: &str| value.replace("{}", table);
        let with_times = |sql: &str| sql.replace("{t}", &of("t")).replace("{q}", &of("q"));
        let forms = NEAREST
            .iter()
            .map(|form| (form, "nearest"))
            .chain(LAST.iter().map(|form| (form, "")));
        for (i, ((condition, order), shown)) in forms.enumerate() {
            // Differences of floats are bounded by ranges that are a little too wide, and tested; of those only a distance is its own limit.
            let is_float = data_type.is_floating();
            if is_float && shown.is_empty() {
                continue;
            }
            // Other differences are cast to compare them with 2.5, and the cast of 38 digits may fail.
            let is_exact = is_float || data_type == DataType::Decimal128(12, 3);
            if !is_exact && condition.contains("2.5") {
                continue;
            }
            let (condition, order) = (with_times(condition), with_times(order));
            for limit in [1, 3] {
                let subquery =
                    format!("(SELECT * FROM q WHERE {condition} ORDER BY {order} LIMIT {limit}) l");
                let distance = with_times("abs({t} - {q})").replace("q.ts", "l.ts");
                let sql = format!(
                    "SELECT t.id, t.ts, {distance} FROM t LEFT JOIN LATERAL {subquery} ON true"
                );
                check_limited(&ctx, &sql, Limited::Finally, &tunings(7 * at + i, 4)).await;
                let plan = forced(&ctx, &sql, &tunings(0, 1)[0]).await.unwrap().plan;
                let partners =
                    ["nearest", "last", "first"].map(|which| format!("partners={which} {limit}"));
                assert!(partners.iter().any(|p| plan.contains(p)), "{sql}\n{plan}");
                let numbered = format!(
                    "SELECT id, d FROM (SELECT t.id, {} AS d, rank() OVER (PARTITION BY t.id ORDER BY {order}) AS rn FROM t JOIN q ON {condition}) WHERE rn <= {limit}",
                    with_times("abs({t} - {q})")
                );
                check_limited(&ctx, &numbered, Limited::First, &tunings(3 * at + i, 2)).await;
            }
        }
    }
}

#[tokio::test]
async fn values_far_apart() {
    let ctx = session();
    let wide = "99999999999999999999999999999999999";
    for sql in [
        format!("CREATE TABLE t AS SELECT arrow_cast(v.id, 'Int64') AS id, arrow_cast(v.x, 'Decimal128(37, 0)') AS x FROM (VALUES (1, '-{wide}'), (2, '{wide}'), (3, '7'), (4, NULL)) v(id, x)"),
        format!("CREATE TABLE q AS SELECT arrow_cast(v.x, 'Decimal128(37, 0)') AS x FROM (VALUES ('-{wide}'), ('{wide}'), ('5'), ('8'), ('9')) v(x)"),
        "CREATE TABLE a AS SELECT * FROM (VALUES (1, -9223372036854775808), (2, 9223372036854775807), (3, 0), (4, NULL)) v(id, x)".into(),
        "CREATE TABLE b AS SELECT * FROM (VALUES (-9223372036854775807), (9223372036854775800), (-3), (2)) v(x)".into(),
    ] {
        ctx.sql(&sql).await.unwrap().collect().await.unwrap();
    }
    for (left, right) in [("t", "q"), ("a", "b")] {
        for condition in ["true", "abs(r.x - l.x) <= 10"] {
            let sql = format!(
                "SELECT l.id, n.x FROM {left} l LEFT JOIN LATERAL (SELECT * FROM {right} r WHERE {condition} ORDER BY abs(r.x - l.x), r.x LIMIT 1) n ON true"
            );
            set(&ctx, "bowtie.offload", "force");
            let given = ctx.sql(&sql).await.unwrap().collect().await;
            set(&ctx, "bowtie.offload", "off");
            let stock = ctx.sql(&sql).await.unwrap().collect().await;
            let shown = |rows: Result<Vec<_>, _>| match rows {
                Ok(rows) => {
                    let text = arrow::util::pretty::pretty_format_batches(&rows)
                        .unwrap()
                        .to_string();
                    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
                    lines.sort();
                    Ok(lines)
                }
                Err(_) => Err(()),
            };
            assert_eq!(shown(given), shown(stock), "{sql}");
        }
    }
}

/// The distance is of a wider type than the column that the condition compares: a cast of the row's own value to the latter would round it.
#[tokio::test]
async fn distances_of_a_wider_type() {
    let ctx = session();
    for sql in [
        "CREATE TABLE t AS SELECT v.id, arrow_cast(v.z, 'Decimal128(21, 2)') AS z, arrow_cast(v.z, 'Decimal128(14, 3)') AS y, v.b, CAST(v.b AS INT) AS i FROM (VALUES (1, '5.70', 100), (2, '5.20', 100), (3, '-7.49', 6)) v(id, z, b)",
        "CREATE TABLE q AS SELECT v.x, arrow_cast(v.x, 'Decimal128(12, 1)') AS y, CAST(v.x AS INT) AS i FROM (VALUES (5), (6), (-7), (-8), (NULL)) v(x)",
    ] {
        ctx.sql(sql).await.unwrap().collect().await.unwrap();
    }
    for (condition, distance) in [
        ("q.x <= t.b", "abs(CAST(q.x AS DECIMAL(21, 2)) - t.z)"),
        (
            "q.y <= arrow_cast(t.b, 'Decimal128(12, 1)')",
            "abs(CAST(q.y AS DECIMAL(14, 3)) - t.y)",
        ),
        ("q.i <= t.i", "abs(CAST(q.i AS BIGINT) - t.b)"),
    ] {
        for limit in [1, 2] {
            let sql = format!(
                "SELECT t.id, l.x FROM t LEFT JOIN LATERAL (SELECT * FROM q WHERE {condition} ORDER BY {distance} LIMIT {limit}) l ON true"
            );
            let stock = stock(&ctx, &sql).await.unwrap();
            for tuning in tunings(3, 3) {
                check(&ctx, &sql, &tuning, &stock, &["Bowtie"]).await;
            }
        }
    }
}
