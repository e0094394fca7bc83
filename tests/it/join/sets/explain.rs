//! Set joins in EXPLAIN, `bowtie_explain` and metrics.

use crate::support::answer::{analyzed, plan_of, shown, text};
use crate::support::lists::{Shape, TECHNIQUES, table};
use crate::support::session::{session, set};
use crate::support::tables::register;

fn tables() -> datafusion::prelude::SessionContext {
    let ctx = session();
    let shape = |rows, seed| Shape::short(rows, 0.1, seed);
    register(&ctx, "r", &table(shape(300, 5)));
    register(&ctx, "s", &table(shape(300, 6)));
    ctx
}

#[tokio::test]
async fn explain_and_metrics() {
    let ctx = tables();
    let sql = "SELECT r.id, s.id FROM r JOIN s ON r.g = s.g AND array_jaccard(r.v, s.v) >= 0.6 AND r.id < s.id";
    // Offloaded in `auto`.
    let plan = shown(&plan_of(&ctx, sql).await.unwrap());
    assert!(plan.contains("strategy=set, build="), "{plan}");
    assert!(
        plan.contains("set=array_jaccard(left.v, right.v) >= 0.6, theta=[left.id < right.id]"),
        "{plan}"
    );
    let analyzed = analyzed(&ctx, sql).await;
    for metric in ["indexed_", "set_candidates=", "set_verified="] {
        assert!(analyzed.contains(metric), "{metric}: {analyzed}");
    }
    let explained = text(&ctx, &format!("SELECT * FROM bowtie_explain('{sql}')")).await;
    assert!(
        explained.contains("are indexed within equal keys, the device chooses the technique"),
        "{explained}"
    );
    for technique in &TECHNIQUES[1..] {
        set(&ctx, "bowtie.set_strategy", technique);
        let plan = shown(&plan_of(&ctx, sql).await.unwrap());
        // No set has to have the rarest element of a similar one.
        let planned = match *technique {
            "rarest" => "prefix",
            technique => technique,
        };
        assert!(plan.contains(&format!("strategy=set_{planned},")), "{plan}");
        let explained = text(&ctx, &format!("SELECT * FROM bowtie_explain('{sql}')")).await;
        assert!(
            explained.contains(&format!("by the technique {planned}")),
            "{explained}"
        );
    }
}

/// Conditions that are no set join.
#[tokio::test]
async fn what_stays_residual() {
    let ctx = tables();
    set(&ctx, "bowtie.offload", "force");
    for condition in [
        "array_jaccard(r.v, s.v) >= 0",
        "array_jaccard(r.v, s.v) < 0.5",
        "array_jaccard(r.v, s.v) = 0.5",
        "array_overlap(r.v, s.v) >= 0",
        "array_overlap(r.v, s.v) = 2",
        "NOT array_has_any(r.v, s.v)",
        "array_has_all(array_concat(r.v, s.v), s.v)",
        "array_jaccard(r.v, s.v) >= CAST(s.a AS DOUBLE) / 10",
        "array_has_any(r.v, s.v) OR r.a = 1",
    ] {
        let sql = format!("SELECT r.id, s.id FROM r JOIN s ON {condition}");
        let plan = shown(&plan_of(&ctx, &sql).await.unwrap());
        assert!(!plan.contains("strategy=set"), "{plan}");
    }
    // A forced theta strategy.
    set(&ctx, "bowtie.theta_strategy", "tiles");
    let sql = "SELECT r.id, s.id FROM r JOIN s ON array_has_any(r.v, s.v) AND r.a < s.a";
    let plan = shown(&plan_of(&ctx, sql).await.unwrap());
    assert!(plan.contains("strategy=tiles"), "{plan}");
}
