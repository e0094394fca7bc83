//! The six comparisons of two columns.

use std::fmt;

/// `left OP right`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Comparison {
    Lt,
    LtEq,
    Gt,
    GtEq,
    Eq,
    NotEq,
}

impl Comparison {
    /// The equivalent comparison with exchanged sides: `a < b` is `b > a`.
    pub(crate) fn swap(self) -> Self {
        match self {
            Self::Lt => Self::Gt,
            Self::LtEq => Self::GtEq,
            Self::Gt => Self::Lt,
            Self::GtEq => Self::LtEq,
            Self::Eq | Self::NotEq => self,
        }
    }

    /// Whether the matches of `column OP value` are one range of the sorted column.
    pub(crate) fn is_range(self) -> bool {
        self != Self::NotEq
    }

    /// Whether it is `<`, `<=`, `>` or `>=`.
    pub(crate) fn is_inequality(self) -> bool {
        !matches!(self, Self::Eq | Self::NotEq)
    }

    /// Whether `left OP right` holds for two order keys.
    #[inline(always)]
    pub(crate) fn holds(self, left: u64, right: u64) -> bool {
        match self {
            Self::Lt => left < right,
            Self::LtEq => left <= right,
            Self::Gt => left > right,
            Self::GtEq => left >= right,
            Self::Eq => left == right,
            Self::NotEq => left != right,
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lt => "<",
            Self::LtEq => "<=",
            Self::Gt => ">",
            Self::GtEq => ">=",
            Self::Eq => "=",
            Self::NotEq => "<>",
        })
    }
}
