//! [`Number`]: columns that kernels read as integers (numbers, dates, times, decimals of up to 64 bits, Booleans); and
//! their least and greatest values.

use std::sync::Arc;

use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::layout::width;
use crate::device::cuda::columns::storage::Storage;
use crate::device::cuda::runtime::kernels::{self, Kernel};
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::column::Column;
use crate::device::data::key_bitmap::Extent;
use crate::error::{BowtieError, Result};
use crate::ir::physical_type::TypeRow;

/// Rows per step of a block of `group_range_extent*`.
const EXTENT_TILE: usize = 2048;
/// Tiles of a sample: about one for each multiprocessor of a large card.
const SAMPLED_TILES: usize = 128;
/// A sample has at most one in this number of rows: otherwise a pass over all rows takes no longer.
const LEAST_SHARE: usize = 4;
/// Bytes of an extent: two words.
const EXTENT_BYTES: usize = 16;

/// A column that kernels read as integers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number<'a> {
    pub(crate) values: &'a Values,
    /// The sign bit of signed types, 0 of unsigned types; `None` for Booleans.
    pub(crate) sign: Option<u64>,
}

impl<'a> Number<'a> {
    /// `None` for other types, and for columns that are not of fixed width in device memory.
    pub(crate) fn of(column: &'a Column) -> Option<Self> {
        let Some(Storage::Fixed(values)) = column.stored() else {
            return None;
        };
        let row = TypeRow::of(&values.data_type);
        let sign = row.stored.sign_bit();
        row.is_integer.then_some(Self { values, sign })
    }

    /// The greatest word that a value of this width can have, in the order of the values.
    pub(crate) fn greatest(self) -> u64 {
        let bytes = width(&self.values.data_type).unwrap_or(8).clamp(1, 8);
        u64::MAX >> (64 - 8 * bytes)
    }

    /// Whether values become ids by subtraction of the least value.
    pub(crate) fn is_id(self) -> bool {
        let bytes = width(&self.values.data_type);
        bytes == Some(4) && self.values.valid.is_none() && self.sign.is_some()
    }

    /// The bits of the value of an order-preserving word. Differences of values wrap, so signs do not matter.
    pub(crate) fn value_of(self, word: u64) -> u32 {
        (word ^ self.sign.unwrap_or_default()) as u32
    }

    /// The kernel for values of 1, 2, 4 or 8 bytes.
    pub(crate) fn kernel<A>(self, of: [Kernel<A>; 4]) -> Result<Kernel<A>> {
        match width(&self.values.data_type) {
            Some(1) => Ok(of[0]),
            Some(2) => Ok(of[1]),
            Some(4) => Ok(of[2]),
            Some(8) => Ok(of[3]),
            _ => Err(BowtieError::Internal("a number of no width".into())),
        }
    }
}

/// The least and the greatest of the values that are not NULL, of `rows` > 0 rows.
pub(crate) fn extents(
    stream: &Arc<Stream>,
    numbers: &[Number<'_>],
    rows: usize,
) -> Result<Vec<Extent>> {
    extents_of(stream, numbers, rows, 1)
}

/// The same for a sample that includes the first and the last rows; `None` where all rows are only a few times the
/// sample.
pub(crate) fn sampled_extents(
    stream: &Arc<Stream>,
    numbers: &[Number<'_>],
    rows: usize,
) -> Result<Option<Vec<Extent>>> {
    let every = rows / EXTENT_TILE / SAMPLED_TILES;
    match every >= LEAST_SHARE {
        true => extents_of(stream, numbers, rows, every).map(Some),
        false => Ok(None),
    }
}

/// Extents of every `every`th tile, and of the last.
fn extents_of(
    stream: &Arc<Stream>,
    numbers: &[Number<'_>],
    rows: usize,
    every: usize,
) -> Result<Vec<Extent>> {
    let extents = no_extents(stream, numbers.len())?;
    for (i, number) in numbers.iter().enumerate() {
        let Some(sign) = number.sign else { continue };
        let kernel = number.kernel([
            kernels::GROUP_RANGE_EXTENT8,
            kernels::GROUP_RANGE_EXTENT16,
            kernels::GROUP_RANGE_EXTENT32,
            kernels::GROUP_RANGE_EXTENT64,
        ])?;
        let args = (
            (&number.values.values).into(),
            number.values.valid.as_ref().into(),
            (rows as u32).into(),
            sign.into(),
            (every as u32).into(),
            extents.part(i * EXTENT_BYTES)?.into(),
        );
        let shape = stream.at_once(kernel, rows.div_ceil(every), EXTENT_TILE)?;
        // SAFETY: a column holds a value of the kernel's width for each row, in whole vectors, and a bit for each
        // row; its extent is two words.
        unsafe { stream.launch(kernel, shape, &args)? };
    }
    let found = read_extents(stream, &extents, numbers.len())?;
    let extents = numbers.iter().zip(found);
    let extents = extents.map(|(number, found)| match number.sign {
        None => Extent {
            least: 0,
            greatest: 1,
        },
        Some(_) => found,
    });
    Ok(extents.collect())
}

/// Memory for `extents` extents, each of no value yet.
pub(crate) fn no_extents(stream: &Arc<Stream>, extents: usize) -> Result<Memory> {
    let unknown = [Extent::NONE.least, Extent::NONE.greatest];
    stream.upload_words(&unknown.repeat(extents), "key ranges")
}

/// Downloads extents.
pub(crate) fn read_extents(
    stream: &Stream,
    memory: &Memory,
    extents: usize,
) -> Result<Vec<Extent>> {
    let mut bytes = vec![0; extents * EXTENT_BYTES];
    stream.read_few(&mut bytes, memory, 0)?;
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    let extents = bytes.chunks_exact(EXTENT_BYTES).map(|both| Extent {
        least: word(&both[..8]),
        greatest: word(&both[8..]),
    });
    Ok(extents.collect())
}
