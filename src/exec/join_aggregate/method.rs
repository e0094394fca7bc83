//! [`FoldMethod`]: how the aggregates of a tile are computed.

use crate::ir::side::Side;

/// How the aggregates of a tile are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoldMethod {
    /// Weights of the rows of this side.
    Weighed(Side),
    /// Folds over the ranges of the grouped side's rows.
    Folded,
    Pairs,
}
