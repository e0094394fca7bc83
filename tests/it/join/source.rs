//! Each of DataFusion's join nodes as the source: nested loop, hash, sort-merge, piecewise-merge, cross.

use crate::support::answer::{check, plan_of, shown, stock};
use crate::support::join_types::{KINDS, Kind};
use crate::support::session::{session, set};
use crate::support::tables::{mixed_table, register};
use crate::support::tuning::Tuning;

#[tokio::test]
async fn nested_loop_and_cross() {
    let all = |_: &Kind| true;
    replaced("NestedLoopJoinExec", &[], 1, "r.a > s.a AND r.b < s.b", all).await;
    let inner = |kind: &Kind| *kind == Kind::Join("INNER");
    replaced("CrossJoinExec", &[], 1, "true", inner).await;
}

#[tokio::test]
async fn hash() {
    let condition = "r.g = s.g AND r.a > s.a AND r.b + s.b > 3";
    replaced("HashJoinExec", &[], 1, condition, |_| true).await;
    replaced("HashJoinExec", &[], 4, condition, |_| true).await;
}

#[tokio::test]
async fn sort_merge() {
    let options = [("datafusion.optimizer.prefer_hash_join", "false")];
    let condition = "r.g = s.g AND r.a > s.a AND r.b + s.b > 3";
    replaced("SortMergeJoinExec", &options, 4, condition, |_| true).await;
}

#[tokio::test]
async fn piecewise_merge() {
    let options = [("datafusion.optimizer.enable_piecewise_merge_join", "true")];
    let served = |kind: &Kind| matches!(kind, Kind::Join("INNER" | "LEFT" | "RIGHT" | "FULL"));
    for op in ["<", "<=", ">", ">="] {
        for (left, right) in [("r.a", "s.a"), ("s.a", "r.b"), ("r.a + 1", "s.b * 2")] {
            let condition = format!("{left} {op} {right}");
            replaced("PiecewiseMergeJoin", &options, 4, &condition, served).await;
        }
    }
}

/// `node` is planned, not run: the oracle runs without `options`, and what is tested is that bowtie reads `node` right.
async fn replaced(
    node: &str,
    options: &[(&str, &str)],
    partitions: usize,
    condition: &str,
    served: impl Fn(&Kind) -> bool,
) {
    for nulls in [0.0, 0.3, 1.0] {
        let ctx = session();
        register(&ctx, "large", &mixed_table(41, nulls, 1));
        register(&ctx, "small", &mixed_table(29, nulls, 2));
        for (i, kind) in KINDS.iter().filter(|kind| served(kind)).enumerate() {
            let (left, right) = match i % 2 {
                0 => ("large", "small"),
                _ => ("small", "large"),
            };
            let sql = kind.sql(left, right, &["id", "t"], condition);
            let stock = stock(&ctx, &sql).await.unwrap();
            let tuning = Tuning {
                partitions,
                ..Tuning::nth(i)
            };
            for (key, value) in options {
                set(&ctx, key, value);
            }
            tuning.apply(&ctx);
            let source = shown(&plan_of(&ctx, &sql).await.unwrap());
            assert!(source.contains(node), "no {node}: {sql}\n{source}");
            check(&ctx, &sql, &tuning, &stock, &["BowtieJoinExec"]).await;
            for (key, value) in options {
                let back = if *value == "true" { "false" } else { "true" };
                set(&ctx, key, back);
            }
        }
    }
}
