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
use crate::device::cuda::columns::storage::Storage;
use crate::device::cuda::columns::var_width::Text;
use crate::device::cuda::device::CudaDevice;
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

impl CudaDevice {
    /// A Boolean for each row: the result of `test` for its value.
    pub(crate) fn tested(
        &self,
        column: &Column,
        other: Option<&Column>,
        test: &TextTest,
    ) -> Result<Column> {
        let rows = column.rows();
        let tested = match (column.stored(), other.map(Column::stored)) {
            _ if rows == 0 => None,
            (Some(Storage::Text(text)), None) => self.stream.text_truths(text, test, rows)?,
            (Some(Storage::Text(text)), Some(Some(Storage::Text(other)))) => {
                self.stream.compared_text(text, other, test, rows)?
            }
            (Some(Storage::Indirect(indirect)), None) => match &indirect.to {
                IndirectData::Buffers(_) => self.stream.view_truths(indirect, test, rows)?,
                IndirectData::Values(values) => {
                    let values = Column::host(
                        Arc::clone(values),
                        self.fallback.budget().lease(0, "host fallback")?,
                    );
                    let truths = self.fallback.test_text(&values, None, test)?;
                    let truths = self.column_from_host(&truths)?;
                    self.stream.of_keys(&indirect.words, &truths, rows)?
                }
            },
            (Some(Storage::Indirect(left)), Some(Some(Storage::Indirect(right)))) => {
                match (&left.to, &right.to) {
                    (IndirectData::Buffers(_), IndirectData::Buffers(_)) => {
                        self.stream.compared_views(left, right, test, rows)?
                    }
                    _ => None,
                }
            }
            _ => None,
        };
        if let Some(tested) = tested {
            return Ok(Column::cuda(tested, rows));
        }
        let column = self.column_to_host(column)?;
        let other = other.map(|other| self.column_to_host(other)).transpose()?;
        self.column_from_host(&self.fallback.test_text(&column, other.as_ref(), test)?)
    }

    /// The same substring of each value.
    pub(crate) fn sliced(&self, column: &Column, slice: TextSlice) -> Result<Column> {
        let rows = column.rows();
        match column.stored() {
            _ if rows == 0 => {}
            Some(Storage::Text(text)) => {
                return Ok(Column::cuda(
                    self.stream.sliced_text(text, slice, rows)?,
                    rows,
                ));
            }
            Some(Storage::Indirect(views)) if matches!(views.to, IndirectData::Buffers(_)) => {
                if let Some(sliced) = self.stream.sliced_views(views, slice, rows)? {
                    return Ok(Column::cuda(sliced, rows));
                }
            }
            _ => {}
        }
        self.column_from_host(
            &self
                .fallback
                .slice_text(&self.column_to_host(column)?, slice)?,
        )
    }
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

impl Stream {
    /// The result of `test` for each value of a column with offsets.
    fn text_truths(
        self: &Arc<Self>,
        text: &Text,
        test: &TextTest,
        rows: usize,
    ) -> Result<Option<Values>> {
        let (op, constants) = asked(&test.predicate);
        let constants = self.constants(&constants)?;
        let out = self.alloc(bitmap_bytes(rows), "columns")?;
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
        unsafe { self.launch(kernels::TEXT_TEST_BYTES, Shape::rows(rows), &args)? };
        self.truths(out, text.valid.as_ref(), rows).map(Some)
    }

    /// The same for views; `None` if the bytes in the views do not decide on every row.
    fn view_truths(
        self: &Arc<Self>,
        views: &Indirect,
        test: &TextTest,
        rows: usize,
    ) -> Result<Option<Values>> {
        let (op, constants) = asked(&test.predicate);
        let constants = self.constants(&constants)?;
        let out = self.alloc(bitmap_bytes(rows), "columns")?;
        let left = self.zeroed(4, "a test")?;
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
        unsafe { self.launch(kernels::TEXT_TEST_VIEWS, Shape::rows(rows), &args)? };
        match is_set(&left, self)? {
            true => Ok(None),
            false => self.truths(out, words.valid.as_ref(), rows).map(Some),
        }
    }

    /// Compares the values of two columns row by row.
    fn compared_text(
        self: &Arc<Self>,
        left: &Text,
        right: &Text,
        test: &TextTest,
        rows: usize,
    ) -> Result<Option<Values>> {
        let valid = self.both_valid(left.valid.as_ref(), right.valid.as_ref(), rows)?;
        let out = self.alloc(bitmap_bytes(rows), "columns")?;
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
        unsafe { self.launch(kernels::TEXT_TEST_COLUMNS, Shape::rows(rows), &args)? };
        self.boolean(out, valid).map(Some)
    }

    /// The same for views; `None` if the bytes in the views do not decide on every row.
    fn compared_views(
        self: &Arc<Self>,
        left: &Indirect,
        right: &Indirect,
        test: &TextTest,
        rows: usize,
    ) -> Result<Option<Values>> {
        let (left, right) = (&left.words, &right.words);
        let valid = self.both_valid(left.valid.as_ref(), right.valid.as_ref(), rows)?;
        let out = self.alloc(bitmap_bytes(rows), "columns")?;
        let undecided = self.zeroed(4, "a test")?;
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
        unsafe { self.launch(kernels::TEXT_TEST_VIEW_COLUMNS, Shape::rows(rows), &args)? };
        match is_set(&undecided, self)? {
            true => Ok(None),
            false => self.boolean(out, valid).map(Some),
        }
    }

    /// The results for a dictionary's values, gathered by its keys.
    fn of_keys(
        self: &Arc<Self>,
        keys: &Values,
        truths: &Column,
        rows: usize,
    ) -> Result<Option<Values>> {
        let Some(Storage::Fixed(truths)) = truths.stored() else {
            return Ok(None);
        };
        let named = self.dictionary_rows(keys, rows)?;
        let gathered = self.gather(truths, &named)?.into_stored();
        let Some(Storage::Fixed(mut gathered)) = gathered else {
            return Ok(None);
        };
        // If values may be NULL, their validity was gathered with the results; it is not set for a NULL key.
        if let (None, Some(of_keys)) = (&gathered.valid, &keys.valid) {
            gathered.valid = Some(self.copy_of(of_keys.into(), bitmap_bytes(rows), "validity")?);
            gathered.made = Some(self.mark()?);
        }
        Ok(Some(gathered))
    }

    fn sliced_text(self: &Arc<Self>, text: &Text, slice: TextSlice, rows: usize) -> Result<Text> {
        let starts = self.alloc(rows * 4, "output columns")?;
        let lengths = self.alloc(rows * 4, "output columns")?;
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
        unsafe { self.launch(kernels::TEXT_TEST_SPANS, Shape::rows(rows), &args)? };
        let (offsets, bytes, length) = self.text_at(text, &starts, lengths, rows)?;
        Ok(Text {
            data_type: text.data_type.clone(),
            offsets,
            bytes,
            length,
            valid: self.copied(text.valid.as_ref(), rows)?,
            original: None,
            made: Some(self.mark()?),
        })
    }

    /// Views that hold their whole substring; `None` if a substring does not fit its view.
    fn sliced_views(
        self: &Arc<Self>,
        views: &Indirect,
        slice: TextSlice,
        rows: usize,
    ) -> Result<Option<Indirect>> {
        let words = &views.words;
        let out = self.alloc(rows * 16, "output columns")?;
        let left = self.zeroed(4, "a test")?;
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
        unsafe { self.launch(kernels::TEXT_TEST_SLICES, Shape::rows(rows), &args)? };
        if is_set(&left, self)? {
            return Ok(None);
        }
        let sliced = Values {
            data_type: words.data_type.clone(),
            values: out,
            valid: self.copied(words.valid.as_ref(), rows)?,
            original: None,
            made: Some(self.mark()?),
        };
        // No view refers to a buffer now, but keeping the buffers makes concatenation with parts of the same column
        // cheaper.
        Ok(Some(Indirect::new(views, sliced, views.to.clone())))
    }

    /// Uploads constants or segments, with their offsets.
    fn constants(self: &Arc<Self>, constants: &[&[u8]]) -> Result<Constants> {
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
            memory: self.send(&table, "a test")?,
            bytes,
            count: constants.len(),
        })
    }

    /// A copy of the validity of `rows` rows.
    pub(crate) fn copied(
        self: &Arc<Self>,
        bits: Option<&Memory>,
        rows: usize,
    ) -> Result<Option<Memory>> {
        bits.map(|bits| self.copy_of(bits.into(), bitmap_bytes(rows), "validity"))
            .transpose()
    }

    /// The rows that are not NULL in either of two columns; `None` if none is NULL.
    fn both_valid(
        self: &Arc<Self>,
        left: Option<&Memory>,
        right: Option<&Memory>,
        rows: usize,
    ) -> Result<Option<Memory>> {
        match (left, right) {
            (Some(left), Some(right)) => self.bits_and(left, right, rows).map(Some),
            (one, other) => self.copied(one.or(other), rows),
        }
    }

    /// A Boolean column of `bits` with the NULLs of another column.
    fn truths(
        self: &Arc<Self>,
        bits: Memory,
        valid: Option<&Memory>,
        rows: usize,
    ) -> Result<Values> {
        let valid = self.copied(valid, rows)?;
        self.boolean(bits, valid)
    }

    fn boolean(&self, bits: Memory, valid: Option<Memory>) -> Result<Values> {
        Ok(Values {
            data_type: DataType::Boolean,
            values: bits,
            valid,
            original: None,
            made: Some(self.mark()?),
        })
    }
}
