//! Where bowtie's rules stand among DataFusion's, which are known by their names.

use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion::optimizer::OptimizerRule;
use datafusion::physical_optimizer::PhysicalOptimizerRule;

/// The physical rule that plans exchanges and sorts. Before it a plan has one Partial aggregate below its Final one, and no exchange.
pub(crate) const REQUIREMENTS: &str = "EnsureRequirements";

/// The logical rule that simplifies expressions.
pub(crate) const SIMPLIFICATION: &str = "simplify_expressions";

/// The logical rule that moves filters into joins.
pub(crate) const FILTER_PUSHDOWN: &str = "push_down_filter";

/// The place among `rules` of a physical rule of bowtie, which plans no exchanges.
///
/// # Errors
/// Without the rule that plans exchanges.
pub(crate) fn before_requirements(
    rules: &[Arc<dyn PhysicalOptimizerRule + Send + Sync>],
) -> Result<usize> {
    let place = rules.iter().position(|known| known.name() == REQUIREMENTS);
    place.ok_or_else(|| {
        DataFusionError::Configuration(format!(
            "bowtie's rule must run before the physical optimizer rule {REQUIREMENTS}, which is missing from this session: keep DataFusion's \
             default rules, or put that rule back before with_bowtie"
        ))
    })
}

/// The place among `rules` of a logical rule of bowtie: directly behind the rule `anchor` of DataFusion.
///
/// # Errors
/// Without that rule.
pub(crate) fn behind(
    anchor: &str,
    rules: &[Arc<dyn OptimizerRule + Send + Sync>],
) -> Result<usize> {
    let place = rules.iter().position(|known| known.name() == anchor);
    place.map(|place| place + 1).ok_or_else(|| {
        DataFusionError::Configuration(format!(
            "a rule of bowtie must run behind the optimizer rule {anchor}, which is missing from this session: keep DataFusion's default rules, \
             or put that rule back before with_bowtie"
        ))
    })
}

#[cfg(test)]
mod tests {
    use datafusion::optimizer::Optimizer;
    use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

    use super::*;

    #[test]
    fn the_anchors_are_rules_of_datafusion() {
        let physical = PhysicalOptimizer::default();
        let place = before_requirements(&physical.rules).expect(
            "DataFusion has renamed the rule that plans exchanges: find the new name, and read whether aggregates are still Partial and Final \
             before it",
        );
        let behind_it: Vec<&str> = physical.rules[place..].iter().map(|r| r.name()).collect();
        assert!(
            behind_it.contains(&"LimitPushdown") && behind_it.contains(&"SanityCheckPlan"),
            "the rules behind the exchanges have changed: compare them with repeated_rules.rs: {behind_it:?}"
        );
        let logical = Optimizer::default();
        let simplified = behind(SIMPLIFICATION, &logical.rules);
        let filtered = behind(FILTER_PUSHDOWN, &logical.rules);
        let (Ok(simplified), Ok(filtered)) = (simplified, filtered) else {
            panic!("DataFusion has renamed a logical rule: find the new name");
        };
        assert!(
            simplified < filtered,
            "filters are moved before expressions are simplified: see whether LATERAL with a limit is still found (plan/partners/lateral.rs)"
        );
    }

    #[test]
    fn a_missing_anchor_is_named() {
        let error = before_requirements(&[]).unwrap_err().to_string();
        let expected = "must run before the physical optimizer rule EnsureRequirements";
        assert!(error.contains(expected), "{error}");
        let error = behind(SIMPLIFICATION, &[]).unwrap_err().to_string();
        let expected = "must run behind the optimizer rule simplify_expressions";
        assert!(error.contains(expected), "{error}");
    }
}
