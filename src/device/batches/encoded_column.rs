//! [`EncodedColumn`]: codes on a device that stand for values.

use std::sync::{Arc, OnceLock};

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use crate::device::data::block_extents::BlockExtents;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::decode_array::decode_array;
use crate::device::data::encoding::{CodedValues, Encoding};
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::ir::program::{Instruction, Kind, Op};
use crate::ir::row_program::{RowProgram, RowSource};

/// Codes on a device, and the values that were made of them for readers that need values.
#[derive(Debug)]
pub(crate) struct EncodedColumn {
    pub(crate) codes: Arc<Column>,
    pub(crate) encoding: Encoding,
    /// Of a stored column as it is.
    pub(crate) blocks: Option<Arc<BlockExtents>>,
    /// The handle whose stream the codes are read on.
    device: Arc<dyn Device>,
    values: OnceLock<Arc<Column>>,
}

impl EncodedColumn {
    pub(crate) fn new(codes: Arc<Column>, encoding: Encoding, device: Arc<dyn Device>) -> Self {
        Self {
            codes,
            encoding,
            blocks: None,
            device,
            values: OnceLock::new(),
        }
    }

    /// The same column, whose blocks have these extents.
    pub(crate) fn with_blocks(self, blocks: Option<Arc<BlockExtents>>) -> Self {
        Self { blocks, ..self }
    }

    /// The same encoding of other codes.
    pub(crate) fn with_codes(&self, codes: Arc<Column>) -> Self {
        self.recoded(codes, self.encoding.clone())
    }

    /// Other codes of another encoding on the same device.
    pub(crate) fn recoded(&self, codes: Arc<Column>, encoding: Encoding) -> Self {
        Self::new(codes, encoding, Arc::clone(&self.device))
    }

    /// The values, which the device makes at the first call.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub(crate) fn values(&self) -> Result<&Arc<Column>> {
        if let Some(values) = self.values.get() {
            return Ok(values);
        }
        let values = match &self.encoding.values {
            CodedValues::Offset { data_type, least } => self.decoded(data_type, *least)?,
            CodedValues::Dictionary(dictionary) => self
                .device
                .gather(&dictionary.on_device, &self.numbers()?)?,
        };
        Ok(self.values.get_or_init(|| Arc::new(values)))
    }

    /// The codes as row ids.
    pub(crate) fn numbers(&self) -> Result<Buffer<u32>> {
        self.decoded(&DataType::UInt32, 0)?.into_row_ids()
    }

    /// Downloads the codes, and makes the values on the host.
    pub(crate) fn download(&self) -> Result<ArrayRef> {
        if let Some(values) = self.values.get() {
            return self.device.download(values);
        }
        decode_array(&self.device.download(&self.codes)?, &self.encoding.values)
    }

    /// Bytes of its values.
    pub(crate) fn bytes(&self) -> u64 {
        match self.values.get() {
            Some(values) => values.bytes(),
            None => self.encoding.value_bytes() * self.codes.rows() as u64,
        }
    }

    /// The codes plus `least`, as `data_type`.
    fn decoded(&self, data_type: &DataType, least: i128) -> Result<Column> {
        let program = decoding(self.encoding.code, data_type, least)?;
        let made = self
            .device
            .map(self.codes.rows(), &program, &[&self.codes])?;
        let made = made.into_iter().next();
        made.ok_or_else(|| BowtieError::Internal("a program without its output".into()))
    }
}

/// A program that turns codes of one column into values.
fn decoding(code: Kind, data_type: &DataType, least: i128) -> Result<RowProgram> {
    let kind = Kind::of(data_type)
        .ok_or_else(|| BowtieError::Internal(format!("{data_type} has no codes")))?;
    let load = Instruction {
        constant: least,
        from: code,
        ..Instruction::of(Op::Load, kind, [0; 3])
    };
    let store = Instruction::of(Op::Store, kind, [0; 3]);
    Ok(RowProgram {
        instructions: vec![load, store],
        columns: vec![RowSource::Column(0)],
        outputs: vec![data_type.clone()],
    })
}
