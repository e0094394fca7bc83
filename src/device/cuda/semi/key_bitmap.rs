//! Key bitmaps on a GPU (`device/data/key_bitmap.rs`, `kernels/semi/key_bits.cu`). Key columns enter; their range, the
//! set bits of the build keys, or flags of the probe rows whose bit is set leave. One integer column is read as it is.
//! Several columns, or a boolean one, are combined to one bit position per row first.

use std::sync::Arc;

use crate::device::cuda::columns::minmax::{self, Number};
use crate::device::cuda::columns::to_host;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::runtime::access::flag_words;
use crate::device::cuda::runtime::arguments::{U32, U64};
use crate::device::cuda::runtime::kernels::{self, Kernel};
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::column::Column;
use crate::device::data::key_bitmap::{Digits, Extent, KeyBitmap, KeyRange};
use crate::device::data::structures::Flags;
use crate::error::{BowtieError, Result};

/// "No bit", as in the kernels: the key is outside of the range, or a NULL that equals nothing.
const NO_BIT: u32 = u32::MAX;

/// Rows that a block of `key_bits_set*` takes, at least.
const SET_TILE: usize = 2048;

/// A key column in device memory: resident already (`Resident`), or uploaded for this call (`Uploaded`).
#[derive(Debug)]
enum Key<'a> {
    Resident(&'a Column),
    Uploaded(Column),
}

impl Key<'_> {
    fn number(&self) -> Result<Number<'_>> {
        let column = match self {
            Self::Resident(column) => column,
            Self::Uploaded(column) => column,
        };
        Number::of(column)
            .ok_or_else(|| BowtieError::Internal("values that cannot index a bitmap".into()))
    }
}

/// The keys of some rows as kernels take them.
#[derive(Debug)]
enum Keys<'a> {
    /// The values of one integer column.
    Values(Number<'a>, Digits),
    /// The bit position of each row, and the number of positions.
    Places(Memory, u32),
}

/// The key columns in device memory; those that are not resident are uploaded.
fn key_columns<'a>(device: &CudaDevice, columns: &[&'a Column]) -> Result<Vec<Key<'a>>> {
    let brought = |column: &&'a Column| {
        Ok(match column.on_cuda() {
            Some(_) => Key::Resident(column),
            None => Key::Uploaded(to_host::column_from_host(
                device,
                &to_host::column_to_host(device, column)?,
            )?),
        })
    };
    columns.iter().map(brought).collect()
}

/// The least and greatest value of each key column, by a pass over the rows.
pub(crate) fn range_of_keys(device: &CudaDevice, columns: &[&Column]) -> Result<KeyRange> {
    let rows = columns.first().map_or(0, |column| column.rows());
    if rows == 0 {
        return Ok(KeyRange(vec![Extent::NONE; columns.len()]));
    }
    let keys = key_columns(device, columns)?;
    let numbers = keys.iter().map(Key::number).collect::<Result<Vec<_>>>()?;
    minmax::extents(&device.stream, &numbers, rows).map(KeyRange)
}

/// The range of one integer column by a sample, with a margin at both ends. `None` for several columns, and where
/// all rows are no more than a few samples.
pub(crate) fn likely_range_of_keys(
    device: &CudaDevice,
    columns: &[&Column],
) -> Result<Option<KeyRange>> {
    let [column] = columns else { return Ok(None) };
    let number = Number::of(column).filter(|number| number.sign.is_some());
    let Some(number) = number else {
        return Ok(None);
    };
    let extents = minmax::sampled_extents(&device.stream, &[number], column.rows())?;
    let Some([extent]) = extents.as_deref() else {
        return Ok(None);
    };
    let likely = extent.with_margin(number.greatest());
    Ok(Some(KeyRange(vec![likely])))
}

/// Sets the bit of each row's key. If `asked`, and the key is one integer column, it returns the range of the keys
/// outside of the bitmap.
pub(crate) fn set_bits_of_keys(
    device: &CudaDevice,
    bits: &KeyBitmap,
    columns: &[&Column],
    asked: bool,
) -> Result<Option<KeyRange>> {
    let rows = columns.first().map_or(0, |column| column.rows());
    if rows == 0 {
        return Ok(None);
    }
    let stream = &device.stream;
    let keys = key_columns(device, columns)?;
    let keys = kernel_keys(stream, bits, &keys, rows)?;
    let extents = match (asked, &keys) {
        (true, Keys::Values(..)) => Some(minmax::no_extents(stream, 1)?),
        _ => None,
    };
    let kernel = keys.kernel([
        kernels::KEY_BITS_SET8,
        kernels::KEY_BITS_SET16,
        kernels::KEY_BITS_SET32,
        kernels::KEY_BITS_SET64,
    ])?;
    let (values, valid, n, sign, least, count, null) = keys.args(rows);
    let bits = flag_words(&bits.bits)?.into();
    let extent = extents.as_ref().into();
    let args = (values, valid, n, sign, least, count, null, bits, extent);
    let shape = stream.at_once(kernel, rows, SET_TILE)?;
    // SAFETY: keys hold as many values of the kernel's width as there are rows, in whole vectors, and as many valid
    // bits; bit positions are below the number of bits; an extent is two words.
    unsafe { stream.launch(kernel, shape, &args)? };
    let found = extents.map(|extents| minmax::read_extents(stream, &extents, 1));
    Ok(found.transpose()?.map(KeyRange))
}

/// Sets the flag of each row `first + i` whose key has a bit. An error if the flags have no word for these rows.
pub(crate) fn flag_keys_found(
    device: &CudaDevice,
    bits: &KeyBitmap,
    columns: &[&Column],
    flags: &Flags,
    first: usize,
) -> Result<()> {
    let rows = columns.first().map_or(0, |column| column.rows());
    if rows == 0 {
        return Ok(());
    }
    let flags = flag_words(flags)?;
    if !first.is_multiple_of(32) || (first + rows).div_ceil(32) * 4 > flags.bytes() {
        return Err(BowtieError::Internal("flags of other rows".into()));
    }
    let keys = key_columns(device, columns)?;
    let keys = kernel_keys(&device.stream, bits, &keys, rows)?;
    let kernel = keys.kernel([
        kernels::KEY_BITS_TEST8,
        kernels::KEY_BITS_TEST16,
        kernels::KEY_BITS_TEST32,
        kernels::KEY_BITS_TEST64,
    ])?;
    let (values, valid, n, sign, least, count, null) = keys.args(rows);
    let bits = flag_words(&bits.bits)?.into();
    let flags = flags.part(first / 8)?.into();
    let args = (values, valid, n, sign, least, count, null, bits, flags);
    // SAFETY: as for setting them; there is a word of flags for each 32 rows from `first` on, as was just checked.
    unsafe { device.stream.launch(kernel, Shape::rows(rows), &args) }
}

impl Keys<'_> {
    /// The kernel for these keys among those for values of 8, 16, 32 and 64 bits; positions have 32.
    fn kernel<A>(&self, of: [Kernel<A>; 4]) -> Result<Kernel<A>> {
        match self {
            Self::Values(number, _) => number.kernel(of),
            Self::Places(..) => Ok(of[2]),
        }
    }

    /// A kernel's first arguments: values, validity, rows, sign, least, count, and the digit of a NULL.
    fn args(&self, rows: usize) -> (U64, U64, U32, U64, U64, U32, U32) {
        match self {
            Self::Values(number, digits) => (
                (&number.values.values).into(),
                number.values.valid.as_ref().into(),
                (rows as u32).into(),
                number.sign.unwrap_or_default().into(),
                digits.least.into(),
                digits.values.into(),
                digits.null.unwrap_or(NO_BIT).into(),
            ),
            Self::Places(places, count) => (
                places.into(),
                U64::ZERO,
                (rows as u32).into(),
                U64::ZERO,
                U64::ZERO,
                (*count).into(),
                NO_BIT.into(),
            ),
        }
    }
}

/// The keys of `rows` > 0 rows as kernels take them; the positions of several columns are computed here.
fn kernel_keys<'a>(
    stream: &Arc<Stream>,
    bits: &KeyBitmap,
    columns: &'a [Key<'_>],
    rows: usize,
) -> Result<Keys<'a>> {
    let mut numbers = vec![];
    for (key, digits) in columns.iter().zip(bits.digits(columns.len())?) {
        numbers.push((key.number()?, *digits));
    }
    if let [(number, digits)] = numbers[..]
        && number.sign.is_some()
    {
        return Ok(Keys::Values(number, digits));
    }
    let places = places(stream, &numbers, rows)?;
    Ok(Keys::Places(places, bits.places.count as u32))
}

/// The bit position of the key of each of `rows` rows, [`NO_BIT`] if it has none.
pub(crate) fn places(
    stream: &Arc<Stream>,
    numbers: &[(Number<'_>, Digits)],
    rows: usize,
) -> Result<Memory> {
    let places = stream.alloc(rows * 4, "bit numbers of keys")?;
    for (i, (number, digits)) in numbers.iter().enumerate() {
        let values = (&number.values.values).into();
        let valid = number.values.valid.as_ref().into();
        let (n, out) = ((rows as u32).into(), (&places).into());
        let null = digits.null.unwrap_or(NO_BIT).into();
        let (stride, add) = (digits.stride.into(), u32::from(i > 0).into());
        let Some(sign) = number.sign else {
            let args = (values, valid, n, null, stride, add, out);
            // SAFETY: a column holds as many bits as there are rows, and as many valid bits; `places` holds a word
            // per row.
            unsafe { stream.launch(kernels::KEY_BITS_PLACES_BOOL, Shape::rows(rows), &args)? };
            continue;
        };
        let kernel = number.kernel([
            kernels::KEY_BITS_PLACES8,
            kernels::KEY_BITS_PLACES16,
            kernels::KEY_BITS_PLACES32,
            kernels::KEY_BITS_PLACES64,
        ])?;
        let (sign, least, count) = (sign.into(), digits.least.into(), digits.values.into());
        let args = (values, valid, n, sign, least, count, null, stride, add, out);
        // SAFETY: the same, with values of the kernel's width.
        unsafe { stream.launch(kernel, Shape::rows(rows), &args)? };
    }
    Ok(places)
}
