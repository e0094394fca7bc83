//! Equi-joins by every strategy and materialisation (GFUR, GFTR).

use datafusion::prelude::SessionContext;

use crate::support::answer::{analyzed, answer_and_counts, check, forced, plan_of, shown, stock};
use crate::support::compare::same_rows;
use crate::support::join_types::KINDS;
use crate::support::key_types::orderable_types;
use crate::support::left_out::{By, LeftOut};
use crate::support::session::{session, set};
use crate::support::tables::{keyed_table, mixed_table, register};
use crate::support::tuning::Tuning;

pub(crate) const STRATEGIES: [&str; 5] =
    ["auto", "direct", "hash", "partitioned_hash", "sort_merge"];

pub(crate) const MATERIALIZATIONS: [&str; 3] = ["auto", "late", "early"];

pub(crate) fn turn(ctx: &SessionContext, n: usize) -> String {
    let strategy = STRATEGIES[n % STRATEGIES.len()];
    let materialization = MATERIALIZATIONS[n % MATERIALIZATIONS.len()];
    set(ctx, "bowtie.equi_join_strategy", strategy);
    set(ctx, "bowtie.materialization", materialization);
    strategy.into()
}

/// Each strategy and materialisation × each join type, with and without residual, several keys, equal NULLs; a task for each
/// condition.
#[tokio::test(flavor = "multi_thread")]
async fn strategies_and_kinds() {
    let conditions = [
        "r.a = s.b",
        "r.g = s.g AND r.a = s.a",
        "r.t = s.t",
        "r.c = s.c",
        "r.a = s.a AND r.b + s.b > 9",
        "r.a + 1 = s.b AND r.t <> s.t",
        "r.a IS NOT DISTINCT FROM s.a",
    ];
    let tasks = conditions
        .into_iter()
        .enumerate()
        .map(|(i, condition)| tokio::spawn(strategies_and_kinds_on(i, condition)));
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

async fn strategies_and_kinds_on(i: usize, condition: &str) {
    let ctx = session();
    register(&ctx, "r", &mixed_table(60, 0.15, 5));
    register(&ctx, "s", &mixed_table(45, 0.15, 6));
    let ways = STRATEGIES.len() * MATERIALIZATIONS.len();
    for (k, kind) in KINDS.iter().enumerate() {
        let sql = kind.sql("r", "s", &["id", "t", "c"], condition);
        let stock = stock(&ctx, &sql).await.unwrap();
        // Tunings have other periods than strategies.
        for way in 0..ways {
            let n = (k * 7 + i) * ways + way;
            turn(&ctx, n);
            check(&ctx, &sql, &Tuning::nth(n / 7), &stock, &["BowtieJoinExec"]).await;
        }
    }
}

#[tokio::test]
async fn key_types() {
    let mut left_out = LeftOut::default();
    let mut n = 0;
    for data_type in orderable_types() {
        let ctx = session();
        for nulls in [0.0, 0.3] {
            register(&ctx, "r", &keyed_table(&data_type, 31, nulls, 7));
            register(&ctx, "s", &keyed_table(&data_type, 23, nulls, 8));
            for condition in ["r.k = s.k", "r.k = s.k AND r.l = s.l"] {
                let sql =
                    format!("SELECT r.id AS i, s.id AS j, r.k, s.l FROM r JOIN s ON {condition}");
                let case = format!("{data_type}: {condition}");
                let Ok(stock) = stock(&ctx, &sql).await else {
                    left_out.leave(case, By::DataFusion);
                    continue;
                };
                for _ in 0..STRATEGIES.len() {
                    turn(&ctx, n);
                    n += 1;
                    let answer = forced(&ctx, &sql, &Tuning::PLAIN).await.unwrap();
                    if !answer.plan.contains("BowtieJoinExec") {
                        left_out.leave(&case, By::Bowtie);
                        continue;
                    }
                    if let Err(difference) = same_rows(&stock, &answer) {
                        panic!("{case}\n{}\n{difference}", answer.plan);
                    }
                    left_out.compared(&case);
                }
            }
        }
    }
    // DataFusion has two zeros in a dictionary.
    let equalities = ["r.k = s.k", "r.k = s.k AND r.l = s.l"];
    left_out
        .assert_are(&equalities.map(|on| format!("Dictionary(Int32, Float64): {on} by Bowtie")));
}

/// A limit on a join ends it early; the rows are some of the join's.
#[tokio::test]
async fn limits() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(60, 0.15, 5));
    register(&ctx, "s", &mixed_table(45, 0.15, 6));
    let mut n = 0;
    for kind in KINDS {
        let all = kind.sql("r", "s", &["id", "t"], "r.a = s.b");
        let all_rows = stock(&ctx, &all).await.unwrap();
        // Cells without the width of their column.
        let rows = |answer: &crate::support::answer::Answer| -> Vec<String> {
            let text = arrow::util::pretty::pretty_format_batches(&answer.batches);
            let text = text.unwrap().to_string();
            let cells = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
            let lines = text.lines().filter(|line| line.starts_with("| "));
            lines.skip(1).map(cells).collect()
        };
        let all_lines = rows(&all_rows);
        let count = |lines: &[String], line: &String| lines.iter().filter(|l| *l == line).count();
        for limit in [1, 7, 1000] {
            for _ in 0..4 {
                turn(&ctx, n);
                let sql = format!("SELECT * FROM ({all}) LIMIT {limit}");
                let given = forced(&ctx, &sql, &Tuning::nth(n)).await.unwrap();
                n += 1;
                assert!(given.plan.contains("BowtieJoinExec"), "{}", given.plan);
                let given = rows(&given);
                assert_eq!(given.len(), limit.min(all_lines.len()), "{sql}");
                for line in &given {
                    let is_one_of_all = count(&given, line) <= count(&all_lines, line);
                    assert!(is_one_of_all, "{sql}: {line}");
                }
            }
        }
    }
}

/// A forced strategy is shown in the plan, and used.
#[tokio::test]
async fn a_forced_strategy_is_shown_and_used() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(60, 0.1, 5));
    register(&ctx, "s", &mixed_table(45, 0.1, 6));
    Tuning::PLAIN.apply(&ctx);
    set(&ctx, "bowtie.offload", "force");
    for strategy in &STRATEGIES[1..] {
        set(&ctx, "bowtie.equi_join_strategy", strategy);
        let sql = "SELECT r.t FROM r JOIN s ON r.a = s.a";
        let plan = shown(&plan_of(&ctx, sql).await.unwrap());
        assert!(plan.contains(&format!("strategy={strategy}")), "{plan}");
        let text = analyzed(&ctx, sql).await;
        assert!(text.contains(&format!("indexed_{strategy}=")), "{text}");
        for materialization in &MATERIALIZATIONS[1..] {
            set(&ctx, "bowtie.materialization", materialization);
            // Where build keys have duplicates, a GPU joins in two passes, and gathers.
            let text = analyzed(&ctx, "SELECT r.b, s.id FROM r JOIN s ON r.id = s.id").await;
            let used = format!("materialized_{materialization}=");
            assert!(text.contains(&used), "{text}");
        }
        set(&ctx, "bowtie.materialization", "auto");
    }
    let refused = ctx
        .sql("SET bowtie.equi_join_strategy = 'nested_loop'")
        .await;
    let refused = match refused {
        Ok(set) => set.collect().await.unwrap_err(),
        Err(refused) => refused,
    };
    assert!(
        refused.to_string().contains("use auto, direct"),
        "{refused}"
    );
}

/// On the CPU backend `auto` makes one hash table of up to 262,144 build rows and partitions more of them; dense keys are addresses.
#[tokio::test]
async fn what_auto_selects_on_the_cpu_backend() {
    let ctx = session();
    Tuning::PLAIN.apply(&ctx);
    set(&ctx, "bowtie.device", "host");
    set(&ctx, "bowtie.offload", "force");
    for (rows, step, expected) in [
        (262_144, 1_009, "hash"),
        (262_145, 1_009, "partitioned_hash"),
        (262_145, 1, "direct"),
    ] {
        let side = format!("(SELECT value * {step} AS k, value AS v FROM range(0, {rows}))");
        let sql = format!("SELECT r.v, s.v AS w FROM {side} r JOIN {side} s ON r.k = s.k");
        let (answer, counts) = answer_and_counts(&ctx, &sql).await.unwrap();
        let found = answer.batches.iter().map(|batch| batch.num_rows());
        assert_eq!(found.sum::<usize>(), rows);
        assert_eq!(counts.indexed(), [expected], "{rows} rows\n{}", answer.plan);
    }
}

/// GFTR for outer joins, of columns with NULLs: the matches carry row numbers, and rows without a match follow. With keys of several rows on both
/// sides each strategy goes on in its own way.
#[tokio::test]
async fn outer_joins_carry_their_columns() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(300, 0.2, 5));
    register(&ctx, "s", &mixed_table(400, 0.2, 6));
    let mut n = 0;
    for kind in ["LEFT", "RIGHT", "FULL"] {
        for (left, right, key) in [
            ("r", "s", "id"),
            ("s", "r", "id"),
            ("r", "s", "a"),
            ("s", "r", "a"),
        ] {
            let sql = format!(
                "SELECT {left}.id AS i, {left}.b AS x, {left}.t AS t, {right}.id AS j, {right}.b AS y, {right}.c AS c \
                 FROM {left} {kind} JOIN {right} ON {left}.{key} = {right}.{key} * 2"
            );
            let stock = stock(&ctx, &sql).await.unwrap();
            for strategy in STRATEGIES {
                set(&ctx, "bowtie.equi_join_strategy", strategy);
                set(&ctx, "bowtie.materialization", "early");
                check(&ctx, &sql, &Tuning::nth(n), &stock, &["BowtieJoinExec"]).await;
                n += 1;
                Tuning::PLAIN.apply(&ctx);
                set(&ctx, "bowtie.offload", "force");
                let text = analyzed(&ctx, &sql).await;
                // Repeated keys are found as ranges by most strategies of a GPU.
                let is_early = text.contains("materialized_early=");
                assert!(is_early || key == "a", "{kind}, {strategy}: {text}");
            }
        }
    }
}
