//! [`ReadColumns`]: what was read of files for a piece.

use arrow::array::ArrayRef;
use datafusion::execution::memory_pool::MemoryReservation;

/// The values of some columns of a piece, which its files were read for; reserved in DataFusion's memory pool.
#[derive(Debug, Default)]
pub(crate) struct ReadColumns {
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "files"))]
    pub columns: Vec<Option<Vec<ArrayRef>>>,
    #[expect(dead_code, reason = "held until the values are uploaded")]
    pub reservations: Vec<MemoryReservation>,
}
