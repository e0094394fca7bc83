//! [`address`]: plan nodes known by their addresses, while the plan is held.

use std::sync::Arc;

use crate::plan::choose::candidates::Plan;

/// The address of a node, by which it is known while its plan is looked at.
pub(crate) fn address(plan: &Plan) -> usize {
    Arc::as_ptr(plan).cast::<()>() as usize
}
