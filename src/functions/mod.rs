//! SQL functions of sets: how many elements two lists share, and how alike they are. Anywhere they are ordinary functions; compared
//! with a constant in a join's condition they are recognised (`plan/recognise/set_predicate.rs`), and the join is served as a set join.

pub(crate) mod overlap;
pub(crate) mod set_function;

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

use crate::functions::set_function::{SetFunction, SetValue};

/// All of them.
pub(crate) fn set_functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    SetValue::ALL
        .into_iter()
        .map(|value| Arc::new(ScalarUDF::from(SetFunction::new(value))))
}
