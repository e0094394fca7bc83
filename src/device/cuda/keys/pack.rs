//! Packs key columns into tuples of words that are equal where the values are (`kernels/keys/groups_words.cuh`). Narrow
//! columns share a word; a wide column has two or four words. Where NULLs are equal, a bit tells whether a value is
//! NULL.

use std::sync::Arc;

use arrow::datatypes::DataType;

use crate::device::cuda::columns::layout::{bitmap_bytes, width};
use crate::device::cuda::keys::key_column::{self, KeyBytes, KeySource};
use crate::device::cuda::keys::tuples::{self, Tuples};
use crate::device::cuda::runtime::arguments::U64;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::runtime::stream::Stream;
use crate::error::{BowtieError, Result};

/// A key column in device memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyValues<'a> {
    kind: Kind,
    source: Source<'a>,
    /// The validity bitmap.
    pub(crate) valid: Option<&'a Memory>,
}

#[derive(Debug, Clone, Copy)]
enum Source<'a> {
    Values(&'a Memory),
    Bytes(KeyBytes<'a>),
}

impl<'a> KeyValues<'a> {
    /// `words`: the words of a base's values that compare byte by byte. For another column its base's words are used,
    /// not these.
    pub(crate) fn of(column: KeySource<'a>, words: usize) -> Result<Self> {
        let kind = match column {
            KeySource::Values(values) => Kind::of(&values.data_type),
            KeySource::Bytes(_) => None,
        };
        match (kind, column, column.bytes()) {
            (Some(kind), KeySource::Values(values), _) => Ok(Self {
                kind,
                source: Source::Values(&values.values),
                valid: values.valid.as_ref(),
            }),
            (_, _, Some(bytes)) => Ok(Self {
                kind: Kind::Text { words },
                source: Source::Bytes(bytes),
                valid: bytes.valid,
            }),
            _ => Err(BowtieError::Internal("a key column without words".into())),
        }
    }

    /// The values and their bits, 32 or 64, where equal values have equal bits and there is no NULL.
    pub(crate) fn plain(&self) -> Option<(&'a Memory, u32)> {
        match (self.kind, self.source, self.valid) {
            (
                Kind::Narrow {
                    bits: bits @ (32 | 64),
                    negative_zero: 0,
                },
                Source::Values(values),
                None,
            ) => Some((values, bits)),
            _ => None,
        }
    }

    /// A column of group ids, which tell which rows are equal in other columns.
    pub(crate) fn ids(ids: &'a Memory) -> Self {
        Self {
            kind: Kind::Narrow {
                bits: 32,
                negative_zero: 0,
            },
            source: Source::Values(ids),
            valid: None,
        }
    }
}

/// How values become words.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Bit,
    /// At most 64 bits. `negative_zero` is a bit pattern that equals 0.
    Narrow {
        bits: u32,
        negative_zero: u64,
    },
    /// Whole words.
    Wide {
        words: usize,
    },
    /// Bytes and a length, in this number of words.
    Text {
        words: usize,
    },
}

impl Kind {
    /// `None` for a type without words of its own.
    fn of(data_type: &DataType) -> Option<Self> {
        Some(match width(data_type) {
            Some(0) => Self::Bit,
            Some(bytes @ (1 | 2 | 4 | 8)) => {
                let bits = bytes as u32 * 8;
                let negative_zero = match data_type.is_floating() {
                    true => 1 << (bits - 1),
                    false => 0,
                };
                Self::Narrow {
                    bits,
                    negative_zero,
                }
            }
            Some(bytes @ (16 | 32)) => Self::Wide { words: bytes / 8 },
            _ => return None,
        })
    }

    fn bits(self) -> usize {
        match self {
            Self::Bit => 1,
            Self::Narrow { bits, .. } => bits as usize,
            Self::Wide { words } | Self::Text { words } => words * WORD_BITS,
        }
    }
}

/// The first bit of a field, counted from the lowest bit of the first word.
type FirstBit = usize;

const WORD_BITS: usize = u64::BITS as usize;

/// The position of a column in a tuple.
#[derive(Debug, Clone, Copy)]
struct Field {
    kind: Kind,
    at: FirstBit,
    /// The bit that is set where the value is not NULL. `None` where no row of the base is NULL, or NULLs are in no
    /// group.
    not_null: Option<FirstBit>,
}

/// The layout of tuples of several columns.
#[derive(Debug)]
pub(crate) struct Layout {
    fields: Vec<Field>,
    /// For each word its index in the stored tuples.
    pub(crate) places: Vec<usize>,
}

impl Layout {
    /// The layout for the columns of a base.
    pub(crate) fn of(columns: &[KeyValues<'_>], null_equal: bool) -> Self {
        Self::new(
            columns
                .iter()
                .map(|column| (column.kind, null_equal && column.valid.is_some())),
        )
    }

    /// Words of a tuple.
    pub(crate) fn words(&self) -> usize {
        self.places.len()
    }

    /// Whether other columns have the same types. Their text may be longer than the base's.
    pub(crate) fn fits(&self, columns: &[KeyValues<'_>]) -> bool {
        let mut pairs = self.fields.iter().zip(columns);
        let same = |(field, column): (&Field, &KeyValues<'_>)| match (field.kind, column.kind) {
            (Kind::Text { .. }, Kind::Text { .. }) => true,
            (base, other) => base == other,
        };
        self.fields.len() == columns.len() && pairs.all(same)
    }

    /// The validity bitmaps of the other columns in which a NULL equals no row of the base.
    pub(crate) fn unmatched_validity<'a>(
        &self,
        columns: &[KeyValues<'a>],
    ) -> impl Iterator<Item = &'a Memory> {
        columns
            .iter()
            .zip(&self.fields)
            .filter(|(_, field)| field.not_null.is_none())
            .filter_map(|(column, _)| column.valid)
    }

    /// Assigns each field, and each bit for NULL, to the first word with enough free bits.
    fn new(columns: impl Iterator<Item = (Kind, bool)>) -> Self {
        let mut used: Vec<usize> = vec![];
        let mut place = |bits: usize| -> FirstBit {
            let roomy = used.iter().position(|used| used + bits <= WORD_BITS);
            let word = roomy.unwrap_or(used.len());
            if roomy.is_none() {
                used.resize(word + bits.div_ceil(WORD_BITS), 0);
            }
            let at = word * WORD_BITS + used[word];
            for used in &mut used[word..word + bits.div_ceil(WORD_BITS)] {
                *used += bits.min(WORD_BITS);
            }
            at
        };
        let fields = columns
            .map(|(kind, nullable)| Field {
                kind,
                at: place(kind.bits()),
                not_null: nullable.then(|| place(1)),
            })
            .collect();
        Self {
            fields,
            places: (0..used.len()).collect(),
        }
    }
}

/// Packs the rows of the columns into tuples.
pub(crate) fn pack(
    stream: &Arc<Stream>,
    layout: &Layout,
    columns: &[KeyValues<'_>],
    rows: usize,
) -> Result<Tuples> {
    let mut packing = Packing {
        stream,
        tuples: tuples::allocate_tuples(stream, rows, layout.places.len())?,
        places: &layout.places,
        begun: vec![false; layout.places.len()],
    };
    for (column, field) in columns.iter().zip(&layout.fields) {
        // The value behind a NULL is masked: NULLs must be equal.
        let valid = field.not_null.and(column.valid);
        match (field.kind, column.source) {
            (Kind::Bit, Source::Values(values)) => packing.bits(values, valid, field.at)?,
            (
                Kind::Narrow {
                    bits,
                    negative_zero,
                },
                Source::Values(values),
            ) => {
                packing.narrow((bits, negative_zero), values, valid, field.at)?;
            }
            (Kind::Wide { words }, Source::Values(values)) => {
                packing.wide(words, values, valid, field.at)?;
            }
            (Kind::Text { words }, Source::Bytes(bytes)) => {
                let first = field.at / WORD_BITS;
                for j in 0..words {
                    let word = packing.tuples.word(layout.places[first + j])?;
                    key_column::text_word(stream, bytes, valid, (j, words), word, rows)?;
                }
            }
            _ => {
                return Err(BowtieError::Internal(
                    "key columns of different types".into(),
                ));
            }
        }
        match (field.not_null, column.valid) {
            (Some(at), Some(valid)) => packing.bits(valid, None, at)?,
            (Some(at), None) => {
                let all = stream.filled(bitmap_bytes(rows), 0xFF, "validity")?;
                packing.bits(&all, None, at)?;
            }
            (None, _) => {}
        }
    }
    Ok(packing.tuples)
}

/// Tuples in construction, one column after the other.
struct Packing<'a> {
    stream: &'a Arc<Stream>,
    tuples: Tuples,
    places: &'a [usize],
    /// Whether a word holds a field already.
    begun: Vec<bool>,
}

impl Packing<'_> {
    /// The first bit of a field in its word, whether other fields are in the word, and the word.
    fn place(&mut self, at: FirstBit) -> Result<(u32, u32, Part<'_>)> {
        let word = at / WORD_BITS;
        let add = std::mem::replace(&mut self.begun[word], true);
        let word = self.tuples.word(self.places[word])?;
        Ok(((at % WORD_BITS) as u32, add.into(), word))
    }

    /// A field of one bit per row: the conjunction of two bitmaps.
    fn bits(&mut self, bits: &Memory, valid: Option<&Memory>, at: FirstBit) -> Result<()> {
        let (stream, rows) = (self.stream, self.tuples.rows());
        let (first_bit, add, word) = self.place(at)?;
        let args = (
            bits.into(),
            valid.into(),
            first_bit.into(),
            add.into(),
            word.into(),
            (rows as u32).into(),
        );
        // SAFETY: bitmaps hold a bit for each row of the tuples, and so does a word of the tuples.
        unsafe { stream.launch(kernels::GROUPS_PACK_BOOL, Shape::rows(rows), &args) }
    }

    /// A field of values of `bits` bits; `negative_zero` is a bit pattern that equals 0.
    fn narrow(
        &mut self,
        (bits, negative_zero): (u32, u64),
        values: &Memory,
        valid: Option<&Memory>,
        at: FirstBit,
    ) -> Result<()> {
        let kernel = match bits {
            8 => kernels::GROUPS_PACK8,
            16 => kernels::GROUPS_PACK16,
            32 => kernels::GROUPS_PACK32,
            _ => kernels::GROUPS_PACK64,
        };
        let (stream, rows) = (self.stream, self.tuples.rows());
        let (first_bit, add, word) = self.place(at)?;
        let args = (
            values.into(),
            valid.into(),
            negative_zero.into(),
            first_bit.into(),
            add.into(),
            word.into(),
            (rows as u32).into(),
        );
        // SAFETY: a column holds a value of the kernel's width, and its bitmap a bit, for each row of the tuples; so
        // does a word of the tuples.
        unsafe { stream.launch(kernel, Shape::rows(rows), &args) }
    }

    /// Writes values of whole words.
    fn wide(
        &mut self,
        words: usize,
        values: &Memory,
        valid: Option<&Memory>,
        at: FirstBit,
    ) -> Result<()> {
        let first = at / WORD_BITS;
        let rows = self.tuples.rows();
        let word = |word: usize| self.tuples.word(self.places[first + word]);
        let (values, valid, n) = (values.into(), valid.into(), (rows as u32).into());
        let shape = Shape::rows(rows);
        if words == 2 {
            let args = (values, valid, word(0)?.into(), word(1)?.into(), n);
            // SAFETY: `values` holds a value of two words, and `valid` a bit, for each row of the tuples; so does each
            // word of the tuples.
            return unsafe { self.stream.launch(kernels::GROUPS_SPLIT128, shape, &args) };
        }
        let [low, second, third, high] = [word(0)?, word(1)?, word(2)?, word(3)?].map(U64::from);
        let args = (values, valid, low, second, third, high, n);
        // SAFETY: as above, with values of four words.
        unsafe { self.stream.launch(kernels::GROUPS_SPLIT256, shape, &args) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_columns_share_words_and_wide_ones_take_their_own() {
        let narrow = |bits| Kind::Narrow {
            bits,
            negative_zero: 0,
        };
        let layout = Layout::new(
            [
                (narrow(32), false),
                (Kind::Wide { words: 2 }, true),
                (narrow(16), false),
                (narrow(64), true),
                (Kind::Bit, false),
            ]
            .into_iter(),
        );
        let places: Vec<(usize, Option<usize>)> = layout
            .fields
            .iter()
            .map(|field| (field.at, field.not_null))
            .collect();
        assert_eq!(
            places,
            [
                (0, None),
                (64, Some(32)),
                (33, None),
                (192, Some(49)),
                (50, None)
            ]
        );
        assert_eq!(layout.places, [0, 1, 2, 3]);
    }
}
