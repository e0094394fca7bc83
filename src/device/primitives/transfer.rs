//! [`TransferPrimitives`].

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::DataType;

use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::lazy_column::Payload;
use crate::error::Result;

/// Transfers between host and device.
pub(crate) trait TransferPrimitives {
    /// Whether an upload copies columns of this type, so that concatenating their parts before would be a second copy.
    fn copies_uploads(&self, data_type: &DataType) -> bool;

    /// Uploads a column from its parts, of which there is at least one.
    fn upload(&self, parts: &[ArrayRef]) -> Result<Arc<Column>>;

    /// Whether columns of type `from` are better uploaded unchanged and cast to `to` on the device. Only for casts that
    /// neither fail nor turn a value into NULL.
    fn widens(&self, from: &DataType, to: &DataType) -> bool;

    /// As `upload`, concurrently with the current work. The column can be used after [`TransferPrimitives::receive`].
    /// Its type is `wanted`: the type of the parts, or one to which the device [widens](TransferPrimitives::widens) it.
    fn upload_async(&self, parts: &[ArrayRef], wanted: &DataType) -> Result<Arc<Column>>;

    /// A column that is only gathered for the output. Its upload may be deferred until enough of its rows are gathered.
    fn upload_lazy(&self, parts: &[ArrayRef], payload: &Arc<Payload>) -> Result<Arc<Column>>;

    /// Makes later work wait for the asynchronous upload of a column.
    fn receive(&self, column: &Column) -> Result<()>;

    /// Downloads a column.
    fn download(&self, column: &Column) -> Result<ArrayRef>;

    /// Downloads words.
    fn read(&self, words: &Buffer<u32>) -> Result<ScalarBuffer<u32>>;
}
