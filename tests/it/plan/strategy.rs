//! A strategy that does not suit a node gives way to another one, and EXPLAIN shows which; under `bowtie.strict` the query is refused.

use crate::support::snapshot::{answer, nodes, plan, refusal, run, session};

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

/// A join by a predicate on the lists of one table.
const SETS: &str = "SELECT x.id FROM l x JOIN l y ON ";

/// The node of DataFusion, and the strategy that stands in.
type StandIn = (&'static str, &'static str);

/// Option and strategy, the query, and what stands in; none if the strategy suits.
const OPTIONS: [(&str, &str, &str, Option<StandIn>); 15] = [
    ("group_strategy", "hash_shared", GROUPS, HASHED),
    ("group_strategy", "sort", GROUPS, HASHED),
    ("group_strategy", "sort_dict", GROUPS, HASHED),
    ("group_strategy", "hash_global", GROUPS, None),
    ("group_strategy", "partition", GROUPS, None),
    ("group_strategy", "runs", GROUPS, None),
    ("group_strategy", "sort", "SELECT sum(a) FROM r", None),
    ("set_strategy", "rarest", "array_has_any(x.v, y.v)", PREFIX),
    (
        "set_strategy",
        "rarest",
        "array_jaccard(x.v, y.v) >= 0.5",
        PREFIX,
    ),
    ("set_strategy", "rarest", "array_has_all(x.v, y.v)", None),
    ("set_strategy", "matrix", "array_has_any(x.v, y.v)", None),
    // The options of other families do not matter.
    (
        "theta_strategy",
        "range",
        "SELECT r.a FROM r JOIN s ON r.a = s.a",
        None,
    ),
    (
        "equi_join_strategy",
        "hash",
        "SELECT r.a FROM r JOIN s ON r.a <> s.a",
        None,
    ),
    (
        "theta_strategy",
        "range",
        "SELECT r.a FROM r JOIN s ON r.a <> s.a",
        Some(("NestedLoopJoinExec", "tiles")),
    ),
    (
        "theta_strategy",
        "dominance",
        "SELECT count(*) FROM r JOIN s ON r.a < s.a",
        Some(("JoinExec", "range")),
    ),
];
const GROUPS: &str = "SELECT k, sum(a) FROM r GROUP BY k";
const HASHED: Option<(&str, &str)> = Some(("AggregateExec", "hash_global"));
const PREFIX: Option<(&str, &str)> = Some(("NestedLoopJoinExec", "prefix"));

#[tokio::test]
async fn strict_sessions_refuse_a_strategy_that_does_not_suit() {
    let context = session("force").await;
    let lists = "CREATE TABLE l AS SELECT value AS id, make_array(value % 3, value % 5) AS v FROM generate_series(1, 9)";
    run(&context, lists).await.unwrap();
    for (option, strategy, query, instead) in OPTIONS {
        let sql = match query.starts_with("SELECT") {
            true => query.to_string(),
            false => format!("{SETS}{query}"),
        };
        let expected = answer(&context, &sql).await;
        let set = async |name: &str, value: &str| {
            let sql = format!("SET bowtie.{name} = '{value}'");
            run(&context, &sql).await.unwrap();
        };
        set(option, strategy).await;
        assert_eq!(answer(&context, &sql).await, expected, "{strategy}, {sql}");
        if let Some((_, instead)) = instead {
            let plan = plan(&context, &sql).await;
            let shown = [
                format!("strategy={instead},"),
                format!("strategy=set_{instead},"),
            ];
            assert!(shown.iter().any(|shown| plan.contains(shown)), "{plan}");
        }
        set("strict", "true").await;
        match instead {
            None => assert_eq!(answer(&context, &sql).await, expected, "{strategy}, {sql}"),
            Some((node, instead)) => {
                let message = refusal(&context, &sql).await;
                let begin = format!(
                    "bowtie.strict = true, and bowtie.{option} = '{strategy}' does not suit "
                );
                let end = format!(
                    "{node}: '{instead}' would stand in; SET bowtie.strict = false allows it"
                );
                let fits = message.contains(&begin) && message.contains(&end);
                assert!(fits, "{message}");
            }
        }
        set("strict", "false").await;
        set(option, "auto").await;
    }
}
