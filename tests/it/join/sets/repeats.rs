//! Sets that repeat, which are joined once: on both sides and on one, within equal keys, with other comparisons, counted, and with
//! their values.

use datafusion::prelude::SessionContext;

use crate::support::answer::{analyzed, check, stock};
use crate::support::join_types::KINDS;
use crate::support::lists::{PREDICATES, Shape, TECHNIQUES, repeating, table};
use crate::support::session::{session, set};
use crate::support::tables::{register, register_whole};
use crate::support::tuning::Tuning;

/// Two tables; sets repeat in `r`, in `s`, or in both.
fn tables(repeats: (bool, bool)) -> SessionContext {
    let ctx = session();
    let shape = |rows, seed| Shape::short(rows, 0.1, seed);
    for (name, batch, repeats) in [
        ("r", table(shape(90, 5)), repeats.0),
        ("s", table(shape(75, 5)), repeats.1),
    ] {
        let batch = if repeats { repeating(&batch, 9) } else { batch };
        register(&ctx, name, &batch);
    }
    ctx
}

const BOTH_OR_ONE: [(bool, bool); 3] = [(true, true), (true, false), (false, true)];

/// Other parts of a condition.
const OTHERS: [&str; 5] = [
    "",
    " AND r.g = s.g",
    " AND r.id < s.id",
    " AND r.a + s.a > 12",
    " AND r.g = s.g AND r.id <= s.id AND r.a * s.a > 30",
];

#[tokio::test]
async fn join_types_and_conditions() {
    let mut n = 0;
    for repeats in BOTH_OR_ONE {
        let ctx = tables(repeats);
        for (at, predicate) in PREDICATES.iter().enumerate() {
            for kind in KINDS {
                n += 1;
                // One in three, in rotation.
                if (n + at) % 3 != 0 {
                    continue;
                }
                let other = OTHERS[n / 3 % OTHERS.len()];
                let condition = format!("{}{other}", predicate.guarded());
                let sql = kind.sql("r", "s", &["id", "t"], &condition);
                let stock = match stock(&ctx, &sql).await {
                    Ok(stock) => stock,
                    Err(error) => panic!("{sql}: {error}"),
                };
                let sql = kind.sql("r", "s", &["id", "t"], &format!("{}{other}", predicate.sql));
                let technique = TECHNIQUES[n % TECHNIQUES.len()];
                set(&ctx, "bowtie.set_strategy", technique);
                let plan =
                    check(&ctx, &sql, &Tuning::nth(n / 3), &stock, &["BowtieJoinExec"]).await;
                assert!(plan.contains("strategy=set"), "{sql}\n{plan}");
            }
        }
    }
}

/// Counts, folds over lists and pairs, and values of the sets.
#[tokio::test]
async fn aggregates_and_values() {
    let mut n = 0;
    for repeats in BOTH_OR_ONE {
        let ctx = tables(repeats);
        for predicate in PREDICATES {
            for (select, group) in [
                ("count(*)", ""),
                ("r.g, count(*), sum(r.a), count(r.t)", " GROUP BY r.g"),
                ("s.id, count(*), max(s.a)", " GROUP BY s.id"),
                (
                    "s.g, count(r.a), sum(r.a), min(r.a), max(r.t)",
                    " GROUP BY s.g",
                ),
                (
                    "r.g, count(s.a), sum(s.a), min(s.a), max(s.t)",
                    " GROUP BY r.g",
                ),
                (
                    "r.id AS i, s.id AS j, array_overlap(r.v, s.v) AS o, array_cosine(r.v, s.v) AS x",
                    "",
                ),
            ] {
                n += 1;
                // One in four, in rotation.
                if (n + n / 6) % 4 != 0 {
                    continue;
                }
                let kind = ["JOIN", "LEFT JOIN", "RIGHT JOIN"][(n + n / 6) % 3];
                let other = OTHERS[n % OTHERS.len()];
                let of = |condition: &str| {
                    format!("SELECT {select} FROM r {kind} s ON {condition}{other}{group}")
                };
                let stock = stock(&ctx, &of(&predicate.guarded())).await.unwrap();
                let technique = TECHNIQUES[n % TECHNIQUES.len()];
                set(&ctx, "bowtie.set_strategy", technique);
                let sql = of(predicate.sql);
                check(&ctx, &sql, &Tuning::nth(n), &stock, &["Bowtie"]).await;
            }
        }
    }
}

/// As many rows as a GPU, too, looks for equal ones. The oracle joins the different sets, and rows by the number of their set.
#[tokio::test]
async fn many_rows_of_few_sets() {
    const ROWS: usize = 6_000;
    const SETS: usize = 120;
    let ctx = session();
    let batch = table(Shape::short(ROWS, 0.05, 9));
    register_whole(&ctx, "p", batch.slice(0, SETS));
    register_whole(&ctx, "q", repeating(&batch, SETS));
    let rows = format!("(SELECT *, id * 7 % {SETS} AS k FROM q)");
    let mut n = 0;
    for (predicate, on) in [
        ("array_jaccard(r.v, s.v) >= 0.7", ""),
        ("array_has_all(r.v, s.v)", " AND r.g = s.g"),
        ("array_overlap(r.v, s.v) >= 4", " AND r.id < s.id"),
        ("array_cosine(r.v, s.v) >= 0.8", ""),
    ] {
        let guard = "r.v IS NOT NULL AND s.v IS NOT NULL";
        let like =
            format!("SELECT r.id AS i, s.id AS j FROM p r JOIN p s ON {predicate} AND {guard}");
        for (select, group, kind) in [
            ("count(*), sum(r.a * s.a), min(s.id - r.id)", "", ""),
            ("r.id, count(*)", " GROUP BY r.id", ""),
            ("s.g, count(*)", " GROUP BY s.g", ""),
            ("count(*), sum(r.id)", "", "LEFT SEMI"),
            ("count(*), sum(r.id)", "", "LEFT ANTI"),
        ] {
            n += 1;
            if n % 2 == 0 && on.is_empty() {
                continue;
            }
            let oracle = match kind {
                "" => format!(
                    "SELECT {select} FROM {rows} r JOIN ({like}) m ON r.k = m.i JOIN {rows} s ON m.j = s.k{on}{group}"
                ),
                _ => format!(
                    "SELECT {select} FROM {rows} r {kind} JOIN (SELECT x.*, m.i FROM ({like}) m JOIN {rows} x ON m.j = x.k) s \
                     ON r.k = s.i{on}{group}"
                ),
            };
            let stock = stock(&ctx, &oracle)
                .await
                .unwrap_or_else(|e| panic!("{oracle}\n{e}"));
            for (technique, memory) in [("auto", "auto"), (TECHNIQUES[1 + n % 6], "1MB")] {
                set(&ctx, "bowtie.set_strategy", technique);
                let tuning = Tuning {
                    device_memory: memory,
                    ..Tuning::PLAIN
                };
                let sql =
                    format!("SELECT {select} FROM q r {kind} JOIN q s ON {predicate}{on}{group}");
                check(&ctx, &sql, &tuning, &stock, &["Bowtie"]).await;
            }
        }
    }
}

/// In `EXPLAIN ANALYZE`.
#[tokio::test]
async fn the_rows_of_repeated_sets_are_counted() {
    let ctx = session();
    set(&ctx, "bowtie.offload", "force");
    let batch = table(Shape::short(5_000, 0.0, 3));
    register_whole(&ctx, "q", repeating(&batch, 50));
    let sql = "SELECT count(*) FROM q r JOIN q s ON array_jaccard(r.v, s.v) >= 0.9";
    let shown = analyzed(&ctx, sql).await;
    let repeats = shown.split("set_repeats=").nth(1).expect(&shown);
    assert!(!repeats.starts_with('0'), "{shown}");
}
