//! Semi, anti and mark joins on equal keys, INTERSECT and EXCEPT: by a key bitmap where the keys are dense integers, by the strategies of
//! equi-joins elsewhere.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit};

use crate::support::answer::{Answer, analyzed, assert_offloaded, check, forced, stock};
use crate::support::compare::same_rows;
use crate::support::join_types::{JOIN_TYPES, KINDS, Kind};
use crate::support::left_out::{By, LeftOut};
use crate::support::session::{session, set};
use crate::support::tables::{mixed_table, register};
use crate::support::tuning::Tuning;

const STRATEGIES: [&str; 5] = ["auto", "direct", "auto", "direct", "hash"];

/// The joins whose output has columns of one side only.
fn kinds() -> impl Iterator<Item = Kind> {
    let one_side = |kind: &Kind| match kind {
        Kind::Join(join) => join.contains(' '),
        Kind::Exists | Kind::NotExists => true,
    };
    KINDS.into_iter().filter(one_side)
}

/// `id`, keys of a type drawn from -20 … 19 or 0 … 39, with and without NULLs, and a Boolean.
fn typed_table(data_type: &DataType, rows: i64, step: i64) -> RecordBatch {
    let low = match data_type.is_unsigned_integer() {
        true => 0,
        false => -20,
    };
    let key = |i: i64| i * step % 40 + low;
    let keys = |of: &dyn Fn(i64) -> Option<i64>| -> ArrayRef {
        let values = (0..rows).map(of).collect::<Int64Array>();
        match cast(&values, data_type) {
            Ok(keys) => keys,
            Err(_) => cast(&cast(&values, &DataType::Int32).unwrap(), data_type).unwrap(),
        }
    };
    let flags = (0..rows).map(|i| (i % 5 > 0).then_some(i * step % 3 % 2));
    let flags = cast(&flags.collect::<Int64Array>(), &DataType::Boolean).unwrap();
    let ids = Int64Array::from_iter_values(0..rows);
    RecordBatch::try_from_iter([
        ("id", Arc::new(ids) as ArrayRef),
        ("k", keys(&|i| Some(key(i)))),
        ("l", keys(&|i| (i % 4 > 0).then_some(key(i + 3)))),
        ("f", flags),
    ])
    .unwrap()
}

#[tokio::test]
async fn key_types() {
    use DataType::*;
    let mut left_out = LeftOut::default();
    let mut n = 0;
    for data_type in [
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Date32,
        Time32(TimeUnit::Second),
        Time64(TimeUnit::Microsecond),
        Timestamp(TimeUnit::Nanosecond, None),
        Duration(TimeUnit::Millisecond),
        Decimal32(9, 0),
        Decimal64(18, 0),
        // Types without a key bitmap.
        Decimal128(20, 0),
        Float64,
        Utf8,
    ] {
        let ctx = session();
        register(&ctx, "r", &typed_table(&data_type, 31, 7));
        register(&ctx, "s", &typed_table(&data_type, 23, 3));
        for condition in [
            "r.k = s.k",
            "r.l = s.l",
            "r.l IS NOT DISTINCT FROM s.l",
            "r.k = s.l AND r.f = s.f",
            "r.f = s.f AND r.l = s.l AND r.k = s.k",
        ] {
            for kind in kinds() {
                let sql = kind.sql("r", "s", &["id", "k", "l"], condition);
                let case = format!("{data_type}: {condition}");
                let Ok(stock) = stock(&ctx, &sql).await else {
                    left_out.leave(case, By::DataFusion);
                    continue;
                };
                n += 1;
                set(&ctx, "bowtie.equi_join_strategy", STRATEGIES[n % 5]);
                let tuning = Tuning::nth(n);
                let given = forced(&ctx, &sql, &tuning).await.unwrap();
                if let Err(difference) = same_rows(&stock, &given) {
                    panic!(
                        "{data_type}: {sql}\n{tuning:?}\n{}\n{difference}",
                        given.plan
                    );
                }
                assert!(
                    given.plan.contains("BowtieJoinExec"),
                    "{data_type}: {}",
                    given.plan
                );
                left_out.compared(case);
            }
        }
    }
    left_out.assert_are(&[]);
}

/// The output side is either one, with several chunks, under several budgets.
#[tokio::test]
async fn both_sides_and_many_chunks() {
    let mut shown = String::new();
    for (left, right) in [
        (3_000, 500),
        (500, 3_000),
        (0, 700),
        (700, 0),
        (20_000, 9_000),
    ] {
        let ctx = session();
        register(&ctx, "some", &mixed_table(left.max(10), 0.1, 5));
        register(&ctx, "others", &mixed_table(right.max(10), 0.1, 6));
        let of = |table: &str, rows: usize| match rows {
            0 => format!("(SELECT * FROM {table} WHERE a + b < -1)"),
            _ => table.to_string(),
        };
        let rows = left + right;
        let (left, right) = (of("some", left), of("others", right));
        for (i, kind) in kinds().enumerate() {
            for (j, condition) in ["r.lo + 1 = s.hi", "r.a = s.a AND r.lo = s.lo"]
                .iter()
                .enumerate()
            {
                let sql = kind.sql(&left, &right, &["id", "t", "c"], condition);
                let stock = stock(&ctx, &sql).await.unwrap();
                let machines = [
                    ("auto", "auto"),
                    ("97", "256MB"),
                    ("1000", "1MB"),
                    ("auto", "1MB"),
                ];
                let long = |chunk_rows: &str| chunk_rows == "97" && rows > 5_000;
                for (chunk_rows, device_memory) in machines.into_iter().filter(|(c, _)| !long(c)) {
                    let strategy = ["auto", "direct"][(i + j) % 2];
                    set(&ctx, "bowtie.equi_join_strategy", strategy);
                    let tuning = Tuning {
                        chunk_rows,
                        device_memory,
                        ..Tuning::nth(i * 2 + j)
                    };
                    shown += &check(&ctx, &sql, &tuning, &stock, &["BowtieJoinExec"]).await;
                }
            }
        }
    }
    for join_type in &JOIN_TYPES[4..] {
        let kind = format!("join_type={join_type},");
        assert!(shown.contains(&kind), "no {join_type}");
    }
}

#[tokio::test]
async fn intersect_and_except() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(300, 0.2, 5));
    register(&ctx, "s", &mixed_table(200, 0.2, 6));
    let mut n = 0;
    for columns in ["a", "lo", "a, b", "b, g, a", "t", "a, t", "c"] {
        for operator in ["INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"] {
            let sql = format!("SELECT {columns} FROM r {operator} SELECT {columns} FROM s");
            let stock = stock(&ctx, &sql).await.unwrap();
            for strategy in STRATEGIES {
                set(&ctx, "bowtie.equi_join_strategy", strategy);
                n += 1;
                check(&ctx, &sql, &Tuning::nth(n), &stock, &["BowtieJoinExec"]).await;
            }
        }
    }
}

/// Keys at both ends of their type are too sparse for a bitmap, those at one end are not.
#[tokio::test]
async fn extreme_keys() {
    let table = |keys: &[Option<i64>]| {
        let keys: Int64Array = keys.iter().copied().collect();
        let ids = Int64Array::from_iter_values(0..keys.len() as i64);
        RecordBatch::try_from_iter([("id", Arc::new(ids) as ArrayRef), ("k", Arc::new(keys))])
            .unwrap()
    };
    let (min, max) = (i64::MIN, i64::MAX);
    let sides: [&[Option<i64>]; 5] = [
        &[Some(min), Some(max), None, Some(0), Some(max)],
        &[Some(max), Some(max - 7), None],
        &[Some(min), Some(min + 9), Some(min)],
        &[None, None],
        &[Some(0), Some(-1), Some(1 << 40)],
    ];
    for left in sides {
        for right in sides {
            let ctx = session();
            register(&ctx, "r", &table(left));
            register(&ctx, "s", &table(right));
            for kind in kinds() {
                for condition in ["r.k = s.k", "r.k IS NOT DISTINCT FROM s.k"] {
                    let sql = kind.sql("r", "s", &["id", "k"], condition);
                    let stock = stock(&ctx, &sql).await.unwrap();
                    for strategy in ["auto", "direct"] {
                        set(&ctx, "bowtie.equi_join_strategy", strategy);
                        let nodes = ["BowtieJoinExec"];
                        check(&ctx, &sql, &Tuning::PLAIN, &stock, &nodes).await;
                    }
                }
            }
        }
    }
}

/// A forced strategy is used: only `direct` and `auto` take key bitmaps.
#[tokio::test]
async fn key_bitmaps_are_of_auto_and_direct() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(60, 0.1, 5));
    register(&ctx, "s", &mixed_table(45, 0.1, 6));
    Tuning::PLAIN.apply(&ctx);
    set(&ctx, "bowtie.offload", "force");
    let semi = "SELECT r.t FROM r LEFT SEMI JOIN s ON r.a = s.a AND r.b = s.b";
    for strategy in ["auto", "direct"] {
        set(&ctx, "bowtie.equi_join_strategy", strategy);
        let text = analyzed(&ctx, semi).await;
        assert!(text.contains("indexed_key_bits=1"), "{strategy}\n{text}");
    }
    for strategy in ["hash", "partitioned_hash", "sort_merge"] {
        set(&ctx, "bowtie.equi_join_strategy", strategy);
        let text = analyzed(&ctx, semi).await;
        let own = format!("indexed_{strategy}=");
        assert!(text.contains(&own) && !text.contains("key_bits"), "{text}");
    }
    set(&ctx, "bowtie.equi_join_strategy", "auto");
    for other in [
        "SELECT r.t FROM r JOIN s ON r.a = s.a",
        "SELECT r.t FROM r LEFT SEMI JOIN s ON r.t = s.t",
        "SELECT r.t FROM r LEFT SEMI JOIN s ON r.a = s.a AND r.b + s.b > 9",
    ] {
        let text = analyzed(&ctx, other).await;
        assert!(!text.contains("key_bits"), "{other}\n{text}");
    }
}

/// Semi and anti joins whose resident output other nodes read.
#[tokio::test]
async fn chains() {
    let ctx = session();
    for (name, rows, seed) in [("r", 90, 5), ("s", 70, 6), ("u", 50, 7)] {
        register(&ctx, name, &mixed_table(rows, 0.1, seed));
    }
    let mut n = 0;
    for sql in [
        "SELECT x.id, u.t FROM (SELECT r.id, r.a, r.t FROM r LEFT SEMI JOIN s ON r.lo = s.lo) AS x JOIN u ON x.a = u.a",
        "SELECT x.a, count(*), sum(x.b) FROM (SELECT r.a, r.b FROM r LEFT ANTI JOIN s ON r.lo = s.lo) AS x GROUP BY x.a",
        "SELECT x.g, sum(x.b) FROM (SELECT s.g, s.b FROM r RIGHT ANTI JOIN s ON r.lo = s.lo) AS x GROUP BY x.g",
        "SELECT x.id, u.t FROM (SELECT r.id, r.a FROM r JOIN s ON r.t = s.t WHERE r.b IN (SELECT b FROM u)) AS x JOIN u ON x.a = u.a",
        "SELECT r.id FROM r WHERE r.a IN (SELECT s.a FROM s WHERE s.lo IN (SELECT u.lo FROM u)) OR r.b = 3",
        "SELECT x.g, count(*) FROM (SELECT r.g FROM r WHERE r.a NOT IN (SELECT s.a FROM s WHERE s.a IS NOT NULL)) AS x GROUP BY x.g",
        "SELECT count(*) FROM (SELECT a, b FROM r INTERSECT SELECT a, b FROM s EXCEPT SELECT a, b FROM u)",
    ] {
        let stock: Answer = stock(&ctx, sql).await.unwrap();
        for _ in 0..12 {
            n += 1;
            set(&ctx, "bowtie.equi_join_strategy", STRATEGIES[n % 5]);
            let given = forced(&ctx, sql, &Tuning::nth(n)).await.unwrap();
            assert_offloaded(sql, &given.plan, &["BowtieJoinExec"]);
            if let Err(difference) = same_rows(&stock, &given) {
                panic!("{sql}\n{}\n{difference}", given.plan);
            }
        }
    }
}
