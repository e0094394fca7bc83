//! `with_bowtie`: the place of the rule among those of DataFusion, and the states that are refused.

use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::*;
use datafusion_bowtie::BowtieSessionExt;

use crate::support::snapshot::{answer, empty_session};

#[test]
fn bowtie_twice_is_refused() {
    let twice = SessionStateBuilder::new()
        .with_default_features()
        .with_bowtie()
        .unwrap()
        .with_bowtie();
    let message = twice.expect_err("refused").to_string();
    assert!(
        message.contains("with_bowtie was called twice"),
        "{message}"
    );
}

/// A state that already has bowtie, built upon.
#[test]
fn bowtie_on_a_state_that_has_it_is_refused() {
    let again = SessionStateBuilder::new_from_existing(empty_session().state()).with_bowtie();
    assert!(again.is_err());
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
        message.contains("before the physical optimizer rule EnsureRequirements"),
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
    let sql = format!("SELECT decision FROM bowtie_explain('{query}')");
    assert_eq!(answer(&context, &sql).await, "declined");
}
