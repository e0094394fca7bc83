//! Rows: gather of values and bitmaps, selection by bitmaps, and match flags (`kernels/columns/rows.cu`).

use std::sync::Arc;

use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::layout::MOST_BYTES;
use crate::device::cuda::columns::layout::{bitmap_bytes, width};
use crate::device::cuda::columns::scan::{self, EXCLUSIVE_U32};
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::{Bits, Buffer};
use crate::device::data::column::Column;
use crate::error::{BowtieError, Result};

/// `values[rows[i]]`.
pub(crate) fn gather(stream: &Arc<Stream>, values: &Values, rows: &Buffer<u32>) -> Result<Column> {
    let ids = memory(rows)?;
    let n = rows.len();
    let gathered = match width(&values.data_type) {
        Some(0) => gather_bits(stream, &values.values, ids, n)?,
        Some(width) => gather_values(stream, &values.values, ids, n, width)?,
        None => return Err(BowtieError::Internal("a column without a width".into())),
    };
    let valid = match &values.valid {
        Some(valid) => Some(gather_bits(stream, valid, ids, n)?),
        None => None,
    };
    let values = Values {
        data_type: values.data_type.clone(),
        values: gathered,
        valid,
        original: None,
        made: Some(stream.mark()?),
    };
    Ok(Column::cuda(values, n))
}

/// Gathers `n` values of `width` bytes.
pub(crate) fn gather_values<'a>(
    stream: &Arc<Stream>,
    values: impl Into<Part<'a>>,
    rows: &Memory,
    n: usize,
    width: usize,
) -> Result<Memory> {
    let out = stream.alloc(n * width, "output columns")?;
    gather_into(stream, values.into(), rows, out.part(0)?, n, width)?;
    Ok(out)
}

/// The same into `out`, which holds `n` values.
pub(crate) fn gather_into(
    stream: &Stream,
    values: Part<'_>,
    rows: &Memory,
    out: Part<'_>,
    n: usize,
    width: usize,
) -> Result<()> {
    let kernel = match width {
        1 => kernels::ROWS_GATHER8,
        2 => kernels::ROWS_GATHER16,
        4 => kernels::ROWS_GATHER32,
        8 => kernels::ROWS_GATHER64,
        16 => kernels::ROWS_GATHER128,
        32 => kernels::ROWS_GATHER256,
        _ => return gather_units(stream, values, rows, out, n, width),
    };
    let args = (values.into(), rows.into(), out.into(), (n as u32).into());
    let shape = match width {
        // Two threads for each value.
        32 => Shape::rows(2 * n),
        _ => Shape::rows(n),
    };
    // SAFETY: row ids are below the rows of `values`, as every row id of a chunk is; `out` holds n values.
    unsafe { stream.launch(kernel, shape, &args) }
}

/// Values of any width, in units of the largest power of two, up to 16 bytes, that divides the width.
fn gather_units(
    stream: &Stream,
    values: Part<'_>,
    rows: &Memory,
    out: Part<'_>,
    n: usize,
    width: usize,
) -> Result<()> {
    let (unit, kernel) = match width.trailing_zeros() {
        0 => (1, kernels::TEXT_GATHER_UNITS8),
        1 => (2, kernels::TEXT_GATHER_UNITS16),
        2 => (4, kernels::TEXT_GATHER_UNITS32),
        3 => (8, kernels::TEXT_GATHER_UNITS64),
        _ => (16, kernels::TEXT_GATHER_UNITS128),
    };
    let (of_value, of_all) = (width / unit, n * width / unit);
    if n > 1 && n * width > MOST_BYTES {
        return Err(BowtieError::MustSplit {
            what: "column of an output batch",
            size: (n * width) as u64,
            most: MOST_BYTES as u64,
            unit: "bytes",
        });
    }
    let args = (
        values.into(),
        (of_value as u32).into(),
        rows.into(),
        out.into(),
        (of_all as u32).into(),
    );
    // SAFETY: row ids are below the rows of `values`; `out` holds n values of `of_value` units; both are aligned as
    // allocations are.
    unsafe { stream.launch(kernel, Shape::rows(of_all), &args) }
}

/// Gathers `n` bits.
pub(crate) fn gather_bits(
    stream: &Arc<Stream>,
    bits: &Memory,
    rows: &Memory,
    n: usize,
) -> Result<Memory> {
    let out = stream.alloc(bitmap_bytes(n), "validity")?;
    let args = (bits.into(), rows.into(), (&out).into(), (n as u32).into());
    // SAFETY: row ids are below the bits of `bits`; `out` holds n bits.
    unsafe { stream.launch(kernels::ROWS_GATHER_BITS, Shape::rows(n), &args)? };
    Ok(out)
}

/// The row ids `from .. from + len`.
pub(crate) fn sequence(stream: &Arc<Stream>, from: u32, len: usize) -> Result<Buffer<u32>> {
    let out = stream.alloc(len * 4, "row ids")?;
    let args = (from.into(), (&out).into(), (len as u32).into());
    // SAFETY: `out` holds len words.
    unsafe { stream.launch(kernels::ROWS_SEQUENCE, Shape::rows(len), &args)? };
    Ok(Buffer::cuda(out, len))
}

/// The row ids of no row.
pub(crate) fn no_rows(stream: &Arc<Stream>) -> Result<Buffer<u32>> {
    Ok(Buffer::cuda(stream.alloc(0, "row ids")?, 0))
}

/// A sample of `samples` row ids of `rows` > 0 rows, in runs of `run` neighbours that are evenly distributed; `run`
/// divides `samples`.
pub(crate) fn runs_of_rows(
    stream: &Arc<Stream>,
    rows: usize,
    (samples, run): (usize, usize),
) -> Result<Buffer<u32>> {
    let runs = (samples / run) as u64;
    let ids = (0..samples as u64).map(|i| {
        let begin = i / run as u64 * rows as u64 / runs;
        (begin + i % run as u64).min(rows as u64 - 1) as u32
    });
    let ids: Vec<u8> = ids.flat_map(u32::to_le_bytes).collect();
    Ok(Buffer::cuda(stream.send(&ids, "a sample")?, samples))
}

/// The conjunction of two bitmaps of `n` rows.
pub(crate) fn bits_and(stream: &Arc<Stream>, a: &Memory, b: &Memory, n: usize) -> Result<Memory> {
    let out = stream.alloc(bitmap_bytes(n), "validity")?;
    let words = n.div_ceil(32);
    let args = (a.into(), b.into(), (&out).into(), (words as u32).into());
    // SAFETY: all three hold n bits in whole words.
    unsafe { stream.launch(kernels::ROWS_BITS_AND, Shape::rows(words), &args)? };
    Ok(out)
}

/// A bitmap of the rows that are in a group.
pub(crate) fn bits_of_groups(stream: &Arc<Stream>, groups: &Memory, n: usize) -> Result<Memory> {
    let out = stream.alloc(bitmap_bytes(n), "validity")?;
    let args = (groups.into(), (n as u32).into(), (&out).into());
    // SAFETY: `groups` holds n words, `out` n bits.
    unsafe { stream.launch(kernels::ROWS_BITS_OF_GROUPS, Shape::rows(n), &args)? };
    Ok(out)
}

/// Bits `from .. from + len`, inverted or not.
pub(crate) fn bits_slice(
    stream: &Arc<Stream>,
    bits: &Memory,
    from: usize,
    len: usize,
    invert: bool,
) -> Result<Memory> {
    if (from + len).div_ceil(32) * 4 > bits.bytes() {
        return Err(BowtieError::Internal("bits past the end".into()));
    }
    let out = stream.alloc(bitmap_bytes(len), "flags")?;
    let args = (
        bits.into(),
        (from as u32).into(),
        (len as u32).into(),
        u32::from(invert).into(),
        (&out).into(),
    );
    let words = len.div_ceil(32);
    // SAFETY: `bits` holds from + len bits, as was just checked, `out` len bits.
    unsafe { stream.launch(kernels::ROWS_BITS_SLICE, Shape::rows(words), &args)? };
    Ok(out)
}

/// Sets flags `first + rows[i]`.
pub(crate) fn set_flags(
    stream: &Stream,
    flags: &Memory,
    first: usize,
    rows: &Buffer<u32>,
) -> Result<()> {
    let ids = memory(rows)?;
    let n = rows.len();
    let args = (
        flags.into(),
        (first as u32).into(),
        ids.into(),
        (n as u32).into(),
    );
    // SAFETY: flags were made for all rows of the chunk that `first` and the row ids count.
    unsafe { stream.launch(kernels::ROWS_SET_FLAGS, Shape::rows(n), &args) }
}

/// Sets flag `first + i` where `counts[i]` is not 0.
pub(crate) fn set_flags_counted(
    stream: &Stream,
    flags: &Memory,
    first: usize,
    counts: &Buffer<u32>,
) -> Result<()> {
    let words = memory(counts)?;
    let n = counts.len();
    let args = (
        flags.into(),
        (first as u32).into(),
        words.into(),
        (n as u32).into(),
    );
    // SAFETY: flags were made for all rows of the chunk, of which the counted ones begin at `first`.
    unsafe {
        stream.launch(
            kernels::ROWS_SET_FLAGS_COUNTED,
            Shape::rows(first % 32 + n),
            &args,
        )
    }
}

/// `out[rows[i]] = values[i]`, with `len` words, 0 where no row id points.
pub(crate) fn scatter(
    stream: &Arc<Stream>,
    rows: &Buffer<u32>,
    values: &Buffer<u32>,
    len: usize,
) -> Result<Buffer<u32>> {
    let out = stream.zeroed(len * 4, "counts by row")?;
    let n = rows.len();
    let args = (
        memory(rows)?.into(),
        memory(values)?.into(),
        (&out).into(),
        (n as u32).into(),
    );
    // SAFETY: row ids are below `len`; rows and values have the same length.
    unsafe { stream.launch(kernels::ROWS_SCATTER32, Shape::rows(n), &args)? };
    Ok(Buffer::cuda(out, len))
}

/// The row ids of the set bits among `n`, ascending; or `values` at these positions.
pub(crate) fn select(
    stream: &Arc<Stream>,
    bits: &Memory,
    n: usize,
    values: Option<&Memory>,
) -> Result<Buffer<u32>> {
    if n == 0 {
        return Ok(Buffer::cuda(stream.alloc(0, "selected rows")?, 0));
    }
    let (offsets, selected) = select_offsets(stream, bits, n)?;
    select_at(stream, bits, n, &offsets, selected, values)
}

/// The number of set bits before each block of 8192 of the `n` > 0 bits, and the number of all set bits.
pub(crate) fn select_offsets(
    stream: &Arc<Stream>,
    bits: &Memory,
    n: usize,
) -> Result<(Memory, usize)> {
    let words = n.div_ceil(32);
    let blocks = words.div_ceil(256);
    let counts = stream.alloc(blocks * 4, "selected rows")?;
    let args = (bits.into(), (words as u32).into(), (&counts).into());
    // SAFETY: `bits` holds whole words, `counts` one word for each 256 of them.
    unsafe {
        stream.launch(
            kernels::ROWS_SELECT_COUNT,
            Shape::blocks_of(blocks, 8, 256),
            &args,
        )?
    };
    let offsets = scan::scan(stream, EXCLUSIVE_U32, &counts, blocks, "selected rows")?;
    let mut total = [0; 4];
    stream.read_few(&mut total, &offsets, blocks * 4)?;
    Ok((offsets, u32::from_le_bytes(total) as usize))
}

/// The selection by known offsets: `offsets` and `selected` are from [`select_offsets`].
pub(crate) fn select_at(
    stream: &Arc<Stream>,
    bits: &Memory,
    n: usize,
    offsets: &Memory,
    selected: usize,
    values: Option<&Memory>,
) -> Result<Buffer<u32>> {
    let out = match values {
        Some(values) => select_values(stream, bits, n, (offsets, selected), values, 4)?,
        None => {
            let words = n.div_ceil(32);
            let out = stream.alloc(selected * 4, "selected rows")?;
            let args = (
                bits.into(),
                (words as u32).into(),
                offsets.into(),
                (&out).into(),
            );
            // SAFETY: `out` holds a word for each set bit.
            unsafe {
                stream.launch(
                    kernels::ROWS_SELECT_WRITE,
                    Shape::blocks_of(words, 256, 256),
                    &args,
                )?;
            }
            out
        }
    };
    Ok(Buffer::cuda(out, selected))
}

/// Values of 4, 8 or 16 bytes at the set bits among `n`, by the offsets and the number of set bits from
/// [`select_offsets`].
pub(crate) fn select_values(
    stream: &Arc<Stream>,
    bits: &Memory,
    n: usize,
    (offsets, selected): (&Memory, usize),
    values: &Memory,
    width: usize,
) -> Result<Memory> {
    let kernel = match width {
        4 => kernels::ROWS_SELECT_WRITE_VALUES32,
        8 => kernels::ROWS_SELECT_WRITE_VALUES64,
        16 => kernels::ROWS_SELECT_WRITE_VALUES128,
        _ => {
            let what = format!("values of {width} bytes are not selected");
            return Err(BowtieError::Internal(what));
        }
    };
    let words = n.div_ceil(32);
    let out = stream.alloc(selected * width, "selected rows")?;
    let args = (
        bits.into(),
        (words as u32).into(),
        offsets.into(),
        values.into(),
        (&out).into(),
    );
    // SAFETY: there are n values of the kernel's width, and `out` has memory for one for each set bit.
    unsafe { stream.launch(kernel, Shape::blocks_of(words, 256, 256), &args)? };
    Ok(out)
}

/// A copy of a column's validity bitmap for its keys.
pub(crate) fn copy_validity(
    stream: &Arc<Stream>,
    valid: Option<&Memory>,
    rows: usize,
) -> Result<Option<Bits>> {
    match valid {
        Some(valid) => Ok(Some(Bits::cuda(bits_and(stream, valid, valid, rows)?))),
        None => Ok(None),
    }
}
