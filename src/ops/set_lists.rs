//! [`Listed`]: the matches of a set probe, as lists.

use std::sync::Arc;

use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::ranges::OrderedRows;
use crate::device::data::results::SetTally;
use crate::device::data::structures::ZonedKeys;

/// The lists of a search, and the sorted side's columns along them.
#[derive(Debug)]
pub(crate) struct Listed {
    /// A row of the sorted side at each position, where lists were made.
    pub(crate) matches: Option<OrderedRows>,
    /// Keys for each of the index's tests.
    pub(crate) zoned: Vec<ZonedKeys>,
    /// The program's columns.
    pub(crate) program: Vec<Column>,
    /// Matches of each row of the sorted side, where these alone were counted.
    pub(crate) indexed: Option<Arc<Buffer<u32>>>,
    pub(crate) tally: SetTally,
}
