//! [`KeptColumn`]: a column in the form in which it is stored.

use std::sync::Arc;

use crate::device::data::block_extents::BlockExtents;
use crate::device::data::column::Column;
use crate::device::data::encoding::{CodedValues, Encoding};
use crate::device::primitives::device::Device;
use crate::error::Result;
use crate::store::shelf::Shelved;

/// A column in the form in which it is stored: values, or codes with their encoding.
#[derive(Debug, Clone)]
pub(crate) struct KeptColumn {
    pub(crate) column: Arc<Column>,
    pub(crate) encoding: Option<Encoding>,
    /// Of codes.
    pub(crate) blocks: Option<Arc<BlockExtents>>,
}

impl Shelved for KeptColumn {
    fn bytes(&self) -> u64 {
        self.column.bytes()
    }

    fn is_used(&self) -> bool {
        Arc::strong_count(&self.column) > 1
    }
}

impl KeptColumn {
    /// The column of a dictionary's values.
    fn values(&self) -> Option<&Arc<Column>> {
        match &self.encoding.as_ref()?.values {
            CodedValues::Dictionary(dictionary) => Some(&dictionary.on_device),
            CodedValues::Offset { .. } => None,
        }
    }

    /// These columns, for work of the handle `on`.
    pub(crate) fn borrow(on: &dyn Device, columns: Vec<Self>) -> Result<Vec<Self>> {
        let values = columns.iter().filter_map(Self::values);
        let all = columns.iter().map(|kept| &kept.column).chain(values);
        let mut borrowed = on.borrow(all.cloned().collect())?;
        let mut values = borrowed.split_off(columns.len()).into_iter();
        let columns = columns.into_iter().zip(borrowed);
        let columns = columns.map(|(mut kept, column)| {
            if let Some(Encoding {
                values: CodedValues::Dictionary(dictionary),
                ..
            }) = &mut kept.encoding
                && let Some(values) = values.next()
            {
                dictionary.on_device = values;
            }
            Self { column, ..kept }
        });
        Ok(columns.collect())
    }
}
