//! SQL functions on lists as sets: the size of their overlap, and their similarity. They are ordinary functions
//! everywhere. Compared with a constant in a join condition, they are recognised (`plan/recognise/set_predicate.rs`),
//! and the join becomes a set join. `text/` makes such lists of text, and signatures of them.

pub(crate) mod overlap;
#[cfg(feature = "stages")]
pub(crate) mod ranges;
pub(crate) mod set_function;
pub(crate) mod text;

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

#[cfg(feature = "stages")]
use crate::functions::ranges::{RangeOf, RangesOf};
use crate::functions::set_function::SetFunction;
use crate::functions::text::minhash::MinHash;
use crate::functions::text::shingles::Shingles;
use crate::functions::text::tokens::Tokens;
use crate::ir::set_predicate::SetValue;

/// All set functions.
pub(crate) fn set_functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    SetValue::ALL
        .into_iter()
        .map(|value| Arc::new(ScalarUDF::from(SetFunction::new(value))))
}

/// All functions that make sets of text.
pub(crate) fn text_functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    [
        ScalarUDF::from(Tokens::new()),
        ScalarUDF::from(Shingles::new()),
        ScalarUDF::from(MinHash::new()),
    ]
    .into_iter()
    .map(Arc::new)
}

/// What divides joins by ranges.
#[cfg(feature = "stages")]
pub(crate) fn range_functions() -> [Arc<ScalarUDF>; 2] {
    [
        Arc::new(ScalarUDF::from(RangeOf::new())),
        Arc::new(ScalarUDF::from(RangesOf::new())),
    ]
}
