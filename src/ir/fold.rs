//! [`Fold`]: how the values of a group are aggregated. [`RangeFold`]: how those of a row's matches are.

/// A partial aggregate of the values of a group that are not NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Fold {
    /// The number of rows, or of values that are not NULL: an Int64, never NULL. All other folds are NULL if all values
    /// are.
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

impl Fold {
    /// The fold that merges states of this one.
    pub(crate) fn of_states(self) -> Self {
        match self {
            Self::Count => Self::Sum,
            same => same,
        }
    }
}

/// A partial aggregate of the values of a row's matches that are not NULL, as [`Fold`] has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum RangeFold {
    Count,
    Sum,
    Min,
    Max,
}
