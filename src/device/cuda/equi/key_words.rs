//! The key columns of an equi-join enter, one word per row leaves, as the join kernels read it. Words are equal where
//! the key columns are.
//!
//! | key columns | the word |
//! |---|---|
//! | one of 4 or 8 bytes, not a float | its value |
//! | others that fit into one word of 64 bits (`keys/pack.rs`) | the packed values |
//! | anything else | the id of its group among the build rows (`keys/group_ids.rs`), which compares whole keys |

use std::sync::Arc;

use arrow::datatypes::DataType;

use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::layout::{bitmap_bytes, width};
use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::transfer;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::keys::group_ids::{self, key_values};
use crate::device::cuda::keys::key_column;
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::keys::pack::{self, Layout};
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::key_bitmap::are_addresses;
use crate::device::data::structures::GroupDomain;
use crate::device::primitives::aggregate::AggregatePrimitives;
use crate::error::{BowtieError, Result};
use crate::ir::fold::Fold;
use crate::ir::strategies::Grouping;

/// The encoding of build keys as words, by which probe keys are encoded later.
#[derive(Debug)]
pub(crate) enum KeyEncoding {
    /// The values of one column of this type.
    Values(DataType),
    /// Several columns, or NULLs, packed into 64 bits.
    Words(Layout),
    /// Group ids of 32 bits.
    Groups(GroupDomain),
}

/// The key words of one side.
#[derive(Debug)]
pub(crate) struct EquiKeys<'a> {
    words: Words<'a>,
    /// Validity bits: a row without its bit cannot match. `None`: all rows can.
    valid: Option<Valid<'a>>,
    /// Width of a word.
    pub(crate) width: Width,
    pub(crate) rows: usize,
}

/// The words, borrowed from a column or owned.
#[derive(Debug)]
enum Words<'a> {
    Borrowed(&'a Memory),
    Computed(Memory),
    Ids(Buffer<u32>),
}

/// The validity bits, borrowed from a column or owned.
#[derive(Debug)]
enum Valid<'a> {
    Borrowed(&'a Memory),
    Computed(Memory),
}

impl EquiKeys<'_> {
    /// The words in device memory, one per row.
    pub(crate) fn words(&self) -> Result<Part<'_>> {
        Ok(match &self.words {
            Words::Borrowed(words) => Part::from(*words),
            Words::Computed(words) => words.into(),
            Words::Ids(ids) => memory(ids)?.into(),
        })
    }

    /// The validity bits, one per row; `None` if all rows can match.
    pub(crate) fn valid(&self) -> Option<&Memory> {
        match self.valid.as_ref()? {
            Valid::Borrowed(valid) => Some(valid),
            Valid::Computed(valid) => Some(valid),
        }
    }
}

/// The range of key words `least .. least + count`, of which each is an address of a direct table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addresses {
    pub least: u64,
    pub count: u64,
}

/// The values of a single key column, if they are the words. They are not if NULLs are equal and the column has some,
/// nor if they are floats.
/// Whether the values of the key columns are key words as they are.
pub(crate) fn are_values(columns: &[&Column], null_equal: bool) -> bool {
    value_keys(columns, null_equal).is_some()
}

fn value_keys<'a>(columns: &[&'a Column], null_equal: bool) -> Option<(&'a Values, Width)> {
    let [column] = columns else {
        return None;
    };
    let values = column.on_cuda()?;
    let key_width = match width(&values.data_type)? {
        4 => Width::Four,
        8 => Width::Eight,
        _ => return None,
    };
    let nulls_match = null_equal && values.valid.is_some();
    (!nulls_match && !values.data_type.is_floating()).then_some((values, key_width))
}

/// The words of the build keys, and the encoding for the probe keys.
pub(crate) fn equi_keys<'a>(
    device: &CudaDevice,
    base: &[&'a Column],
    null_equal: bool,
) -> Result<(EquiKeys<'a>, KeyEncoding)> {
    let rows = base.first().map_or(0, |column| column.rows());
    if let Some((values, key_width)) = value_keys(base, null_equal) {
        let keying = KeyEncoding::Values(values.data_type.clone());
        return Ok((of_values(values, key_width, rows), keying));
    }
    let keys = group_ids::base_keys(device, base, null_equal)?;
    if !keys.uses_fallback() {
        let columns = keys.values()?;
        let layout = Layout::of(&columns, null_equal);
        if layout.words() == 1 {
            let tuples = pack::pack(&device.stream, &layout, &columns, rows)?;
            let valid = match null_equal {
                true => None,
                false => {
                    let bitmaps = columns.iter().filter_map(|c| c.valid);
                    group_ids::all_valid(&device.stream, bitmaps, rows, None)?
                }
            };
            let keys = EquiKeys {
                words: Words::Computed(tuples.into_words()),
                valid: valid.map(Valid::Computed),
                width: Width::Eight,
                rows,
            };
            return Ok((keys, KeyEncoding::Words(layout)));
        }
    }
    drop(keys);
    equi_groups(device, base, null_equal)
}

/// The same with group ids as words, which are dense.
pub(crate) fn equi_groups(
    device: &CudaDevice,
    base: &[&Column],
    null_equal: bool,
) -> Result<(EquiKeys<'static>, KeyEncoding)> {
    let (ids, domain) = group_ids::groups(device, base, null_equal)?;
    Ok((of_ids(device, ids)?, KeyEncoding::Groups(domain)))
}

/// Group ids as words; a row in no group cannot match.
fn of_ids(device: &CudaDevice, ids: Buffer<u32>) -> Result<EquiKeys<'static>> {
    let rows = ids.len();
    let valid = rows::bits_of_groups(&device.stream, memory(&ids)?, rows)?;
    Ok(EquiKeys {
        words: Words::Ids(ids),
        valid: Some(Valid::Computed(valid)),
        width: Width::Four,
        rows,
    })
}

/// The words of the probe keys, in the encoding of the build keys. An error if the column types differ.
pub(crate) fn equi_keys_in<'a>(
    device: &CudaDevice,
    keying: &KeyEncoding,
    columns: &[&'a Column],
) -> Result<EquiKeys<'a>> {
    let rows = columns.first().map_or(0, |column| column.rows());
    match keying {
        KeyEncoding::Values(data_type) => match value_keys(columns, false) {
            Some((values, key_width)) if values.data_type == *data_type => {
                Ok(of_values(values, key_width, rows))
            }
            _ => Err(BowtieError::Internal(
                "key columns of different types".into(),
            )),
        },
        KeyEncoding::Words(layout) => {
            let keys = columns
                .iter()
                .map(|column| {
                    key_column::key_column(device, column)?
                        .ok_or_else(|| BowtieError::Internal("a key column of another type".into()))
                })
                .collect::<Result<Vec<_>>>()?;
            let words = vec![0; keys.len()];
            let columns = key_values(None, &keys, &words)?;
            if !layout.fits(&columns) {
                return Err(BowtieError::Internal(
                    "key columns of different types".into(),
                ));
            }
            let tuples = pack::pack(&device.stream, layout, &columns, rows)?;
            let valid = group_ids::all_valid(
                &device.stream,
                layout.unmatched_validity(&columns),
                rows,
                None,
            )?;
            Ok(EquiKeys {
                words: Words::Computed(tuples.into_words()),
                valid: valid.map(Valid::Computed),
                width: Width::Eight,
                rows,
            })
        }
        KeyEncoding::Groups(domain) => {
            of_ids(device, group_ids::groups_in(device, domain, columns)?)
        }
    }
}

/// The range from the least to the greatest build key. `None` if words have no order as integers, or if there is no
/// key. A range of values costs a pass over the keys.
pub(crate) fn addresses(
    device: &CudaDevice,
    base: &[&Column],
    keying: &KeyEncoding,
) -> Result<Option<Addresses>> {
    let data_type = match keying {
        KeyEncoding::Groups(domain) => {
            return Ok(Some(Addresses {
                least: 0,
                count: u64::from(domain.groups),
            }));
        }
        KeyEncoding::Values(data_type) if are_addresses(data_type) => data_type,
        _ => return Ok(None),
    };
    let rows = base[0].rows();
    let folds = [(Fold::Min, Some(base[0])), (Fold::Max, Some(base[0]))];
    let extremes = device.aggregate(rows, &[], &folds, Grouping::AUTO)?;
    let mut words = vec![];
    for column in &extremes.states {
        let array = transfer::download(column)?;
        if array.is_empty() || array.is_null(0) {
            return Ok(None);
        }
        let data = array.to_data();
        let bytes = &data.buffers()[0].as_slice()[data.offset() * width(data_type).unwrap_or(0)..];
        words.push(word(bytes, data_type));
    }
    let (least, greatest) = (words[0], words[1]);
    Ok(u64::try_from(greatest - least).ok().map(|span| Addresses {
        least: least as u64,
        count: span.saturating_add(1),
    }))
}

/// The values of a column as words.
fn of_values(values: &Values, key_width: Width, rows: usize) -> EquiKeys<'_> {
    EquiKeys {
        words: Words::Borrowed(&values.values),
        valid: values.valid.as_ref().map(Valid::Borrowed),
        width: key_width,
        rows,
    }
}

/// The value of an integer of 4 or 8 bytes, signed or not.
fn word(bytes: &[u8], data_type: &DataType) -> i128 {
    let unsigned = data_type.is_unsigned_integer();
    match width(data_type) {
        Some(4) => {
            let bits = u32::from_le_bytes(bytes[..4].try_into().unwrap_or_default());
            match unsigned {
                true => bits.into(),
                false => (bits as i32).into(),
            }
        }
        _ => {
            let bits = u64::from_le_bytes(bytes[..8].try_into().unwrap_or_default());
            match unsigned {
                true => bits.into(),
                false => (bits as i64).into(),
            }
        }
    }
}

/// The row ids and words of the rows that can match, compacted. `None` if all rows can match, so that the words are
/// used as they are.
pub(crate) fn kept_keys(
    stream: &Arc<Stream>,
    keys: &EquiKeys<'_>,
) -> Result<Option<(Buffer<u32>, Memory)>> {
    let Some(valid) = keys.valid() else {
        return Ok(None);
    };
    debug_assert!(bitmap_bytes(keys.rows) <= valid.bytes().next_multiple_of(32));
    let rows = rows::select(stream, valid, keys.rows, None)?;
    let words = rows::gather_values(
        stream,
        keys.words()?,
        memory(&rows)?,
        rows.len(),
        keys.width.bytes(),
    )?;
    Ok(Some((rows, words)))
}
