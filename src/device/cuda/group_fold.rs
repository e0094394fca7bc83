//! Aggregates over groups of rows (`kernels/group_dense.cu`, `kernels/group_out.cu`; \[W\] section 3.2).
//!
//! ```text
//! key columns ─► tuples of words ─► dense group ids, by hashing ─► accumulators by group ─► columns
//! ```
//!
//! Blocks accumulate in shared memory and hand over at the end, where so many groups fit; teams of blocks share the groups out
//! among them where they do not, and beyond that accumulators lie in global memory.

use std::sync::Arc;

use arrow::datatypes::DataType;

use super::CudaDevice;
use super::group_places::Places;
use super::key_words::Layout;
use super::queue::{Arg, Given, Memory, Queue, Shape, Structure};
use super::range::valid_memory;
use super::rows::memory;
use super::stored::Stored;
use super::values::{Values, bitmap_bytes, width};
use crate::device::Device;
use crate::device::buffer::{Aggregated, Buffer, Column, Keys};
use crate::error::{BowtieError, Result};
use crate::spec::Fold;

/// What an accumulator does with a row (`Update` of `kernels/group_codes.cuh`).
#[derive(Debug, Clone, Copy, PartialEq)]
enum Update {
    Count = 0,
    Sum = 1,
    Sum128 = 2,
    Sum256 = 3,
    SumF64 = 4,
    And = 9,
    Or = 10,
    Xor = 11,
    FirstRow = 12,
    ArgMin = 14,
    ArgMax = 15,
}

impl Update {
    /// Words of 32 bits that it takes in shared memory.
    fn shared_words(self) -> usize {
        match self {
            Self::Count | Self::FirstRow | Self::ArgMin | Self::ArgMax => 1,
            Self::Sum | Self::SumF64 | Self::And | Self::Or | Self::Xor => 2,
            Self::Sum128 => 4,
            Self::Sum256 => 8,
        }
    }

    /// Bytes of its result for a group.
    fn bytes(self) -> usize {
        match self {
            Self::FirstRow | Self::ArgMin | Self::ArgMax => 4,
            Self::Sum128 => 16,
            Self::Sum256 => 32,
            _ => 8,
        }
    }

    /// Every byte of a result that nothing was added to.
    fn neutral(self) -> u8 {
        match self {
            Self::And | Self::FirstRow | Self::ArgMin | Self::ArgMax => 0xFF,
            _ => 0,
        }
    }
}

/// How values are read (`Kind` of `kernels/group_codes.cuh`).
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Bit = 0,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    /// Read by sums alone: extremes go by order keys.
    F64 = 10,
    I128,
    I256,
}

impl Kind {
    /// Of numbers and times that compare as their words do.
    fn of(data_type: &DataType) -> Option<Self> {
        use DataType::*;
        Some(match data_type {
            Boolean => Self::Bit,
            UInt8 => Self::U8,
            UInt16 => Self::U16,
            UInt32 => Self::U32,
            UInt64 => Self::U64,
            Int8 => Self::I8,
            Int16 => Self::I16,
            Int32 | Date32 | Time32(_) | Decimal32(..) => Self::I32,
            Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => Self::I64,
            Decimal128(..) => Self::I128,
            Decimal256(..) => Self::I256,
            _ => return None,
        })
    }
}

/// Most accumulators of a launch.
const MOST_ACCUMULATORS: usize = 16;

/// An accumulator, and its result by group.
#[derive(Debug)]
struct Accumulator<'a> {
    update: Update,
    kind: Kind,
    values: Option<&'a Memory>,
    /// Bits of the rows that count; all, if there are none.
    valid: Option<&'a Memory>,
    out: Memory,
}

/// What a fold reads.
#[derive(Debug)]
enum Source<'a> {
    /// Which rows have a value is enough.
    Valid(Option<&'a Memory>),
    Values(&'a Values, Kind),
    /// The order keys of the values.
    Keys(Keys),
}

impl Source<'_> {
    fn memory(&self) -> Result<(Option<&Memory>, Option<&Memory>, Kind)> {
        Ok(match self {
            Self::Valid(valid) => (None, *valid, Kind::U64),
            Self::Values(values, kind) => (Some(&values.values), values.valid.as_ref(), *kind),
            Self::Keys(keys) => (
                Some(memory(&keys.values)?),
                valid_memory(keys.valid.as_ref())?,
                Kind::U64,
            ),
        })
    }
}

impl CudaDevice {
    /// Groups of `rows` rows, of which there is one at least, and the folds over each; `None` where the twin must fold a column.
    pub(super) fn aggregate_here(
        &self,
        rows: usize,
        keys: &[&Column],
        folds: &[(Fold, Option<&Column>)],
    ) -> Result<Option<Aggregated>> {
        let mut sources = Vec::with_capacity(folds.len());
        for (fold, values) in folds {
            match self.source(*fold, *values)? {
                Some(source) => sources.push(source),
                None => return Ok(None),
            }
        }
        let queue = &self.queue;
        let (ids, groups) = match keys {
            [] => (queue.zeroed(rows * 4, "group ids")?, 1),
            keys => {
                let base = self.base_keys(keys, true)?;
                let columns = base.values()?;
                let layout = Layout::of(&columns, true);
                queue.hashed_ids(&queue.pack(&layout, &columns, rows)?)?
            }
        };

        let mut all = vec![queue.accumulator(Update::FirstRow, (None, None, Kind::U64), groups)?];
        // Which accumulator a fold is, and which counts the values that it folds.
        let mut places = Vec::with_capacity(folds.len());
        for ((fold, _), source) in folds.iter().zip(&sources) {
            let read = source.memory()?;
            let (_, valid, kind) = read;
            let counted = match fold {
                // An extreme's row says it.
                Fold::Count | Fold::Min | Fold::Max => None,
                _ if valid.is_none() => None,
                _ => {
                    let count = (None, valid, Kind::U64);
                    all.push(queue.accumulator(Update::Count, count, groups)?);
                    Some(all.len() - 1)
                }
            };
            places.push((all.len(), counted));
            all.push(queue.accumulator(update_of(*fold, kind), read, groups)?);
        }
        for some in all.chunks(MOST_ACCUMULATORS) {
            queue.accumulate(&ids, rows, groups, some)?;
        }
        drop(ids);

        let mut outs: Vec<Option<Memory>> = all.into_iter().map(|of| Some(of.out)).collect();
        let mut take = |at: usize| {
            outs[at]
                .take()
                .ok_or_else(|| BowtieError::Internal("a result is taken twice".into()))
        };
        let mut states = Vec::with_capacity(folds.len());
        for ((fold, values), (at, counted)) in folds.iter().zip(places) {
            let valid = match counted {
                Some(counted) => Some(queue.nonzero_bits(&take(counted)?, groups)?),
                None => None,
            };
            states.push(self.state(*fold, *values, take(at)?, valid, groups)?);
        }
        Ok(Some(Aggregated {
            firsts: Buffer::cuda(take(0)?, groups),
            states,
        }))
    }

    /// `None` where the twin must fold the column.
    fn source<'a>(&self, fold: Fold, values: Option<&'a Column>) -> Result<Option<Source<'a>>> {
        let Some(column) = values else {
            return Ok(Some(Source::Valid(None)));
        };
        let Some(stored) = column.stored() else {
            return Ok(None);
        };
        Ok(match (fold, stored) {
            (Fold::Count, Stored::Fixed(values)) => Some(Source::Valid(values.valid.as_ref())),
            (Fold::Count, Stored::Text(text)) => Some(Source::Valid(text.valid.as_ref())),
            (Fold::Sum, Stored::Fixed(values)) => match values.data_type {
                DataType::Float64 => Some(Source::Values(values, Kind::F64)),
                _ => Kind::of(&values.data_type).map(|kind| Source::Values(values, kind)),
            },
            (Fold::And | Fold::Or | Fold::Xor, Stored::Fixed(values)) => {
                Kind::of(&values.data_type).map(|kind| Source::Values(values, kind))
            }
            (Fold::Min | Fold::Max, Stored::Fixed(values)) => match Kind::of(&values.data_type) {
                Some(kind) => Some(Source::Values(values, kind)),
                None => Some(Source::Keys(self.order_keys(column)?.0)),
            },
            // Gathering knows no row that is none.
            (Fold::Min | Fold::Max, Stored::Text(text)) if text.valid.is_none() => {
                Some(Source::Keys(self.order_keys(column)?.0))
            }
            _ => None,
        })
    }

    /// The column of a result.
    fn state(
        &self,
        fold: Fold,
        values: Option<&Column>,
        out: Memory,
        valid: Option<Memory>,
        groups: usize,
    ) -> Result<Column> {
        let queue = &self.queue;
        let (data_type, values) = match (fold, values) {
            (Fold::Count, _) => (DataType::Int64, out),
            (Fold::Min | Fold::Max, Some(values)) => {
                return self.gather(values, &Buffer::cuda(out, groups));
            }
            (_, Some(values)) => {
                let Some(Stored::Fixed(of)) = values.stored() else {
                    return Err(BowtieError::Internal("a fold of no values".into()));
                };
                (
                    of.data_type.clone(),
                    queue.of_words(&of.data_type, out, groups)?,
                )
            }
            (_, None) => return Err(BowtieError::Internal("a fold of nothing".into())),
        };
        let values = Values {
            data_type,
            values,
            valid,
            original: None,
            made: Some(queue.mark()?),
        };
        Ok(Column::cuda(values, groups))
    }
}

fn update_of(fold: Fold, kind: Kind) -> Update {
    match (fold, kind) {
        (Fold::Count, _) => Update::Count,
        (Fold::Sum, Kind::F64) => Update::SumF64,
        (Fold::Sum, Kind::I128) => Update::Sum128,
        (Fold::Sum, Kind::I256) => Update::Sum256,
        (Fold::Sum, _) => Update::Sum,
        (Fold::Min, _) => Update::ArgMin,
        (Fold::Max, _) => Update::ArgMax,
        (Fold::And, _) => Update::And,
        (Fold::Or, _) => Update::Or,
        (Fold::Xor, _) => Update::Xor,
    }
}

/// Rows that a warp of `group_dense` takes at once.
const CLAIM_ROWS: usize = 2048;
const THREADS: u32 = 1024;

impl Queue {
    fn accumulator<'a>(
        self: &Arc<Self>,
        update: Update,
        (values, valid, kind): (Option<&'a Memory>, Option<&'a Memory>, Kind),
        groups: usize,
    ) -> Result<Accumulator<'a>> {
        Ok(Accumulator {
            update,
            kind,
            values,
            valid,
            out: self.filled(groups * update.bytes(), update.neutral(), "aggregates")?,
        })
    }

    /// Adds `rows` rows of the groups `ids`, all below `groups`, to the accumulators.
    fn accumulate(
        self: &Arc<Self>,
        ids: &Memory,
        rows: usize,
        groups: usize,
        all: &[Accumulator<'_>],
    ) -> Result<()> {
        let nothing = Arg::from(0u64);
        let mut given = [nothing; 98];
        let mut words = 0;
        for (of, given) in all.iter().zip(given.chunks_exact_mut(6)) {
            given.copy_from_slice(&[
                of.values.into(),
                of.valid.into(),
                nothing,
                (&of.out).into(),
                (of.update as u32, of.kind as u32).into(),
                (words as u32, 0).into(),
            ]);
            words += of.update.shared_words();
        }
        given[96] = (all.len() as u32).into();
        given[97] = (groups as u64).into();
        let given = Structure(given);
        let places = Places::of(groups, words, self.gpu.shared_bytes as usize);
        let blocks = (self.gpu.multiprocessors as usize).min(rows.div_ceil(CLAIM_ROWS));
        let claims = self.zeroed(32 * 4, "aggregates")?;
        let everything: Option<&Memory> = None;
        let args = [
            ids.into(),
            0u32.into(),
            (groups as u32).into(),
            everything.into(),
            (rows as u32).into(),
            (&claims).into(),
            Given::Accumulators(&given),
            (places.hot as u32).into(),
            (places.plain as u32).into(),
            (places.teams as u32).into(),
        ];
        let shape = Shape {
            blocks: (blocks / places.teams * places.teams).max(places.teams) as u32,
            slices: 1,
            threads: THREADS,
            shared: places.bytes(words) as u32,
        };
        // SAFETY: `ids` holds a word a row, as many values and bits every column of an accumulator; each result has room for
        // `groups`, and holds its neutral element; the claims are clear; and the shared memory is that of the places.
        unsafe { self.launch_given("group_dense", shape, &args) }
    }

    /// Which of `n` words are not 0.
    fn nonzero_bits(self: &Arc<Self>, words: &Memory, n: usize) -> Result<Memory> {
        let bits = self.alloc(bitmap_bytes(n), "validity")?;
        let args = [words.into(), (&bits).into(), (n as u32).into()];
        // SAFETY: `words` holds n words of 64 bits, `bits` as many bits.
        unsafe { self.launch("group_out_bits", Shape::rows(n), &args)? };
        Ok(bits)
    }

    /// Values of a type from the words of its folds.
    fn of_words(self: &Arc<Self>, data_type: &DataType, words: Memory, n: usize) -> Result<Memory> {
        let (kernel, items) = match width(data_type) {
            Some(0) => return self.nonzero_bits(&words, n),
            Some(1) => ("group_out_narrow8", n),
            Some(2) => ("group_out_narrow16", n),
            Some(4) => ("group_out_narrow32", n),
            Some(8) => return Ok(words),
            Some(16) => ("group_out_join128", n),
            Some(32) => ("group_out_join256", 2 * n),
            _ => {
                return Err(BowtieError::Internal(format!(
                    "{data_type} has no words on a GPU"
                )));
            }
        };
        let bytes = width(data_type).unwrap_or_default() * n;
        let out = self.alloc(bytes, "aggregates")?;
        let args = [(&words).into(), (&out).into(), (n as u32).into()];
        // SAFETY: `words` holds as many words for each of n values as the kernel reads; `out` has room for the values.
        unsafe { self.launch(kernel, Shape::rows(items), &args)? };
        Ok(out)
    }
}
