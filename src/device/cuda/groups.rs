//! Group ids by equality of columns of fixed width (`kernels/groups.cu`).
//!
//! A row's values become a tuple of words that are equal where the values are: narrow columns share a word, a wide one takes
//! two or four. Group ids number the distinct tuples in order.

use std::sync::Arc;

use arrow::datatypes::DataType;

use super::CudaDevice;
use super::queue::{Arg, Memory, Queue, Shape};
use super::rows::memory;
use super::tuples::{Distinct, Significance, Tuples};
use super::values::{KeyColumn, Values, bitmap_bytes, width};
use crate::device::Device;
use crate::device::buffer::{Buffer, Column, GroupDomain};
use crate::error::{BowtieError, Result};

/// A key column where kernels read it.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyValues<'a> {
    kind: Kind,
    values: &'a Memory,
    valid: Option<&'a Memory>,
}

impl<'a> KeyValues<'a> {
    pub(super) fn of(values: &'a Values) -> Result<Self> {
        Ok(Self {
            kind: Kind::of(&values.data_type)?,
            values: &values.values,
            valid: values.valid.as_ref(),
        })
    }

    /// Ids that say which rows are equal in other columns.
    pub(super) fn ids(ids: &'a Memory) -> Self {
        Self {
            kind: Kind::Narrow {
                bits: 32,
                negative_zero: 0,
            },
            values: ids,
            valid: None,
        }
    }
}

/// How values become words.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Bit,
    /// At most 64 bits, of which one pattern equals 0.
    Narrow {
        bits: u32,
        negative_zero: u64,
    },
    /// So many words.
    Wide {
        words: usize,
    },
}

impl Kind {
    fn of(data_type: &DataType) -> Result<Self> {
        Ok(match width(data_type) {
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
            _ => {
                return Err(BowtieError::Internal(format!(
                    "{data_type} has no words on a GPU"
                )));
            }
        })
    }

    fn bits(self) -> usize {
        match self {
            Self::Bit => 1,
            Self::Narrow { bits, .. } => bits as usize,
            Self::Wide { words } => words * WORD_BITS,
        }
    }
}

/// The first bit of a field, counted from the lowest of the first word.
type FirstBit = usize;

const WORD_BITS: usize = u64::BITS as usize;

/// Where a column's values are.
#[derive(Debug, Clone, Copy)]
struct Field {
    kind: Kind,
    at: FirstBit,
    /// Whether the value is not NULL; `None` where no row of the base is NULL, or NULLs are in no group.
    not_null: Option<FirstBit>,
}

/// How columns become tuples.
#[derive(Debug)]
struct Layout {
    fields: Vec<Field>,
    /// Where in the tuple each word is.
    places: Vec<usize>,
}

impl Layout {
    /// Each field in the first word that has room for it.
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

/// The groups of a base side on a GPU, in which rows of the other side are looked up.
#[derive(Debug)]
pub(crate) struct Groups {
    layout: Layout,
    /// `None` when no row of the base is in a group.
    distinct: Option<Distinct>,
    /// The groups of the columns that do not lie on the GPU: their ids are the first column.
    on_host: Option<Box<GroupDomain>>,
}

impl Groups {
    pub(in crate::device) fn groups(&self) -> u32 {
        self.distinct.as_ref().map_or(0, |d| d.len() as u32)
    }
}

impl CudaDevice {
    /// Group ids of the rows of `base`, and their domain. Columns that do not lie on the GPU are grouped together by the twin, and
    /// the ids that it gives them are one more column.
    pub(super) fn groups(
        &self,
        base: &[&Column],
        null_equal: bool,
    ) -> Result<(Buffer<u32>, GroupDomain)> {
        let (here, on_host) = self.key_columns(base)?;
        let twins = match on_host.is_empty() {
            true => None,
            false => {
                let (ids, domain) = self.twin.group_keys(&on_host, null_equal)?;
                Some((self.words_from_host(&ids, "group ids")?, domain))
            }
        };
        if here.is_empty()
            && let Some(twins) = twins
        {
            return Ok(twins);
        }
        let rows = base.first().map_or(0, |column| column.rows());
        let ids = twins.as_ref().map(|(ids, _)| memory(ids)).transpose()?;
        let grouped = match ids {
            Some(ids) if !null_equal => Some(self.queue.bits_of_groups(ids, rows)?),
            _ => None,
        };
        let columns = key_values(ids, &here)?;
        let (ids, mut groups) = self.queue.group_keys(&columns, rows, null_equal, grouped)?;
        groups.on_host = twins.map(|(_, domain)| Box::new(domain));
        Ok((ids, GroupDomain::Cuda(groups)))
    }

    /// Group ids of other rows in a domain.
    pub(super) fn groups_in(
        &self,
        domain: &GroupDomain,
        columns: &[&Column],
    ) -> Result<Buffer<u32>> {
        let (here, on_host) = self.key_columns(columns)?;
        let from_twin = |domain: &GroupDomain| {
            let ids = self.twin.group_keys_in(domain, &on_host)?;
            self.words_from_host(&ids, "group ids")
        };
        let groups = match domain {
            GroupDomain::Host(_) => return from_twin(domain),
            GroupDomain::Cuda(groups) => groups,
        };
        let ids = groups.on_host.as_deref().map(from_twin).transpose()?;
        let rows = columns.first().map_or(0, |column| column.rows());
        let columns = key_values(ids.as_ref().map(memory).transpose()?, &here)?;
        self.queue.group_keys_in(groups, &columns, rows)
    }

    /// The columns that lie on the GPU, and those that do not.
    fn key_columns<'a>(
        &self,
        columns: &[&'a Column],
    ) -> Result<(Vec<KeyColumn<'a>>, Vec<&'a Column>)> {
        let (mut here, mut on_host) = (vec![], vec![]);
        for column in columns {
            match self.queue.key_column(column)? {
                Some(key) => here.push(key),
                None => on_host.push(*column),
            }
        }
        Ok((here, on_host))
    }
}

fn key_values<'a>(
    ids: Option<&'a Memory>,
    here: &'a [KeyColumn<'a>],
) -> Result<Vec<KeyValues<'a>>> {
    let of_ids = ids.map(|ids| Ok(KeyValues::ids(ids)));
    let here = here.iter().map(|column| KeyValues::of(column.values()));
    of_ids.into_iter().chain(here).collect()
}

impl Queue {
    /// Group ids of `rows` rows by equality of all `columns`; `grouped` are the rows that may be in a group at all, as far as
    /// the columns do not say it.
    pub(super) fn group_keys(
        self: &Arc<Self>,
        columns: &[KeyValues<'_>],
        rows: usize,
        null_equal: bool,
        grouped: Option<Memory>,
    ) -> Result<(Buffer<u32>, Groups)> {
        let mut layout = Layout::new(
            columns
                .iter()
                .map(|column| (column.kind, null_equal && column.valid.is_some())),
        );
        let tuples = self.pack(&layout, columns, rows)?;
        let kept = match null_equal {
            true => grouped,
            false => self.all_valid(columns.iter().filter_map(|c| c.valid), rows, grouped)?,
        };
        let (ids, distinct) = match self.runs(&tuples, kept.as_ref(), Significance::MostVarying)? {
            Some((runs, distinct)) => {
                drop(tuples);
                layout.places = distinct.places();
                (self.run_ids(&runs)?, Some(distinct))
            }
            None => (Buffer::cuda(self.no_groups(rows)?, rows), None),
        };
        let domain = Groups {
            layout,
            distinct,
            on_host: None,
        };
        Ok((ids, domain))
    }

    /// Group ids of other rows in a domain.
    pub(super) fn group_keys_in(
        self: &Arc<Self>,
        domain: &Groups,
        columns: &[KeyValues<'_>],
        rows: usize,
    ) -> Result<Buffer<u32>> {
        let kinds = domain.layout.fields.iter().map(|field| field.kind);
        if !kinds.eq(columns.iter().map(|column| column.kind)) {
            return Err(BowtieError::Internal(
                "key columns of different types".into(),
            ));
        }
        let Some(distinct) = &domain.distinct else {
            return Ok(Buffer::cuda(self.no_groups(rows)?, rows));
        };
        let tuples = self.pack(&domain.layout, columns, rows)?;
        // A NULL is in a group only where the base has one in the same column.
        let refused = columns
            .iter()
            .zip(&domain.layout.fields)
            .filter(|(_, field)| field.not_null.is_none())
            .filter_map(|(column, _)| column.valid);
        let valid = self.all_valid(refused, rows, None)?;
        self.find_ids(Some(distinct), &tuples, valid.as_ref())
    }

    /// The rows that are valid in all bitmaps and set in `rows_set`; `None` where that is every row.
    fn all_valid<'a>(
        self: &Arc<Self>,
        bitmaps: impl Iterator<Item = &'a Memory>,
        rows: usize,
        rows_set: Option<Memory>,
    ) -> Result<Option<Memory>> {
        let mut all = rows_set;
        for valid in bitmaps {
            let both = self.bits_and(all.as_ref().unwrap_or(valid), valid, rows)?;
            all = Some(both);
        }
        Ok(all)
    }

    fn pack(
        self: &Arc<Self>,
        layout: &Layout,
        columns: &[KeyValues<'_>],
        rows: usize,
    ) -> Result<Tuples> {
        let mut packing = Packing {
            queue: self,
            tuples: self.tuples(rows, layout.places.len())?,
            places: &layout.places,
            begun: vec![false; layout.places.len()],
        };
        for (column, field) in columns.iter().zip(&layout.fields) {
            // A NULL's value must not tell it from another.
            let valid = field.not_null.and(column.valid);
            match field.kind {
                Kind::Bit => packing.bits(column.values, valid, field.at)?,
                Kind::Narrow {
                    bits,
                    negative_zero,
                } => {
                    let kernel = match bits {
                        8 => "groups_pack8",
                        16 => "groups_pack16",
                        32 => "groups_pack32",
                        _ => "groups_pack64",
                    };
                    let source = [column.values.into(), valid.into(), negative_zero.into()];
                    packing.field(kernel, &source, field.at)?;
                }
                Kind::Wide { words } => packing.wide(words, column.values, valid, field.at)?,
            }
            match (field.not_null, column.valid) {
                (Some(at), Some(valid)) => packing.bits(valid, None, at)?,
                (Some(at), None) => {
                    let all = self.filled(bitmap_bytes(rows), 0xFF, "validity")?;
                    packing.bits(&all, None, at)?;
                }
                (None, _) => {}
            }
        }
        Ok(packing.tuples)
    }
}

/// Tuples, as one column after the other is written to them.
struct Packing<'a> {
    queue: &'a Arc<Queue>,
    tuples: Tuples,
    places: &'a [usize],
    /// Which words hold a field already.
    begun: Vec<bool>,
}

impl Packing<'_> {
    fn word(&self, word: usize) -> Arg {
        self.tuples.word(self.places[word]).into()
    }

    /// One bit a row; the common ones of two bitmaps.
    fn bits(&mut self, bits: &Memory, valid: Option<&Memory>, at: FirstBit) -> Result<()> {
        self.field("groups_pack_bool", &[bits.into(), valid.into()], at)
    }

    /// A field beside those that its word holds.
    fn field(&mut self, kernel: &'static str, source: &[Arg], at: FirstBit) -> Result<()> {
        let word = at / WORD_BITS;
        let add = std::mem::replace(&mut self.begun[word], true);
        let rows = self.tuples.rows();
        let mut args = source.to_vec();
        args.extend([
            Arg::from((at % WORD_BITS) as u32),
            u32::from(add).into(),
            self.word(word),
            (rows as u32).into(),
        ]);
        // SAFETY: a column holds as many values, of the kernel's width, as the tuples have rows, and its bitmaps as many bits; so
        // does a word of the tuples.
        unsafe { self.queue.launch(kernel, Shape::rows(rows), &args) }
    }

    /// Values of whole words.
    fn wide(
        &mut self,
        words: usize,
        values: &Memory,
        valid: Option<&Memory>,
        at: FirstBit,
    ) -> Result<()> {
        let first = at / WORD_BITS;
        let kernel = match words {
            2 => "groups_split128",
            _ => "groups_split256",
        };
        let rows = self.tuples.rows();
        let mut args: Vec<Arg> = vec![values.into(), valid.into()];
        args.extend((first..first + words).map(|word| self.word(word)));
        args.push((rows as u32).into());
        // SAFETY: `values` holds as many values of so many words as the tuples have rows, and `valid` as many bits; so does each
        // word of the tuples.
        unsafe { self.queue.launch(kernel, Shape::rows(rows), &args) }
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
