//! Each node of a plan is recognised once: its specs and programs are made once, whoever reads them.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::displayable;
use datafusion::physical_plan::filter::FilterExec;

use crate::plan::calls::{self, Maker};
use crate::plan::choose::policy::tests::{H200, session};
use crate::plan::rule::BowtieRule;
use crate::plan::sources::aggregate_source::group_source;
use crate::plan::sources::join_nodes::join_source;
use crate::runtime::session_devices::SessionDevices;

fn count(plan: &Arc<dyn ExecutionPlan>, is: fn(&Arc<dyn ExecutionPlan>) -> bool) -> usize {
    let mut found = 0;
    plan.apply(|node| {
        found += usize::from(is(node));
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    found
}

/// Joins, aggregations with and without a join below, filters and projections above and below them.
const QUERIES: [&str; 6] = [
    "SELECT s.k, r.x, s.y FROM r JOIN s ON r.k = s.k",
    "SELECT r.x, sum(s.y) AS n FROM r JOIN s ON r.k = s.k GROUP BY r.x",
    "SELECT few.z, sum(s.y) AS n FROM few JOIN s ON few.k = s.k GROUP BY few.z",
    "SELECT r.x, t.y, s.y AS z FROM r JOIN s ON r.k = s.k JOIN s t ON t.k = s.k WHERE r.x + s.y > t.y",
    "SELECT few.z, count(*) FROM few JOIN r ON few.k < r.k AND few.z > r.x GROUP BY few.z",
    "SELECT j.z, few.k FROM (SELECT r.k, r.x * 2 AS z, s.y FROM r JOIN s ON r.k = s.k WHERE s.y % 3 < r.x) j \
     JOIN few ON j.k = few.k",
];

#[tokio::test]
async fn specs_and_programs_are_made_once() {
    let context = session(H200);
    let set = async |option: &str| {
        let set = context.sql(&format!("SET {option}")).await;
        set.unwrap().collect().await.unwrap();
    };
    set("datafusion.execution.target_partitions = 1").await;
    // A join that produces one already is not recognised.
    set("datafusion.optimizer.enable_dynamic_filter_pushdown = false").await;
    let devices = || Arc::new(SessionDevices::default());
    for sql in QUERIES {
        set("bowtie.offload = 'off'").await;
        let plan = context.sql(sql).await.unwrap();
        let plan = plan.create_physical_plan().await.unwrap();
        let joins = count(&plan, |node| join_source(node).is_some());
        let aggregates = count(&plan, |node| group_source(node).is_some());
        let filters = count(&plan, |node| node.is::<FilterExec>());
        assert!(joins > 0, "{sql}");
        for (offload, rule) in [
            ("auto", BowtieRule::new(devices()).deciding_for(H200)),
            ("force", BowtieRule::new(devices())),
            ("auto", BowtieRule::new(devices())),
        ] {
            set(&format!("bowtie.offload = '{offload}'")).await;
            calls::take();
            let state = context.state();
            let rewritten = rule.optimize(Arc::clone(&plan), state.config_options());
            let calls: BTreeMap<Maker, usize> = calls::take();
            let of = |maker| calls.get(&maker).copied().unwrap_or_default();
            let shown = displayable(rewritten.unwrap().as_ref())
                .indent(true)
                .to_string();
            let told = format!("{sql}\n{offload}: {calls:?}\n{shown}");
            assert_eq!(of(Maker::JoinSpec), joins, "{told}");
            assert!(of(Maker::GroupSpec) <= aggregates, "{told}");
            assert!(of(Maker::FusedSpec) <= aggregates, "{told}");
            assert!(of(Maker::ResidentSpec) <= aggregates, "{told}");
            // A projection has a program if it computes something: at most one of these queries' does.
            assert!(of(Maker::RowProgram) <= filters + 1, "{told}");
        }
    }
}
