//! SQL functions on lists as sets: the size of their overlap, and their similarity. They are ordinary functions
//! everywhere. Compared with a constant in a join condition, they are recognised (`plan/recognise/set_predicate.rs`),
//! and the join becomes a set join.

pub(crate) mod overlap;
pub(crate) mod set_function;

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

use crate::functions::set_function::{SetFunction, SetValue};

/// All set functions.
pub(crate) fn set_functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    SetValue::ALL
        .into_iter()
        .map(|value| Arc::new(ScalarUDF::from(SetFunction::new(value))))
}
