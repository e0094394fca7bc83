//! String predicates, and substrings by characters (`kernels/expr/text_test.cu`). In: text or binary columns. Out:
//! Booleans, or text.
//!
//! | column | tested by |
//! |---|---|
//! | text and binary with offsets | the kernel |
//! | views | the kernel, by the bytes in the views; if these do not decide on a row, the host fallback tests all rows |
//! | dictionaries | the host fallback tests the values, which are on the host; the keys gather the results |
//! | two columns, of which one is a dictionary, or stored differently | the host fallback |
//! | columns on the host | the host fallback |

use std::sync::Arc;

use arrow::datatypes::DataType;

use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::indirect::{Indirect, IndirectData};
use crate::device::cuda::columns::layout::bitmap_bytes;
use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::storage::Storage;
use crate::device::cuda::columns::to_host;
use crate::device::cuda::columns::var_width::{self, Text};
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::keys::key_column;
use crate::device::cuda::runtime::arguments::U32;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::column::Column;
use crate::device::primitives::device::Device;
use crate::device::primitives::expr::ExprPrimitives;
use crate::error::Result;
use crate::ir::text_predicate::{TextPredicate, TextSlice, TextTest};

/// Operations as the kernels number them, after the comparisons.
const AMONG: u32 = 6;
const LIKE: u32 = 7;
const PRESENT: u32 = 8;

/// The bytes of constants follow their offsets from a multiple of this, so that they can be loaded 16 bytes at a time.
const ALIGNED: usize = 16;

/// The constants of a test, on the GPU.
struct Constants {
    memory: Memory,
    /// The offset of their bytes.
    bytes: usize,
    count: usize,
}

/// A Boolean for each row: the result of `test` for its value.
pub(crate) fn tested(
    device: &CudaDevice,
    column: &Column,
    other: Option<&Column>,
    test: &TextTest,
) -> Result<Column> {
    let rows = column.rows();
    let tested = match (column.stored(), other.map(Column::stored)) {
        _ if rows == 0 => None,
        (Some(Storage::Text(text)), None) => text_truths(&device.stream, text, test, rows)?,
        (Some(Storage::Text(text)), Some(Some(Storage::Text(other)))) => {
            compared_text(&device.stream, text, other, test, rows)?
        }
        (Some(Storage::Indirect(indirect)), None) => match &indirect.to {
            IndirectData::Buffers(_) => view_truths(&device.stream, indirect, test, rows)?,
            IndirectData::Values(values) => {
                let values = Column::host(
                    Arc::clone(values),
                    device.fallback.budget().lease(0, "host fallback")?,
                );
                let truths = device.fallback.test_text(&values, None, test)?;
                let truths = to_host::column_from_host(device, &truths)?;
                of_keys(&device.stream, &indirect.words, &truths, rows)?
            }
        },
        (Some(Storage::Indirect(left)), Some(Some(Storage::Indirect(right)))) => {
            match (&left.to, &right.to) {
                (IndirectData::Buffers(_), IndirectData::Buffers(_)) => {
                    compared_views(&device.stream, left, right, test, rows)?
                }
                _ => None,
            }
        }
        _ => None,
    };
    if let Some(tested) = tested {
        return Ok(Column::cuda(tested, rows));
    }
    let column = to_host::column_to_host(device, column)?;
    let other = other
        .map(|other| to_host::column_to_host(device, other))
        .transpose()?;
    to_host::column_from_host(
        device,
        &device.fallback.test_text(&column, other.as_ref(), test)?,
    )
}

/// The same substring of each value.
pub(crate) fn sliced(device: &CudaDevice, column: &Column, slice: TextSlice) -> Result<Column> {
    let rows = column.rows();
    match column.stored() {
        _ if rows == 0 => {}
        Some(Storage::Text(text)) => {
            return Ok(Column::cuda(
                sliced_text(&device.stream, text, slice, rows)?,
                rows,
            ));
        }
        Some(Storage::Indirect(views)) if matches!(views.to, IndirectData::Buffers(_)) => {
            if let Some(sliced) = sliced_views(&device.stream, views, slice, rows)? {
                return Ok(Column::cuda(sliced, rows));
            }
        }
        _ => {}
    }
    to_host::column_from_host(
        device,
        &device
            .fallback
            .slice_text(&to_host::column_to_host(device, column)?, slice)?,
    )
}

/// The operation and the constants that the kernels take.
fn asked(predicate: &TextPredicate) -> (u32, Vec<&[u8]>) {
    fn all(constants: &[Vec<u8>]) -> Vec<&[u8]> {
        constants.iter().map(Vec::as_slice).collect()
    }
    match predicate {
        TextPredicate::Present => (PRESENT, vec![]),
        TextPredicate::Among(constants) => (AMONG, all(constants)),
        TextPredicate::Compare(op, constant) => (*op as u32, vec![constant]),
        TextPredicate::Like(pattern) => (LIKE, all(&pattern.segments)),
        TextPredicate::Column(op, _) => (*op as u32, vec![]),
    }
}

/// The slice as the kernels take it; the whole value without a slice.
fn bounds(slice: Option<TextSlice>) -> [U32; 2] {
    let slice = slice.unwrap_or(TextSlice {
        skip: 0,
        take: TextSlice::ALL,
    });
    [slice.skip.into(), slice.take.into()]
}

fn is_set(flag: &Memory, stream: &Stream) -> Result<bool> {
    let mut any = [0; 4];
    stream.read_few(&mut any, flag, 0)?;
    Ok(any != [0; 4])
}

/// The result of `test` for each value of a column with offsets.
fn text_truths(
    stream: &Arc<Stream>,
    text: &Text,
    test: &TextTest,
    rows: usize,
) -> Result<Option<Values>> {
    let (op, constants) = asked(&test.predicate);
    let constants = upload_constants(stream, &constants)?;
    let out = stream.alloc(bitmap_bytes(rows), "columns")?;
    let [skip, take] = bounds(test.slice);
    let args = (
        op.into(),
        (&text.offsets).into(),
        (&text.bytes).into(),
        text.valid.as_ref().into(),
        skip,
        take,
        (&constants.memory).into(),
        constants.memory.part(constants.bytes)?.into(),
        (constants.count as u32).into(),
        (&out).into(),
        (rows as u32).into(),
    );
    // SAFETY: there are `rows` values at their offsets, and as many validity bits. The constants are at their
    // offsets, from a multiple of 16 bytes on, and there is at least one if `op` reads one. `out` holds a bit for
    // each row, in whole words.
    unsafe { stream.launch(kernels::TEXT_TEST_BYTES, Shape::rows(rows), &args)? };
    truths(stream, out, text.valid.as_ref(), rows).map(Some)
}

/// The same for views; `None` if the bytes in the views do not decide on every row.
fn view_truths(
    stream: &Arc<Stream>,
    views: &Indirect,
    test: &TextTest,
    rows: usize,
) -> Result<Option<Values>> {
    let (op, constants) = asked(&test.predicate);
    let constants = upload_constants(stream, &constants)?;
    let out = stream.alloc(bitmap_bytes(rows), "columns")?;
    let left = stream.zeroed(4, "a test")?;
    let [skip, take] = bounds(test.slice);
    let words = &views.words;
    let args = (
        op.into(),
        (&words.values).into(),
        words.valid.as_ref().into(),
        skip,
        take,
        (&constants.memory).into(),
        constants.memory.part(constants.bytes)?.into(),
        (constants.count as u32).into(),
        (&out).into(),
        (&left).into(),
        (rows as u32).into(),
    );
    // SAFETY: there are `rows` views and as many validity bits; constants as above; `out` holds a bit for each row,
    // in whole words, and `left` one word.
    unsafe { stream.launch(kernels::TEXT_TEST_VIEWS, Shape::rows(rows), &args)? };
    match is_set(&left, stream)? {
        true => Ok(None),
        false => truths(stream, out, words.valid.as_ref(), rows).map(Some),
    }
}

/// Compares the values of two columns row by row.
fn compared_text(
    stream: &Arc<Stream>,
    left: &Text,
    right: &Text,
    test: &TextTest,
    rows: usize,
) -> Result<Option<Values>> {
    let valid = both_valid(stream, left.valid.as_ref(), right.valid.as_ref(), rows)?;
    let out = stream.alloc(bitmap_bytes(rows), "columns")?;
    let args = (
        asked(&test.predicate).0.into(),
        (&left.offsets).into(),
        (&left.bytes).into(),
        (&right.offsets).into(),
        (&right.bytes).into(),
        valid.as_ref().into(),
        (&out).into(),
        (rows as u32).into(),
    );
    // SAFETY: both columns have `rows` values at their offsets; `valid` and `out` hold a bit for each row, in whole
    // words.
    unsafe { stream.launch(kernels::TEXT_TEST_COLUMNS, Shape::rows(rows), &args)? };
    boolean(stream, out, valid).map(Some)
}

/// The same for views; `None` if the bytes in the views do not decide on every row.
fn compared_views(
    stream: &Arc<Stream>,
    left: &Indirect,
    right: &Indirect,
    test: &TextTest,
    rows: usize,
) -> Result<Option<Values>> {
    let (left, right) = (&left.words, &right.words);
    let valid = both_valid(stream, left.valid.as_ref(), right.valid.as_ref(), rows)?;
    let out = stream.alloc(bitmap_bytes(rows), "columns")?;
    let undecided = stream.zeroed(4, "a test")?;
    let args = (
        asked(&test.predicate).0.into(),
        (&left.values).into(),
        (&right.values).into(),
        valid.as_ref().into(),
        (&out).into(),
        (&undecided).into(),
        (rows as u32).into(),
    );
    // SAFETY: both columns have `rows` views; `valid` and `out` hold a bit for each row, in whole words, and
    // `undecided` one word.
    unsafe { stream.launch(kernels::TEXT_TEST_VIEW_COLUMNS, Shape::rows(rows), &args)? };
    match is_set(&undecided, stream)? {
        true => Ok(None),
        false => boolean(stream, out, valid).map(Some),
    }
}

/// The results for a dictionary's values, gathered by its keys.
fn of_keys(
    stream: &Arc<Stream>,
    keys: &Values,
    truths: &Column,
    rows: usize,
) -> Result<Option<Values>> {
    let Some(Storage::Fixed(truths)) = truths.stored() else {
        return Ok(None);
    };
    let named = key_column::dictionary_rows(stream, keys, rows)?;
    let gathered = rows::gather(stream, truths, &named)?.into_stored();
    let Some(Storage::Fixed(mut gathered)) = gathered else {
        return Ok(None);
    };
    // If values may be NULL, their validity was gathered with the results; it is not set for a NULL key.
    if let (None, Some(of_keys)) = (&gathered.valid, &keys.valid) {
        gathered.valid = Some(stream.copy_of(of_keys.into(), bitmap_bytes(rows), "validity")?);
        gathered.made = Some(stream.mark()?);
    }
    Ok(Some(gathered))
}

fn sliced_text(stream: &Arc<Stream>, text: &Text, slice: TextSlice, rows: usize) -> Result<Text> {
    let starts = stream.alloc(rows * 4, "output columns")?;
    let lengths = stream.alloc(rows * 4, "output columns")?;
    let [skip, take] = bounds(Some(slice));
    let args = (
        (&text.offsets).into(),
        (&text.bytes).into(),
        text.valid.as_ref().into(),
        skip,
        take,
        (&starts).into(),
        (&lengths).into(),
        (rows as u32).into(),
    );
    // SAFETY: there are `rows` values at their offsets, and as many validity bits; both outputs hold a word for
    // each row.
    unsafe { stream.launch(kernels::TEXT_TEST_SPANS, Shape::rows(rows), &args)? };
    let (offsets, bytes, length) = var_width::text_at(stream, text, &starts, lengths, rows)?;
    Ok(Text {
        data_type: text.data_type.clone(),
        offsets,
        bytes,
        length,
        valid: copied(stream, text.valid.as_ref(), rows)?,
        original: None,
        made: Some(stream.mark()?),
    })
}

/// Views that hold their whole substring; `None` if a substring does not fit its view.
fn sliced_views(
    stream: &Arc<Stream>,
    views: &Indirect,
    slice: TextSlice,
    rows: usize,
) -> Result<Option<Indirect>> {
    let words = &views.words;
    let out = stream.alloc(rows * 16, "output columns")?;
    let left = stream.zeroed(4, "a test")?;
    let [skip, take] = bounds(Some(slice));
    let args = (
        (&words.values).into(),
        words.valid.as_ref().into(),
        skip,
        take,
        (&out).into(),
        (&left).into(),
        (rows as u32).into(),
    );
    // SAFETY: there are `rows` views and as many validity bits; `out` holds as many views, and `left` one word.
    unsafe { stream.launch(kernels::TEXT_TEST_SLICES, Shape::rows(rows), &args)? };
    if is_set(&left, stream)? {
        return Ok(None);
    }
    let sliced = Values {
        data_type: words.data_type.clone(),
        values: out,
        valid: copied(stream, words.valid.as_ref(), rows)?,
        original: None,
        made: Some(stream.mark()?),
    };
    // No view refers to a buffer now, but keeping the buffers makes concatenation with parts of the same column
    // cheaper.
    Ok(Some(Indirect::new(views, sliced, views.to.clone())))
}

/// Uploads constants or segments, with their offsets.
fn upload_constants(stream: &Arc<Stream>, constants: &[&[u8]]) -> Result<Constants> {
    let mut end = 0;
    let ends = constants.iter().map(|constant| {
        end += constant.len() as u32;
        end
    });
    let offsets: Vec<u32> = [0].into_iter().chain(ends).collect();
    let mut table: Vec<u8> = offsets.iter().flat_map(|at| at.to_le_bytes()).collect();
    table.resize(table.len().next_multiple_of(ALIGNED), 0);
    let bytes = table.len();
    table.extend(constants.iter().copied().flatten());
    Ok(Constants {
        memory: stream.send(&table, "a test")?,
        bytes,
        count: constants.len(),
    })
}

/// A copy of the validity of `rows` rows.
pub(crate) fn copied(
    stream: &Arc<Stream>,
    bits: Option<&Memory>,
    rows: usize,
) -> Result<Option<Memory>> {
    bits.map(|bits| stream.copy_of(bits.into(), bitmap_bytes(rows), "validity"))
        .transpose()
}

/// The rows that are not NULL in either of two columns; `None` if none is NULL.
fn both_valid(
    stream: &Arc<Stream>,
    left: Option<&Memory>,
    right: Option<&Memory>,
    rows: usize,
) -> Result<Option<Memory>> {
    match (left, right) {
        (Some(left), Some(right)) => rows::bits_and(stream, left, right, rows).map(Some),
        (one, other) => copied(stream, one.or(other), rows),
    }
}

/// A Boolean column of `bits` with the NULLs of another column.
fn truths(
    stream: &Arc<Stream>,
    bits: Memory,
    valid: Option<&Memory>,
    rows: usize,
) -> Result<Values> {
    let valid = copied(stream, valid, rows)?;
    boolean(stream, bits, valid)
}

fn boolean(stream: &Stream, bits: Memory, valid: Option<Memory>) -> Result<Values> {
    Ok(Values {
        data_type: DataType::Boolean,
        values: bits,
        valid,
        original: None,
        made: Some(stream.mark()?),
    })
}
