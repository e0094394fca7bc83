//! [`TransferPrimitives`].

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::DataType;

use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::lazy_column::Payload;
use crate::error::Result;

/// Host to device and back.
pub(crate) trait TransferPrimitives {
    /// Whether uploading copies columns of a type, so that nothing is gained by copying their parts together before.
    fn copies_uploads(&self, data_type: &DataType) -> bool;

    /// Host → device: a column from its parts, of which there is at least one.
    fn upload(&self, parts: &[ArrayRef]) -> Result<Arc<Column>>;

    /// Whether columns of type `from` had better be uploaded as they are and cast to `to` on the device. Only casts that
    /// neither fail nor make a NULL of a value are.
    fn widens(&self, from: &DataType, to: &DataType) -> bool;

    /// The same as `upload` for work to come, beside the work at hand: the column can be used once [`TransferPrimitives::receive`] was
    /// called for it. Its type is `wanted`: that of the parts, or one to which the device [widens](TransferPrimitives::widens) it.
    fn upload_async(&self, parts: &[ArrayRef], wanted: &DataType) -> Result<Arc<Column>>;

    /// A column of which rows are only gathered for the output: it may stay where it is until so many of them are that its
    /// upload pays.
    fn upload_lazy(&self, parts: &[ArrayRef], payload: &Arc<Payload>) -> Result<Arc<Column>>;

    /// What is done from now on sees a column that was uploaded ahead.
    fn receive(&self, column: &Column) -> Result<()>;

    /// Device → host.
    fn download(&self, column: &Column) -> Result<ArrayRef>;

    /// Device → host.
    fn read(&self, words: &Buffer<u32>) -> Result<ScalarBuffer<u32>>;
}
