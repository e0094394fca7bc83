//! [`Listed`]: the matches of a set probe, as lists.

use std::sync::Arc;

use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::ranges::OrderedRows;
use crate::device::data::results::SetTally;
use crate::device::data::structures::ZonedKeys;

/// The match lists of a probe, and the build side's columns in the order of the lists.
#[derive(Debug)]
pub(crate) struct Listed {
    /// The build row at each position, if lists were made.
    pub(crate) matches: Option<OrderedRows>,
    /// Keys by position for each of the index's tests.
    pub(crate) zoned: Vec<ZonedKeys>,
    /// The program's columns by position.
    pub(crate) program: Vec<Column>,
    /// The number of matches of each build row, if only counts were asked for.
    pub(crate) indexed: Option<Arc<Buffer<u32>>>,
    pub(crate) tally: SetTally,
}
