//! [`FoldMethod`]: how an aggregate of a tile is computed.

use crate::ir::side::Side;

/// How an aggregate of a tile is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoldMethod {
    /// Values of the rows of this side, weighted by match counts.
    Weighed(Side),
    /// Folds over the matches of the rows of this side, by ranges.
    Folded(Side),
    /// Arguments of expanded matches.
    Pairs,
}
