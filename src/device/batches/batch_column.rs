//! [`BatchColumn`]: a column of a batch, as values or as codes.

use std::sync::Arc;

use arrow::array::ArrayRef;

use crate::device::batches::encoded_column::EncodedColumn;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::decode_array::decode_array;
use crate::device::data::encoding::Encoding;
use crate::device::primitives::device::Device;
use crate::error::Result;

/// A column of a batch. What only moves rows moves the codes of an encoded column in place of its values.
#[derive(Debug, Clone)]
pub(crate) enum BatchColumn {
    Values(Arc<Column>),
    Encoded(Arc<EncodedColumn>),
}

impl From<Arc<Column>> for BatchColumn {
    fn from(values: Arc<Column>) -> Self {
        Self::Values(values)
    }
}

impl From<Column> for BatchColumn {
    fn from(values: Column) -> Self {
        Self::Values(Arc::new(values))
    }
}

impl BatchColumn {
    /// Its values; those of codes are made at the first call.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub(crate) fn values(&self) -> Result<&Arc<Column>> {
        match self {
            Self::Values(values) => Ok(values),
            Self::Encoded(encoded) => encoded.values(),
        }
    }

    /// What its codes stand for; `None` for values.
    pub(crate) fn encoding(&self) -> Option<&Encoding> {
        match self {
            Self::Values(_) => None,
            Self::Encoded(encoded) => Some(&encoded.encoding),
        }
    }

    /// What moves with the rows: values or codes.
    pub(crate) fn moved(&self) -> &Column {
        match self {
            Self::Values(values) => values,
            Self::Encoded(encoded) => &encoded.codes,
        }
    }

    /// The column of other rows: what [`BatchColumn::moved`] gave, moved.
    pub(crate) fn of_moved(&self, moved: Column) -> Self {
        let moved = Arc::new(moved);
        match self {
            Self::Values(_) => Self::Values(moved),
            Self::Encoded(encoded) => Self::Encoded(Arc::new(encoded.with_codes(moved))),
        }
    }

    /// Row `i` of the result is row `rows[i]`.
    pub(crate) fn gather(&self, device: &dyn Device, rows: &Buffer<u32>) -> Result<Self> {
        Ok(self.of_moved(device.gather(self.moved(), rows)?))
    }

    /// Concatenates at least one part; all have one type.
    pub(crate) fn concat(device: &dyn Device, parts: &[&Self]) -> Result<Self> {
        if let [Self::Encoded(first), others @ ..] = parts {
            let is_same = |part: &&Self| match part {
                Self::Encoded(part) => part.encoding.is_same_as(&first.encoding),
                Self::Values(_) => false,
            };
            if others.iter().all(is_same) {
                let codes: Vec<&Column> = parts.iter().map(|part| part.moved()).collect();
                let codes = Arc::new(device.concat(&codes)?);
                let encodings = parts.iter().filter_map(|part| part.encoding());
                let encoding = encodings.fold(first.encoding.clone(), |all, of| all.with(of));
                return Ok(Self::Encoded(Arc::new(first.recoded(codes, encoding))));
            }
        }
        let values = parts.iter().map(|part| Ok(part.values()?.as_ref()));
        let values = values.collect::<Result<Vec<&Column>>>()?;
        Ok(device.concat(&values)?.into())
    }

    /// The values on the host of other rows: of what [`BatchColumn::moved`] gave, moved.
    pub(crate) fn download_moved(&self, device: &dyn Device, moved: &Column) -> Result<ArrayRef> {
        let moved = device.download(moved)?;
        match self {
            Self::Values(_) => Ok(moved),
            Self::Encoded(encoded) => decode_array(&moved, &encoded.encoding.values),
        }
    }

    /// The values on the host.
    pub(crate) fn download(&self, device: &dyn Device) -> Result<ArrayRef> {
        match self {
            Self::Values(values) => device.download(values),
            Self::Encoded(encoded) => encoded.download(),
        }
    }

    /// The bytes of its values on the device.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Values(values) => values.bytes(),
            Self::Encoded(encoded) => encoded.bytes(),
        }
    }
}
