//! A rule cannot fail a query: where it fails, the plan stays DataFusion's, the failure is counted, and `bowtie_explain` says so.

use datafusion_bowtie::FailingRule;

use crate::support::session::{Rule, device, session_by, set};
use crate::support::snapshot::{answer, run};

/// Of each rule a query that it rewrites, and a word of the plan that it makes.
const RULES: [(&str, Rule, &str); 4] = [
    (
        "bowtie",
        Rule::Early,
        "SELECT count(*) FROM t JOIN t AS u ON t.a < u.a",
    ),
    (
        "bowtie_stages",
        Rule::Stages,
        "SELECT count(*) FROM t JOIN t AS u ON t.a < u.a",
    ),
    (
        "bowtie_split_disjunctions",
        Rule::Early,
        "SELECT count(*) FROM t JOIN t AS u ON t.a = u.b OR t.b = u.a",
    ),
    (
        "bowtie_project_set_values",
        Rule::Early,
        "SELECT max(array_jaccard(t.l, u.l)) FROM t JOIN t AS u ON array_jaccard(t.l, u.l) >= 0.5 GROUP BY t.a",
    ),
];

async fn failures(context: &datafusion::prelude::SessionContext) -> i64 {
    let sql = "SELECT value FROM bowtie_stats() WHERE counter = 'planning_errors'";
    answer(context, sql).await.parse().unwrap()
}

#[tokio::test]
async fn a_rule_that_fails_leaves_the_query_to_datafusion() {
    for (rule, by, sql) in RULES {
        let context = session_by(by);
        let table = "CREATE TABLE t AS SELECT value AS a, value % 7 AS b, make_array(value % 5, value % 3) AS l FROM generate_series(1, 60)";
        run(&context, table).await.unwrap();
        set(&context, "bowtie.offload", "off");
        let stock = answer(&context, sql).await;
        set(&context, "bowtie.offload", "force");
        let offloaded = answer(&context, &format!("EXPLAIN {sql}")).await;
        assert!(offloaded.contains("Bowtie"), "{rule}: {offloaded}");
        assert_eq!(answer(&context, sql).await, stock, "{rule}");

        let before = failures(&context).await;
        let failing = FailingRule::named(rule);
        assert_eq!(answer(&context, sql).await, stock, "{rule}");
        let plan = answer(&context, &format!("EXPLAIN {sql}")).await;
        // The other rules go on.
        let is_left = !plan.contains("Bowtie") || plan != offloaded;
        assert!(is_left, "{rule}: {plan}");
        if rule == "bowtie" {
            let quoted = sql.replace('\'', "''");
            let told = answer(
                &context,
                &format!("SELECT * FROM bowtie_explain('{quoted}')"),
            )
            .await;
            assert!(
                told.contains("planning failed: Internal error: bowtie failed on purpose"),
                "{told}"
            );
            // An option that cannot be had is no failure.
            set(&context, "bowtie.device", "cuda:4000");
            drop(failing);
            let error = run(&context, sql).await.unwrap_err().to_string();
            assert!(error.contains("bowtie.device = 'cuda:4000'"), "{error}");
            set(&context, "bowtie.device", &device());
        } else {
            drop(failing);
        }
        assert!(failures(&context).await > before, "{rule}");
        assert_eq!(
            answer(&context, &format!("EXPLAIN {sql}")).await,
            offloaded,
            "{rule}"
        );
    }
}
