//! [`address`]: plan nodes known by their addresses, while the plan is held.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

/// The address of a node, by which it is known while its plan is looked at.
pub(crate) fn address(plan: &Plan) -> usize {
    Arc::as_ptr(plan).cast::<()>() as usize
}

pub(crate) type Plan = Arc<dyn ExecutionPlan>;
