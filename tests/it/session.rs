//! `with_bowtie`: the place of the rule among those of DataFusion, and the states that are refused.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::optimizer::Optimizer;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::*;
use datafusion_bowtie::{
    BowtieConfigExt, BowtieContextExt, BowtieOptions, BowtieRuntime, BowtieSessionExt, Offload,
};

use crate::support::snapshot::{answer, empty_session, refusal, run, session};

const OVERLAPS: &str =
    "SELECT count(*) FROM (VALUES (1), (2), (3)) r(a) JOIN (VALUES (2), (3)) s(a) ON r.a < s.a";

/// One rule, and a plan with one join, however often it was called.
async fn has_bowtie_once(context: &SessionContext) {
    context.sql("SET bowtie.device = 'host'").await.unwrap();
    let state = context.state();
    let rules = state.physical_optimizers().iter();
    assert_eq!(rules.filter(|rule| rule.name() == "bowtie").count(), 1);
    context.sql("SET bowtie.offload = 'force'").await.unwrap();
    let joins =
        format!("SELECT count(*) FROM bowtie_explain('{OVERLAPS}') WHERE decision = 'offloaded'");
    assert_eq!(answer(context, &joins).await, "1");
    assert_eq!(answer(context, OVERLAPS).await, "3");
}

#[tokio::test]
async fn with_bowtie_may_be_called_twice() {
    let runtime = BowtieRuntime::with_device_memory(64 << 20);
    let twice = SessionStateBuilder::new()
        .with_default_features()
        .with_bowtie()
        .unwrap()
        .with_bowtie_runtime(Arc::clone(&runtime))
        .unwrap();
    let context = SessionContext::new_with_state(twice.build());
    has_bowtie_once(&context).await;
    // The second runtime counts.
    assert!(runtime.device_memory().iter().any(|device| device.peak > 0));
    // A state that already has it, built upon.
    let again = SessionStateBuilder::new_from_existing(context.state())
        .with_bowtie()
        .unwrap();
    has_bowtie_once(&SessionContext::new_with_state(again.build())).await;
}

/// A context that exists keeps its tables and its id, and its clones have bowtie, too.
#[tokio::test]
async fn bowtie_in_a_context_that_exists() {
    let context = SessionContext::new();
    answer(&context, "CREATE TABLE t AS SELECT 1 AS a").await;
    let clone = context.clone();
    let id = context.session_id();
    let context = context.enable_bowtie().unwrap().enable_bowtie().unwrap();
    assert_eq!(context.session_id(), id);
    assert_eq!(answer(&context, "SELECT a FROM t").await, "1");
    has_bowtie_once(&clone).await;
    has_bowtie_once(&context).await;
    // Tables in memory have snapshots, by which an INSERT keeps what is stored of the others.
    clone.sql("SET bowtie.cache = '8MB'").await.unwrap();
    clone.sql("SET bowtie.device = 'host'").await.unwrap();
    let grouped = "SELECT a, count(*) FROM t GROUP BY a";
    let scans =
        format!("SELECT count(*) FROM bowtie_explain('{grouped}') WHERE node = 'BowtieScanExec'");
    assert_eq!(answer(&clone, &scans).await, "1");
}

/// A configuration that is set later may bring bowtie's options along.
#[tokio::test]
async fn options_of_a_configuration_that_is_set_later() {
    let options = BowtieOptions::default().with_offload(Offload::Force);
    let state = SessionStateBuilder::new()
        .with_bowtie()
        .unwrap()
        .with_config(SessionConfig::new().with_bowtie_options(options))
        .with_default_features()
        .build();
    let context = SessionContext::new_with_state(state);
    let joins = format!(
        "SELECT count(*) FROM bowtie_explain('{OVERLAPS}') WHERE node = 'BowtieJoinAggregateExec'"
    );
    assert_eq!(answer(&context, &joins).await, "1");
    has_bowtie_once(&context).await;
}

/// What cannot be offloaded is an error under `bowtie.strict`, and what `auto` leaves for good reason is none.
#[tokio::test]
async fn strict_sessions_do_not_fall_back() {
    let context = session("force").await;
    let odd = "SELECT r.a FROM r JOIN s ON arrow_cast(r.f, 'Dictionary(Int32, Float64)') = arrow_cast(s.f, 'Dictionary(Int32, Float64)')";
    let between = "SELECT s.a FROM (SELECT k, max(t) AS t FROM r GROUP BY k) x JOIN s ON x.k = s.k WHERE x.t ILIKE concat('n', x.k)";
    let by_list = "SELECT make_array(s.a) AS x FROM r JOIN s ON r.a < s.a ORDER BY x";
    let computed = "SELECT r.t ILIKE concat('n', s.k) AS x FROM r JOIN s ON r.a < s.a ORDER BY x";
    for sql in [odd, between, by_list, computed] {
        context.sql("SET bowtie.strict = false").await.unwrap();
        run(&context, sql).await.unwrap();
        context.sql("SET bowtie.strict = true").await.unwrap();
        let message = refusal(&context, sql).await;
        assert!(
            message.contains("bowtie.strict = true, and ")
                && message.contains("; SET bowtie.strict = false runs it in DataFusion"),
            "{message}"
        );
    }
    let on_host = "SELECT make_array(a) AS x FROM r ORDER BY x";
    let finished =
        "SELECT make_array(n) AS x FROM (SELECT k, stddev(f) AS n FROM r GROUP BY k) ORDER BY x";
    for sql in ["SELECT r.a FROM r JOIN s ON r.a = s.a", on_host, finished] {
        run(&context, sql).await.unwrap();
    }
    context.sql("SET bowtie.offload = 'auto'").await.unwrap();
    context.sql("SET bowtie.device = 'host'").await.unwrap();
    run(&context, odd).await.unwrap();
    run(&context, by_list).await.unwrap();
    run(&context, "SELECT a, count(*) FROM r GROUP BY a")
        .await
        .unwrap();
}

#[test]
fn a_state_without_the_rule_that_it_stands_before_is_refused() {
    let mut rules = PhysicalOptimizer::new().rules;
    rules.retain(|rule| rule.name() != "EnsureRequirements");
    let without = SessionStateBuilder::new()
        .with_default_features()
        .with_physical_optimizer_rules(rules)
        .with_bowtie();
    let message = without.expect_err("refused").to_string();
    assert!(
        message.contains(
            "bowtie's rule must run before the physical optimizer rule EnsureRequirements"
        ),
        "{message}"
    );
    let mut rules = Optimizer::new().rules;
    rules.retain(|rule| rule.name() != "simplify_expressions");
    let without = SessionStateBuilder::new()
        .with_default_features()
        .with_optimizer_rules(rules)
        .with_bowtie();
    let message = without.expect_err("refused").to_string();
    assert!(
        message.contains("must run behind the optimizer rule simplify_expressions"),
        "{message}"
    );
}

#[test]
fn the_rule_stands_before_the_one_that_ensures_requirements() {
    let state = empty_session().state();
    let names: Vec<&str> = state
        .physical_optimizers()
        .iter()
        .map(|rule| rule.name())
        .collect();
    let at = names.iter().position(|name| *name == "bowtie").unwrap();
    assert_eq!(names[at + 1], "EnsureRequirements");
    assert_eq!(names.iter().filter(|name| **name == "bowtie").count(), 1);
}

/// DataFusion's default features, added later, keep bowtie's rule and its table functions.
#[tokio::test]
async fn default_features_may_come_later() {
    let state = SessionStateBuilder::new()
        .with_bowtie()
        .unwrap()
        .with_default_features()
        .build();
    let context = SessionContext::new_with_state(state);
    let query = "SELECT * FROM (VALUES (1)) a(x) CROSS JOIN (VALUES (1)) b(y)";
    let sql = format!("SELECT node FROM bowtie_explain('{query}') WHERE decision = 'declined'");
    assert_eq!(answer(&context, &sql).await, "CrossJoinExec");
}
