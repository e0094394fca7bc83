//! [`Fold`]: what is accumulated over the rows of a group.

/// How the values of a group become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Fold {
    /// Rows, or values that are not NULL: an Int64, never NULL. The others are NULL where no value is not.
    Count,
    /// Wrapping, in the values' own type.
    Sum,
    Min,
    Max,
    And,
    Or,
    Xor,
    /// Of floats.
    Mean,
    /// The sum of the squared deviations of floats from their mean.
    SquaredDeviations,
}
