//! [`TransferPrimitives`].

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::DataType;

use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::encoding::EncodedArrays;
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

    /// Whether columns of this type are read in the device's own memory, so that it pays to keep them there.
    fn keeps(&self, data_type: &DataType) -> bool;

    /// The parts of a column as codes, which take less memory; `None` if codes would be no narrower than the values, or the device has no codes of the
    /// type.
    fn encode(&self, parts: &[ArrayRef]) -> Result<Option<EncodedArrays>>;

    /// As `upload`, for a column of a type that the device [keeps](TransferPrimitives::keeps), which outlives the query: it does not keep the
    /// arrays alive. Other handles may use it after [`TransferPrimitives::settle`].
    fn upload_kept(&self, parts: &[ArrayRef]) -> Result<Column>;

    /// Waits for all uploads of this handle: their columns are complete for all handles of the device when this returns.
    fn settle(&self) -> Result<()>;

    /// The same columns, which another handle of the device owns, for work of this one. When the last of them is dropped, the owner frees
    /// them after the work that was submitted until then.
    fn borrow(&self, columns: Vec<Arc<Column>>) -> Result<Vec<Arc<Column>>>;

    /// Whether a column on a device keeps buffers of text in host memory alive, which its rows may be a small part of: views without their bytes.
    fn keeps_text_on_host(&self, column: &Column) -> bool;

    /// Makes later work wait for the asynchronous upload of a column.
    fn receive(&self, column: &Column) -> Result<()>;

    /// Downloads a column.
    fn download(&self, column: &Column) -> Result<ArrayRef>;

    /// Downloads words.
    fn read(&self, words: &Buffer<u32>) -> Result<ScalarBuffer<u32>>;
}
