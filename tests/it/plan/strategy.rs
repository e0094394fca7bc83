//! A strategy that does not suit a condition gives way to the natural one, and EXPLAIN shows which.

use crate::support::snapshot::{answer, nodes, session};

/// Strategy, condition, and the strategy that stands in.
const CONTRADICTIONS: [(&str, &str, &str); 6] = [
    ("range", "r.a > s.a AND r.b < s.b", "dominance"),
    ("range", "r.a <> s.a", "tiles"),
    ("dominance", "r.a > s.a", "range"),
    ("dominance", "r.a * s.a > 3", "tiles"),
    ("range", "r.a = s.a", "equi"),
    ("dominance", "r.a = s.a AND r.b = s.b", "equi"),
];

#[tokio::test]
async fn a_strategy_that_does_not_suit_gives_way() {
    for (strategy, condition, natural) in CONTRADICTIONS {
        let context = session("force").await;
        let sql = format!("SELECT r.a FROM r JOIN s ON {condition}");
        let expected = answer(&context, &sql).await;
        context
            .sql(&format!("SET bowtie.theta_strategy = '{strategy}'"))
            .await
            .unwrap();
        let plan = nodes(&context, &sql, &["BowtieJoinExec"]).await;
        let shown = format!("strategy={natural},");
        assert!(plan.contains(&shown), "{strategy}, {condition}: {plan}");
        let given = answer(&context, &sql).await;
        assert_eq!(given, expected, "{strategy}, {condition}");
    }
}
