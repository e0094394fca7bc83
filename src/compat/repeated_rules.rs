//! DataFusion's rules behind bowtie's, for plans that bowtie offloads outside of a session's planning: on a worker, or where a node's own plan
//! runs. They are those of [`PhysicalOptimizer`](datafusion::physical_optimizer::optimizer::PhysicalOptimizer) behind
//! [`REQUIREMENTS`](crate::compat::rule_places::REQUIREMENTS) that such a plan needs.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_plan::ExecutionPlan;

type Plan = Arc<dyn ExecutionPlan>;

/// Plans the exchanges and sorts that nodes require.
pub(crate) fn with_requirements(plan: Plan, config: &ConfigOptions) -> Result<Plan> {
    EnsureRequirements::new().optimize(plan, config)
}

/// Also projections and limits as far down as they can be.
#[cfg(feature = "codec")]
pub(crate) fn with_requirements_and_limits(plan: Plan, config: &ConfigOptions) -> Result<Plan> {
    use datafusion::physical_optimizer::limit_pushdown::LimitPushdown;
    use datafusion::physical_optimizer::projection_pushdown::ProjectionPushdown;

    let plan = with_requirements(plan, config)?;
    let plan = ProjectionPushdown::new().optimize(plan, config)?;
    LimitPushdown::new().optimize(plan, config)
}

/// Also the filters that a running query makes, and DataFusion's last check.
pub(crate) fn with_requirements_and_filters(plan: Plan, config: &ConfigOptions) -> Result<Plan> {
    let plan = with_requirements(plan, config)?;
    let plan = FilterPushdown::new_post_optimization().optimize(plan, config)?;
    SanityCheckPlan::new().optimize(plan, config)
}

#[cfg(test)]
mod tests {
    use datafusion::physical_optimizer::limit_pushdown::LimitPushdown;
    use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
    use datafusion::physical_optimizer::projection_pushdown::ProjectionPushdown;

    use super::*;
    use crate::compat::rule_places::before_requirements;

    #[test]
    fn these_rules_stand_behind_the_exchanges_in_this_order() {
        let all = PhysicalOptimizer::default();
        let from = before_requirements(&all.rules).unwrap();
        let names: Vec<&str> = all.rules[from..].iter().map(|rule| rule.name()).collect();
        let place = |rule: &dyn PhysicalOptimizerRule| {
            let place = names.iter().position(|name| *name == rule.name());
            place.unwrap_or_else(|| {
                panic!(
                    "DataFusion no longer has {} behind the exchanges: {names:?}",
                    rule.name()
                )
            })
        };
        let requirements = place(&EnsureRequirements::new());
        let limits = place(&LimitPushdown::new());
        let projections = place(&ProjectionPushdown::new());
        let filters = place(&FilterPushdown::new_post_optimization());
        let check = place(&SanityCheckPlan::new());
        assert!(
            requirements < projections
                && requirements < limits
                && limits < filters
                && filters < check,
            "DataFusion has another order of rules behind the exchanges: follow it here: {names:?}"
        );
    }
}
