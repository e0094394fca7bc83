//! What the optimizer rule does not change.

use std::sync::Arc;

use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::SessionContext;

#[cfg(feature = "parquet")]
use crate::support::session::set;
#[cfg(feature = "parquet")]
use crate::support::snapshot::run;
use crate::support::snapshot::{physical, plan, session, stock_session};

const QUERIES: [&str; 6] = [
    "SELECT r.a, s.a FROM r JOIN s ON r.a > s.a AND r.b < s.b",
    "SELECT r.a, count(*) FROM r JOIN s ON r.a > s.a GROUP BY r.a",
    "SELECT r.a, s.a FROM r FULL JOIN s ON r.k = s.k AND r.a > s.a ORDER BY 1 LIMIT 3",
    "SELECT r.a FROM r CROSS JOIN s",
    "SELECT r.a FROM r WHERE r.b NOT IN (SELECT b FROM s)",
    "SELECT x.a FROM r x JOIN s y ON x.a > y.a JOIN r z ON y.a > z.a AND x.b < z.b",
];

fn rule(context: &SessionContext) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
    let state = context.state();
    let rules = state.physical_optimizers();
    let rule = rules.iter().find(|rule| rule.name() == "bowtie");
    Arc::clone(rule.expect("the session has bowtie's rule"))
}

fn text(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(true).to_string()
}

#[tokio::test]
async fn offload_off_gives_the_plans_of_datafusion() {
    let (stock, off) = (stock_session().await, session("off").await);
    for sql in QUERIES {
        let expected = plan(&stock, sql).await;
        assert!(!expected.contains("Bowtie"));
        assert_eq!(plan(&off, sql).await, expected, "{sql}");
    }
}

/// The same plan object comes back: nothing is even rebuilt.
#[tokio::test]
async fn offload_off_returns_the_plan_itself() {
    let off = session("off").await;
    let rule = rule(&off);
    for sql in QUERIES {
        let plan = physical(&off, sql).await.unwrap();
        let after = rule
            .optimize(Arc::clone(&plan), off.state().config_options())
            .unwrap();
        assert!(Arc::ptr_eq(&plan, &after), "{sql}");
    }
}

/// In `auto` joins of few rows are declined, and the plan is DataFusion's.
#[tokio::test]
async fn what_auto_declines_has_the_plan_of_datafusion() {
    let (stock, auto) = (stock_session().await, session("auto").await);
    // The last one joins the output of a join, whose cardinality is not known.
    for sql in &QUERIES[..QUERIES.len() - 1] {
        assert_eq!(plan(&auto, sql).await, plan(&stock, sql).await, "{sql}");
    }
}

#[tokio::test]
async fn running_the_rule_again_changes_nothing() {
    let force = session("force").await;
    let rule = rule(&force);
    let mut offloaded = 0;
    for sql in QUERIES {
        let once = physical(&force, sql).await.unwrap();
        let twice = rule
            .optimize(Arc::clone(&once), force.state().config_options())
            .unwrap();
        assert_eq!(text(&once), text(&twice), "{sql}");
        offloaded += usize::from(text(&once).contains("Bowtie"));
    }
    assert_eq!(offloaded, QUERIES.len());
}

/// All rules again, on an optimised plan: it must still pass every check.
#[tokio::test]
async fn running_all_rules_again_leaves_a_valid_plan() {
    let force = session("force").await;
    let state = force.state();
    for sql in QUERIES {
        let mut plan = physical(&force, sql).await.unwrap();
        let before = text(&plan).matches("Bowtie").count();
        for rule in state.physical_optimizers() {
            plan = rule
                .optimize(plan, state.config_options())
                .unwrap_or_else(|e| panic!("{} on {sql}: {e}", rule.name()));
        }
        assert_eq!(text(&plan).matches("Bowtie").count(), before, "{sql}");
    }
}

/// The nodes keep their schema when their children are replaced by themselves.
#[tokio::test]
async fn nodes_are_rebuilt_with_their_children() {
    let force = session("force").await;
    for sql in QUERIES {
        let plan = physical(&force, sql).await.unwrap();
        let rebuilt = rebuild(&plan);
        assert_eq!(text(&plan), text(&rebuilt), "{sql}");
        assert_eq!(plan.schema(), rebuilt.schema(), "{sql}");
    }
}

fn rebuild(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let children = plan.children().into_iter().map(rebuild).collect();
    Arc::clone(plan)
        .replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
        .unwrap()
}

/// The probe side of a hash join expects the dynamic filter that its join makes.
#[cfg(feature = "parquet")]
#[tokio::test]
async fn a_join_that_makes_a_dynamic_filter_stays() {
    let folder = tempfile::tempdir().unwrap();
    let force = session("force").await;
    let rule = rule(&force);
    for table in ["r", "s"] {
        let path = folder.path().join(format!("{table}.parquet"));
        let path = path.display();
        for sql in [
            format!("COPY {table} TO '{path}' STORED AS PARQUET"),
            format!("CREATE EXTERNAL TABLE f{table} STORED AS PARQUET LOCATION '{path}'"),
        ] {
            run(&force, &sql).await.unwrap();
        }
    }
    for (has_filter, stays) in [("true", true), ("false", false)] {
        let option = "datafusion.optimizer.enable_dynamic_filter_pushdown";
        for sql in [
            "SET bowtie.offload = 'off'".to_string(),
            format!("SET {option} = {has_filter}"),
        ] {
            run(&force, &sql).await.unwrap();
        }
        let sql = "SELECT fr.a, fs.b FROM fr JOIN fs ON fr.k = fs.k";
        let planned = physical(&force, sql).await.unwrap();
        assert!(
            text(&planned).contains("HashJoinExec"),
            "{}",
            text(&planned)
        );
        assert_eq!(
            text(&planned).contains("DynamicFilter"),
            stays,
            "{}",
            text(&planned)
        );
        set(&force, "bowtie.offload", "force");
        let after = rule
            .optimize(planned, force.state().config_options())
            .unwrap();
        assert_eq!(
            !text(&after).contains("BowtieJoinExec"),
            stays,
            "{}",
            text(&after)
        );
    }
}
