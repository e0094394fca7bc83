//! Intervals of one side by both of their ends, and how many intervals of the other side overlap them.

use crate::device::data::buffer::Buffer;
use crate::device::data::keys::Keys;
use crate::device::data::opaque::Opaque;
use crate::ir::comparison::Comparison;

/// The intervals of the build side, ordered by their low ends and, apart from that, by their high ends.
#[derive(Debug)]
pub(crate) struct IntervalIndex {
    /// Rows of the build side, including those that can match nothing.
    pub(crate) rows: usize,
    /// Whether each interval's low end is below its high end, and none is a point.
    pub(crate) without_points: bool,
    pub(crate) orders: Opaque,
}

/// The intervals of the probe side, and when one of them overlaps one of the build side: `build.low OP probe.high` and
/// `build.high OP probe.low`. Keys of both sides are natural.
#[derive(Debug)]
pub(crate) struct ProbeIntervals<'a> {
    pub(crate) low: &'a Keys,
    pub(crate) high: &'a Keys,
    /// The group of each row among those of the build side; `None` without equalities.
    pub(crate) groups: Option<&'a Buffer<u32>>,
    /// `<` or `<=`.
    pub(crate) low_op: Comparison,
    /// `>` or `>=`.
    pub(crate) high_op: Comparison,
}

impl ProbeIntervals<'_> {
    /// Whether a point of one side does not overlap the same point of the other one.
    pub(crate) fn excludes_points(&self) -> bool {
        self.low_op == Comparison::Lt && self.high_op == Comparison::Gt
    }
}

/// Where the intervals of a probe chunk are in both orders of an [`IntervalIndex`].
#[derive(Debug)]
pub(crate) struct IntervalPlaces {
    /// Rows of the probe chunk.
    pub(crate) rows: usize,
    pub(crate) places: Opaque,
}

/// For each interval of an [`IntervalIndex`], how many probe intervals overlap it so far.
#[derive(Debug)]
pub(crate) struct IntervalCover(pub(crate) Opaque);
