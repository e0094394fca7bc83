//! A forced theta strategy that cannot serve a condition is a planning error.

use crate::support::snapshot::{refusal, run, session};

/// Strategy, condition, and part of the message.
const CONTRADICTIONS: [(&str, &str, &str); 4] = [
    (
        "range",
        "r.a > s.a AND r.b < s.b",
        "it is no range of one column",
    ),
    ("range", "r.a <> s.a", "it is no range of one column"),
    (
        "dominance",
        "r.a > s.a",
        "it has fewer than two inequalities",
    ),
    (
        "dominance",
        "r.a * s.a > 3",
        "it has fewer than two inequalities",
    ),
];

#[tokio::test]
async fn a_strategy_that_cannot_serve_is_refused() {
    for (strategy, condition, why) in CONTRADICTIONS {
        let context = session("force").await;
        context
            .sql(&format!("SET bowtie.theta_strategy = '{strategy}'"))
            .await
            .unwrap();
        let sql = format!("SELECT r.a FROM r JOIN s ON {condition}");
        let message = refusal(&context, &sql).await;
        let expected = [
            &format!("bowtie.theta_strategy = '{strategy}' cannot serve "),
            why,
            "SET bowtie.theta_strategy = 'auto' or '",
        ];
        for part in expected {
            assert!(message.contains(part), "{message}\nlacks\n{part}");
        }
        // What it advises works.
        context
            .sql("SET bowtie.theta_strategy = 'auto'")
            .await
            .unwrap();
        run(&context, &sql).await.unwrap();
    }
}

/// The whole message, once.
#[tokio::test]
async fn the_text_of_a_refused_strategy() {
    let context = session("force").await;
    context
        .sql("SET bowtie.theta_strategy = 'dominance'")
        .await
        .unwrap();
    let sql = "SELECT r.a, s.a FROM r JOIN s ON r.a > s.a";
    insta::assert_snapshot!(refusal(&context, sql).await, @r"
    bowtie
    caused by
    Error during planning: bowtie.theta_strategy = 'dominance' cannot serve 'left.a > right.a': it has fewer than two inequalities; SET bowtie.theta_strategy = 'auto' or 'range'
    ");
}
