//! [`PartnerLimit`]: how many of its partners each probe row keeps, and which. A partner of a row is a row of the other side that it matches.

use std::fmt;

/// In a build side sorted by the column that decides which partners are the first, those that a probe row keeps are one range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartnerLimit {
    /// The most partners of a row; at least 1.
    pub most: u32,
    pub which: Which,
    /// Whether partners that are as good as the last one kept are kept, too, however many there are.
    pub with_ties: bool,
}

impl fmt::Display for PartnerLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let which = match self.which {
            Which::First => "first",
            Which::Last => "last",
            Which::Nearest(_) => "nearest",
        };
        write!(f, "{which} {}", self.most)?;
        match self.with_ties {
            true => f.write_str(" with ties"),
            false => Ok(()),
        }
    }
}

/// Which partners of a probe row are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// Those with the least keys.
    First,
    /// Those with the greatest keys.
    Last,
    /// Those whose keys are closest to the probe row's own; of two that are equally close the one with the lesser key.
    Nearest(Distance),
}

/// How the distance of two keys is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Distance {
    /// Keys are of integers: their difference is that of the values.
    Integers,
    /// Keys are of finite `f64`: the rounded difference of the values.
    Floats,
}
