//! [`IntervalPrimitives`].

use crate::device::data::buffer::{Bits, Buffer};
use crate::device::data::intervals::{
    IntervalCover, IntervalIndex, IntervalPlaces, ProbeIntervals,
};
use crate::device::data::keys::Keys;
use crate::error::Result;

/// Overlaps of intervals, counted by two searches instead of tests.
///
/// Where no interval ends before it begins, those of the build side that do not overlap a probe interval either begin
/// after its end or end before its begin, and never both. So the overlaps of a probe interval are the build intervals
/// that begin no later than it ends, less those that end before it begins: two positions in two orders. And the overlaps
/// of a build interval are the probe intervals that are placed after it in the first order, less those that are placed
/// after it in the second one.
pub(crate) trait IntervalPrimitives {
    /// The intervals `low ..= high` of the build side in both orders, within groups if there are any (the group of each
    /// row, and their number). A row without a group, or with a NULL, overlaps nothing. `None` if an interval ends
    /// before it begins.
    fn interval_index(
        &self,
        low: &Keys,
        high: &Keys,
        groups: Option<(&Buffer<u32>, u32)>,
    ) -> Result<Option<IntervalIndex>>;

    /// The places of probe intervals. `None` if one of them ends before it begins; or is a point, where both sides have
    /// points and points do not overlap.
    fn interval_places(
        &self,
        index: &IntervalIndex,
        probe: &ProbeIntervals<'_>,
    ) -> Result<Option<IntervalPlaces>>;

    /// The number of overlaps of each probe row, or `least` if it has fewer.
    fn interval_counts(&self, places: &IntervalPlaces, least: u32) -> Result<Buffer<u32>>;

    /// A cover by no probe interval.
    fn interval_cover(&self, index: &IntervalIndex) -> Result<IntervalCover>;

    /// Adds probe intervals to a cover: all, or those of rows whose bit is set in `of_rows`.
    fn add_to_cover(
        &self,
        cover: &IntervalCover,
        places: &IntervalPlaces,
        of_rows: Option<&Bits>,
    ) -> Result<()>;

    /// The number of probe intervals of a cover that overlap each build row, or `least` if fewer do. Right as long as
    /// they are fewer than 2^32.
    fn covered(
        &self,
        index: &IntervalIndex,
        cover: &IntervalCover,
        least: u32,
    ) -> Result<Buffer<u32>>;
}
