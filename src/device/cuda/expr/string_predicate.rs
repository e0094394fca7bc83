//! Tests of text, and characters of it (`kernels/expr/text_test.cu`).
//!
//! | column | who tests it |
//! |---|---|
//! | text and binary with offsets | the kernel |
//! | views | the kernel, by what they hold of their values; where that does not decide on a row, the twin tests all of them |
//! | dictionaries | the twin tests the values, which lie on the host, and the keys gather what it says |
//! | two columns of which one is a dictionary, or that lie in different ways | the twin |
//! | what lies on the host | the twin |

use std::sync::Arc;

use arrow::datatypes::DataType;

use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::indirect::{Indirect, Referred};
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

/// What is asked, as the kernels number it behind the comparisons.
const AMONG: u32 = 6;
const LIKE: u32 = 7;
const PRESENT: u32 = 8;

/// Constants lie behind their offsets where loads of 16 bytes may begin.
const ALIGNED: usize = 16;

/// Constants of a test on the GPU.
struct Constants {
    memory: Memory,
    /// Where their bytes begin.
    bytes: usize,
    count: usize,
}

impl CudaDevice {
    /// A Boolean for each row: what `test` says of its value.
    pub(crate) fn tested(
        &self,
        column: &Column,
        other: Option<&Column>,
        test: &TextTest,
    ) -> Result<Column> {
        let rows = column.rows();
        let tested = match (column.stored(), other.map(Column::stored)) {
            _ if rows == 0 => None,
            (Some(Storage::Text(text)), None) => self.queue.text_truths(text, test, rows)?,
            (Some(Storage::Text(text)), Some(Some(Storage::Text(other)))) => {
                self.queue.compared_text(text, other, test, rows)?
            }
            (Some(Storage::Indirect(referring)), None) => match &referring.to {
                Referred::Buffers(_) => self.queue.view_truths(referring, test, rows)?,
                Referred::Values(values) => {
                    let values =
                        Column::host(Arc::clone(values), self.twin.budget().lease(0, "twin")?);
                    let truths = self.twin.test_text(&values, None, test)?;
                    let truths = self.column_from_host(&truths)?;
                    self.queue.of_keys(&referring.words, &truths, rows)?
                }
            },
            (Some(Storage::Indirect(left)), Some(Some(Storage::Indirect(right)))) => {
                match (&left.to, &right.to) {
                    (Referred::Buffers(_), Referred::Buffers(_)) => {
                        self.queue.compared_views(left, right, test, rows)?
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
        self.column_from_host(&self.twin.test_text(&column, other.as_ref(), test)?)
    }

    /// The same characters of each value.
    pub(crate) fn sliced(&self, column: &Column, slice: TextSlice) -> Result<Column> {
        let rows = column.rows();
        match column.stored() {
            _ if rows == 0 => {}
            Some(Storage::Text(text)) => {
                return Ok(Column::cuda(
                    self.queue.sliced_text(text, slice, rows)?,
                    rows,
                ));
            }
            Some(Storage::Indirect(views)) if matches!(views.to, Referred::Buffers(_)) => {
                if let Some(sliced) = self.queue.sliced_views(views, slice, rows)? {
                    return Ok(Column::cuda(sliced, rows));
                }
            }
            _ => {}
        }
        self.column_from_host(&self.twin.slice_text(&self.column_to_host(column)?, slice)?)
    }
}

/// What kernels are asked, and by which constants.
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

/// As kernels take it; all of a value where there is none.
fn bounds(slice: Option<TextSlice>) -> [U32; 2] {
    let slice = slice.unwrap_or(TextSlice {
        skip: 0,
        take: TextSlice::ALL,
    });
    [slice.skip.into(), slice.take.into()]
}

fn is_set(flag: &Memory, queue: &Stream) -> Result<bool> {
    let mut any = [0; 4];
    queue.read_few(&mut any, flag, 0)?;
    Ok(any != [0; 4])
}

impl Stream {
    /// What `test` says of the values of a column with offsets.
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
        // SAFETY: there are `rows` values, where their offsets say, and as many bits; constants are where theirs say, from a multiple
        // of 16 bytes on, and at least one where `op` reads one; `out` holds a bit a row in whole words.
        unsafe { self.launch(kernels::TEXT_TEST_BYTES, Shape::rows(rows), &args)? };
        self.truths(out, text.valid.as_ref(), rows).map(Some)
    }

    /// The same of views; `None` where they do not decide.
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
        // SAFETY: there are `rows` views, and as many bits; constants as above; `out` holds a bit a row in whole words, `left` one.
        unsafe { self.launch(kernels::TEXT_TEST_VIEWS, Shape::rows(rows), &args)? };
        match is_set(&left, self)? {
            true => Ok(None),
            false => self.truths(out, words.valid.as_ref(), rows).map(Some),
        }
    }

    /// The values of two columns compared row by row.
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
        // SAFETY: both columns have `rows` values, where their offsets say; `valid` and `out` hold a bit a row in whole words.
        unsafe { self.launch(kernels::TEXT_TEST_COLUMNS, Shape::rows(rows), &args)? };
        self.boolean(out, valid).map(Some)
    }

    /// The same of views; `None` where they do not decide.
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
        // SAFETY: both columns have `rows` views; `valid` and `out` hold a bit a row in whole words, `undecided` a word.
        unsafe { self.launch(kernels::TEXT_TEST_VIEW_COLUMNS, Shape::rows(rows), &args)? };
        match is_set(&undecided, self)? {
            true => Ok(None),
            false => self.boolean(out, valid).map(Some),
        }
    }

    /// The truths of a dictionary's values row by row.
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
        // Where a value may be NULL its bit was gathered, and is not set for a NULL key.
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
        // SAFETY: there are `rows` values, where their offsets say, and as many bits; both outputs hold as many words.
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

    /// Views that hold the characters themselves; `None` where some do not.
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
        // SAFETY: there are `rows` views, and as many bits; `out` holds as many views, `left` a word.
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
        // None refers to bytes of a buffer, but pieces of one column are put together sooner while they name the same ones.
        Ok(Some(Indirect::new(views, sliced, views.to.clone())))
    }

    /// Constants, or segments, with their offsets.
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

    fn copied(self: &Arc<Self>, bits: Option<&Memory>, rows: usize) -> Result<Option<Memory>> {
        bits.map(|bits| self.copy_of(bits.into(), bitmap_bytes(rows), "validity"))
            .transpose()
    }

    /// The rows that are not NULL in either of two columns; `None` where all are not.
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

    /// Bits as a column that is NULL where another one is.
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
