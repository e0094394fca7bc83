//! Every strategy of grouped aggregation, forced: the rows are DataFusion's for all keys, aggregates, NULLs and skew.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch};
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::answer::{forced, plan_of, shown, stock};
use crate::support::compare::similar_rows;
use crate::support::key_types::orderable_types;
use crate::support::session::{device, session, set};
use crate::support::snapshot::run;
use crate::support::tables::{keyed_table, mixed_table, register};
use crate::support::tuning::{GROUP_STRATEGIES, Tuning};

/// The strategy that a plan shows for one of the option: the CPU backend has three.
fn in_plan(strategy: &'static str) -> &'static str {
    match strategy {
        "auto" | "partition" | "runs" => strategy,
        _ if device() == "host" => "hash_global",
        _ => strategy,
    }
}

/// Checks `sql` by every strategy, in whole chunks and in short ones.
async fn check(ctx: &SessionContext, sql: &str) {
    let stock = stock(ctx, sql).await.unwrap();
    for (turn, group_strategy) in GROUP_STRATEGIES.into_iter().enumerate() {
        let tuning = Tuning {
            group_strategy,
            chunk_rows: ["auto", "50"][turn % 2],
            ..Tuning::PLAIN
        };
        let given = forced(ctx, sql, &tuning).await.unwrap();
        let node = format!("strategy={}, device=", in_plan(group_strategy));
        assert!(given.plan.contains(&node), "{sql}\n{}", given.plan);
        if let Err(difference) = similar_rows(&stock, &given) {
            panic!("{sql}\n{tuning:?}\n{}\n{difference}", given.plan);
        }
    }
}

const FOLDS: &str = "count(*), count(v), sum(v), avg(v), min(v), max(v), min(w), max(w), sum(w), bit_xor(v), bit_and(w), bit_or(v), \
     sum(v * CAST(2.5 AS DECIMAL(9, 2))), max(w * CAST(2.5 AS DECIMAL(40, 2))), avg(v / 4.0), bool_or(w > 40), \
     sum(v) FILTER (WHERE w > 10), count(*) FILTER (WHERE v IS NULL)";

/// Keys drawn from `distribution`; `None` is NULL.
fn skewed(rows: usize, distribution: impl Fn(usize, &mut StdRng) -> Option<i64>) -> RecordBatch {
    let random = &mut StdRng::seed_from_u64(rows as u64);
    let keys: Int64Array = (0..rows).map(|row| distribution(row, random)).collect();
    let v: Int64Array = (0..rows)
        .map(|_| {
            let value = random.random_range(-1000..1000);
            (!random.random_bool(0.1)).then_some(value)
        })
        .collect();
    let w: Int32Array = (0..rows)
        .map(|_| Some(random.random_range(0..50)))
        .collect();
    RecordBatch::try_from_iter([
        ("k", Arc::new(keys) as ArrayRef),
        ("v", Arc::new(v)),
        ("w", Arc::new(w)),
    ])
    .unwrap()
}

#[tokio::test]
async fn skew() {
    type Distribution = fn(usize, &mut StdRng) -> Option<i64>;
    let distributions: [(&str, Distribution); 7] = [
        ("all equal", |_, _| Some(-3)),
        ("all NULL", |_, _| None),
        ("one heavy key", |_, random| match random.random_bool(0.7) {
            true => Some(17),
            false => Some(random.random_range(0..200)),
        }),
        ("all different", |row, _| Some(row as i64 * 7919 % 100_003)),
        ("far apart", |row, _| {
            Some((row as i64 % 40).wrapping_mul(0x1234_5678_9ABC_DEF1))
        }),
        ("Zipf", |_, random| {
            Some(500f64.powf(random.random::<f64>()) as i64)
        }),
        ("some NULL", |_, random| {
            (!random.random_bool(0.4)).then(|| random.random_range(-5..5))
        }),
    ];
    let ctx = session();
    for (name, distribution) in distributions {
        for rows in [1, 400] {
            println!("{name}, {rows} rows");
            register(&ctx, "r", &skewed(rows, distribution));
            check(&ctx, &format!("SELECT k, {FOLDS} FROM r GROUP BY k")).await;
        }
        check(&ctx, "SELECT k, w, count(*), sum(v) FROM r GROUP BY k, w").await;
        check(&ctx, "SELECT DISTINCT k, w % 3 FROM r").await;
    }
}

#[tokio::test]
async fn key_types() {
    let ctx = session();
    for (turn, data_type) in orderable_types().iter().enumerate() {
        register(&ctx, "r", &keyed_table(data_type, 130, 0.2, turn as u64));
        let sql = "SELECT k, count(*), count(l), sum(id), min(id), max(id % 9) FROM r GROUP BY k";
        let stock = stock(&ctx, sql).await.unwrap();
        let plan = forced(&ctx, sql, &Tuning::PLAIN).await.unwrap().plan;
        // A dictionary that may hold both zeros is declined.
        if plan.contains("BowtieAggregateExec") {
            check(&ctx, sql).await;
            check(&ctx, "SELECT k, id % 2, count(l) FROM r GROUP BY k, id % 2").await;
        } else {
            assert!(stock.plan.contains("AggregateExec"));
        }
    }
}

#[tokio::test]
async fn several_keys_and_sets() {
    let ctx = session();
    for (seed, rows) in [0, 1, 170].into_iter().enumerate() {
        register(&ctx, "r", &mixed_table(rows, 0.2, seed as u64));
        for sql in [
            "SELECT g, t, c, count(*), sum(a), max(t), min(c), avg(b) FROM r GROUP BY g, t, c",
            "SELECT a, b > 4 AS p, sum(c), max(hi), bool_and(lo > 3) FROM r GROUP BY a, b > 4",
            "SELECT g, t, count(*), max(c), count(DISTINCT a), sum(b) FROM r GROUP BY ROLLUP (g, t)",
        ] {
            check(&ctx, sql).await;
        }
    }
}

/// Partial groups of several chunks are merged by the same strategy.
#[tokio::test]
async fn many_groups() {
    let ctx = session();
    let sql = "SELECT count(*), sum(n), sum(m) FROM (
        SELECT value * 31 % 30011 AS k, count(*) AS n, max(value) AS m FROM generate_series(1, 90000) GROUP BY value * 31 % 30011)";
    let stock = stock(&ctx, sql).await.unwrap();
    for group_strategy in GROUP_STRATEGIES {
        let tuning = Tuning {
            group_strategy,
            chunk_rows: "20000",
            ..Tuning::PLAIN
        };
        let given = forced(&ctx, sql, &tuning).await.unwrap();
        similar_rows(&stock, &given).unwrap();
    }
}

/// `EXPLAIN` and `bowtie_explain` show the strategy of the option, or what stands in for it, `EXPLAIN ANALYZE` the one that ran.
#[tokio::test]
async fn what_is_shown() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(60, 0.2, 1));
    set(&ctx, "bowtie.offload", "force");
    let sql = "SELECT t, c, sum(a) FROM r GROUP BY t, c";
    for strategy in GROUP_STRATEGIES {
        set(&ctx, "bowtie.group_strategy", strategy);
        let plan = shown(&plan_of(&ctx, sql).await.unwrap());
        let planned = in_plan(strategy);
        assert!(plan.contains(&format!("strategy={planned},")), "{plan}");
        let explained = format!(
            "SELECT strategy FROM bowtie_explain('{sql}') WHERE node = 'BowtieAggregateExec'"
        );
        let rows = run(&ctx, &explained).await.unwrap();
        assert_eq!(rows[0].column(0).as_string::<i32>().value(0), planned);
        let analyzed = run(&ctx, &format!("EXPLAIN ANALYZE {sql}")).await.unwrap();
        let text = analyzed[0].column(1).as_string::<i32>().value(0);
        // The host has three strategies, of which runs need rows in order.
        let taken = match (strategy, device().as_str()) {
            ("partition", _) => "by_partition=1",
            (_, "host") => "by_hash_global=1",
            ("auto" | "runs", _) => "by_",
            (other, _) => &format!("by_{other}=1"),
        };
        assert!(text.contains(taken), "{strategy}: {text}");
    }
    // Without GROUP BY there is no strategy.
    let plan = shown(&plan_of(&ctx, "SELECT sum(a) FROM r").await.unwrap());
    assert!(!plan.contains("strategy="), "{plan}");
}
