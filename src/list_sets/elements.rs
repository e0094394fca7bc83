//! Lists as sets: the elements of each row, and which elements are equal.
//!
//! Equality is that of DataFusion's `array_has_all` and `array_has_any`: NULL equals NULL, floats are equal if their
//! bits are (a NaN equals itself, −0.0 is not 0.0), other elements if their values are.

use std::ops::Range;

use arrow::array::{
    Array, ArrayRef, AsArray, OffsetSizeTrait, PrimitiveArray, downcast_primitive_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{ArrowPrimitiveType, DataType, ToByteSlice};
use arrow::error::ArrowError;
use arrow::row::{Row, RowConverter, Rows, SortField};
use rayon::prelude::*;

use crate::error::{BowtieError, Result};

/// The rows of a list column. In any other column each value is a list of itself, and NULL a NULL list.
#[derive(Debug)]
pub(crate) struct Lists {
    /// The elements of all rows.
    pub(crate) values: ArrayRef,
    /// The range in `values` of each row.
    spans: Spans,
    nulls: Option<NullBuffer>,
}

#[derive(Debug)]
enum Spans {
    /// Each row has this number of values.
    Equal(usize),
    /// The begin of each row, and the end of the last one; the first is that of the first value.
    Offsets(OffsetBuffer<i32>),
    LargeOffsets(OffsetBuffer<i64>),
    Views(Vec<Range<usize>>),
}

impl Lists {
    pub(crate) fn of(array: &ArrayRef) -> Result<Self> {
        Self::as_they_are(array).plain()
    }

    /// The lists, whose elements may still be dictionary-encoded.
    pub(crate) fn as_they_are(array: &ArrayRef) -> Self {
        let nulls = array.logical_nulls();
        let (values, spans) = match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                let offsets = list.offsets().clone();
                (cut(list.values(), &offsets), Spans::Offsets(offsets))
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                let offsets = list.offsets().clone();
                (cut(list.values(), &offsets), Spans::LargeOffsets(offsets))
            }
            DataType::FixedSizeList(_, _) => {
                let list = array.as_fixed_size_list();
                let length = list.value_length() as usize;
                (list.values().clone(), Spans::Equal(length))
            }
            DataType::ListView(_) => {
                let list = array.as_list_view::<i32>();
                let spans = list.offsets().iter().zip(list.sizes());
                let spans = spans.map(|(o, s)| *o as usize..(*o + *s) as usize);
                (list.values().clone(), Spans::Views(spans.collect()))
            }
            DataType::LargeListView(_) => {
                let list = array.as_list_view::<i64>();
                let spans = list.offsets().iter().zip(list.sizes());
                let spans = spans.map(|(o, s)| *o as usize..(*o + *s) as usize);
                (list.values().clone(), Spans::Views(spans.collect()))
            }
            _ => (array.clone(), Spans::Equal(1)),
        };
        Self {
            values,
            spans,
            nulls,
        }
    }

    /// The lists with decoded elements.
    pub(crate) fn plain(self) -> Result<Self> {
        let values = match self.values.data_type() {
            DataType::Dictionary(_, plain) => plain_values(&self.values, plain)?,
            _ => return Ok(self),
        };
        Ok(Self { values, ..self })
    }

    /// Rows that are not `valid` become NULL lists.
    pub(crate) fn leave_out(&mut self, valid: &BooleanBuffer) {
        let others = NullBuffer::new(valid.clone());
        self.nulls = NullBuffer::union(self.nulls.as_ref(), Some(&others));
    }

    /// The rows with a list; `None` if all rows have one.
    pub(crate) fn nulls(&self) -> Option<&NullBuffer> {
        self.nulls.as_ref()
    }

    /// 32-bit offsets: where each list begins, and where the last one ends. The first is that of the first value.
    /// `None` for other lists.
    pub(crate) fn offsets(&self) -> Option<&OffsetBuffer<i32>> {
        match &self.spans {
            Spans::Offsets(offsets) => Some(offsets),
            _ => None,
        }
    }

    /// The begin and the number of elements of each of `rows` rows; unspecified for a NULL list.
    pub(crate) fn spans(&self, rows: usize) -> (Vec<u32>, Vec<u32>) {
        let span = |row: usize| {
            let span = self.span(row);
            (span.start as u32, span.len() as u32)
        };
        (0..rows).into_par_iter().map(span).unzip()
    }

    /// The range of a row's elements; `None` for a NULL list.
    pub(crate) fn get(&self, row: usize) -> Option<Range<usize>> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        Some(self.span(row))
    }

    fn span(&self, row: usize) -> Range<usize> {
        match &self.spans {
            Spans::Equal(length) => row * length..(row + 1) * length,
            Spans::Offsets(offsets) => between(offsets, row),
            Spans::LargeOffsets(offsets) => between(offsets, row),
            Spans::Views(spans) => spans[row].clone(),
        }
    }
}

fn between<O: OffsetSizeTrait>(offsets: &[O], row: usize) -> Range<usize> {
    let first = offsets[0].as_usize();
    offsets[row].as_usize() - first..offsets[row + 1].as_usize() - first
}

/// The values that the rows of a sliced list refer to.
fn cut<O: OffsetSizeTrait>(values: &ArrayRef, offsets: &[O]) -> ArrayRef {
    let [first, end] = [offsets.first(), offsets.last()].map(|o| o.map_or(0, |o| o.as_usize()));
    values.slice(first, end - first)
}

/// Decodes a dictionary.
fn plain_values(values: &ArrayRef, plain: &DataType) -> Result<ArrayRef> {
    cast(values, plain).map_err(|error| match error {
        // Arrow's 32-bit offsets end here: fewer rows have room.
        ArrowError::OffsetOverflowError(bytes) => BowtieError::MustSplit {
            what: "column of sets",
            size: bytes as u64,
            most: i32::MAX as u64,
            unit: "bytes",
        },
        error => error.into(),
    })
}

/// The mean number of elements of a column's lists.
pub(crate) fn mean_length(array: &ArrayRef) -> u64 {
    let elements = match array.data_type() {
        DataType::List(_) => {
            let offsets = array.as_list::<i32>().offsets();
            (offsets[array.len()] - offsets[0]) as u64
        }
        DataType::LargeList(_) => {
            let offsets = array.as_list::<i64>().offsets();
            (offsets[array.len()] - offsets[0]) as u64
        }
        DataType::FixedSizeList(_, length) => array.len() as u64 * *length as u64,
        DataType::ListView(_) => {
            let sizes = array.as_list_view::<i32>().sizes();
            sizes.iter().map(|size| *size as u64).sum()
        }
        DataType::LargeListView(_) => {
            let sizes = array.as_list_view::<i64>().sizes();
            sizes.iter().map(|size| *size as u64).sum()
        }
        _ => array.len() as u64,
    };
    elements / array.len().max(1) as u64
}

/// Whether elements of a type can be compared.
pub(crate) fn are_elements(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => !values.is_nested(),
        other => !other.is_nested(),
    }
}

/// Values in comparable form.
#[derive(Debug)]
pub(crate) enum Elements {
    /// The bits of values of at most eight bytes.
    Words {
        words: Vec<u64>,
        nulls: Option<NullBuffer>,
    },
    Rows(Rows),
}

/// A value, with the equality of elements, and some order. NULL is less than all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Element<'a> {
    Word(Option<u64>),
    Row(Row<'a>),
}

impl Elements {
    /// A converter for values that are no words. Both sides of a join share it.
    pub(crate) fn converter(data_type: &DataType) -> Result<Option<RowConverter>> {
        let plain = match data_type {
            DataType::Dictionary(_, values) => values,
            other => other,
        };
        match has_words(plain) {
            true => Ok(None),
            false => Ok(Some(RowConverter::new(vec![SortField::new(
                plain.clone(),
            )])?)),
        }
    }

    pub(crate) fn new(values: &ArrayRef, converter: Option<&RowConverter>) -> Result<Self> {
        if let Some(converter) = converter {
            return Ok(Self::Rows(
                converter.convert_columns(std::slice::from_ref(values))?,
            ));
        }
        let words = words(values.as_ref()).ok_or_else(|| {
            BowtieError::Internal(format!("{} elements do not fit words", values.data_type()))
        })?;
        Ok(Self::Words {
            words,
            nulls: values.logical_nulls(),
        })
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Words { words, .. } => words.len() as u64 * 8,
            Self::Rows(rows) => rows.size() as u64,
        }
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> Element<'_> {
        match self {
            Self::Words { words, nulls } => {
                let valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(at));
                Element::Word(valid.then(|| words[at]))
            }
            Self::Rows(rows) => Element::Row(rows.row(at)),
        }
    }
}

fn has_words(data_type: &DataType) -> bool {
    match data_type {
        DataType::Boolean => true,
        other => other.primitive_width().is_some_and(|width| width <= 8),
    }
}

fn words(values: &dyn Array) -> Option<Vec<u64>> {
    downcast_primitive_array!(
        values => bits(values),
        DataType::Boolean => Some(values.as_boolean().values().iter().map(u64::from).collect()),
        _ => None
    )
}

fn bits<T: ArrowPrimitiveType>(values: &PrimitiveArray<T>) -> Option<Vec<u64>> {
    let width = size_of::<T::Native>();
    let word = |value: &T::Native| {
        let mut word = [0; 8];
        word[..width].copy_from_slice(value.to_byte_slice());
        u64::from_ne_bytes(word)
    };
    (width <= 8).then(|| values.values().iter().map(word).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        DictionaryArray, FixedSizeListArray, Float64Array, Int32Array, ListArray, StringArray,
    };
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{Field, Int32Type};

    use super::*;

    #[test]
    fn rows_of_a_sliced_list() {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(9)]),
            Some(vec![Some(1), None]),
            None,
            Some(vec![]),
        ]);
        let lists = Lists::of(&(Arc::new(list.slice(1, 3)) as ArrayRef)).unwrap();
        assert_eq!(lists.values.len(), 2);
        let spans: Vec<_> = (0..3).map(|row| lists.get(row)).collect();
        assert_eq!(spans, [Some(0..2), None, Some(2..2)]);
    }

    /// All elements are NULL, and their dictionary has no values.
    #[test]
    fn a_dictionary_without_values() {
        let keys = Int32Array::new_null(2);
        let none: ArrayRef = Arc::new(StringArray::new_null(0));
        let values: ArrayRef = Arc::new(DictionaryArray::new(keys, none));
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        let list = ListArray::new(field, OffsetBuffer::from_lengths([2]), values, None);
        let lists = Lists::as_they_are(&(Arc::new(list) as ArrayRef));
        assert_eq!(lists.plain_bytes().unwrap(), 32);
        assert_eq!(lists.plain().unwrap().values.null_count(), 2);
    }

    #[test]
    fn fixed_sizes_and_plain_values() {
        let pairs = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(
            [
                Some(vec![Some(1), Some(2)]),
                None,
                Some(vec![Some(3), None]),
            ],
            2,
        );
        let lists = Lists::of(&(Arc::new(pairs.slice(1, 2)) as ArrayRef)).unwrap();
        assert_eq!((lists.get(0), lists.get(1)), (None, Some(2..4)));
        assert_eq!(lists.values.as_primitive::<Int32Type>().value(2), 3);
        let plain: ArrayRef = Arc::new(Int32Array::from(vec![Some(5), None]));
        let lists = Lists::of(&plain).unwrap();
        assert_eq!((lists.get(0), lists.get(1)), (Some(0..1), None));
    }

    /// The decoded dictionary has more than 2 GiB of text: an error asks for fewer rows, while lengths are still known.
    #[test]
    fn dictionaries_that_are_too_long_when_expanded() {
        let keys = Int32Array::from(vec![0; 2_050]);
        let text = Arc::new(StringArray::from(vec!["x".repeat(1 << 20)]));
        let long: ArrayRef = Arc::new(DictionaryArray::new(keys, text));
        let refused = Lists::of(&long).unwrap_err();
        assert!(refused.is_divisible(), "{refused}");
        assert_eq!(Lists::of(&long.slice(0, 2)).unwrap().values.len(), 2);
        assert_eq!(mean_length(&long), 1);
    }

    #[test]
    fn mean_lengths() {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(9); 50]),
            Some(vec![Some(1), None, None]),
            Some(vec![Some(1); 5]),
        ]);
        let list: ArrayRef = Arc::new(list.slice(1, 2));
        assert_eq!(mean_length(&list), 4);
        let element = list.as_list::<i32>().value_type();
        for other in [
            DataType::new_large_list(element.clone(), true),
            DataType::ListView(Arc::new(Field::new_list_field(element.clone(), true))),
            DataType::LargeListView(Arc::new(Field::new_list_field(element, true))),
        ] {
            assert_eq!(mean_length(&cast(&list, &other).unwrap()), 4, "{other}");
        }
        assert_eq!(mean_length(&list.slice(0, 0)), 0);
    }

    #[test]
    fn equal_as_datafusion_takes_them() {
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![
            Some(0.0),
            Some(-0.0),
            Some(f64::NAN),
            Some(f64::NAN),
            None,
            None,
        ]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![
            Some("a"),
            Some("b"),
            Some("a"),
            None,
            None,
        ]));
        let of = |values: &ArrayRef| {
            let converter = Elements::converter(values.data_type()).unwrap();
            Elements::new(values, converter.as_ref()).unwrap()
        };
        let floats = of(&floats);
        assert_ne!(floats.get(0), floats.get(1));
        assert_eq!(floats.get(2), floats.get(3));
        assert_eq!(floats.get(4), floats.get(5));
        assert_ne!(floats.get(0), floats.get(5));
        let texts = of(&texts);
        assert_eq!(texts.get(0), texts.get(2));
        assert_ne!(texts.get(0), texts.get(1));
        assert_eq!(texts.get(3), texts.get(4));
    }
}
