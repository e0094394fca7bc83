//! Groups that are runs of equal keys, for rows that are in an order of their keys already (`kernels/aggregate/group_runs.cu`): \[D\]'s segmented
//! reduction (table 1). Neither a table nor a sort is needed.
//!
//! ```text
//! a few rows ─► in order? ─► bits of the rows that begin runs, and whether all are in order ─► runs before each tile ─► results by run
//! ```

use std::sync::Arc;

use arrow::datatypes::DataType;

use crate::device::cuda::aggregate::accumulate::accumulator::{
    Accumulator, Kind, MOST_ACCUMULATORS,
};
use crate::device::cuda::aggregate::accumulate::added::{self, SORTED_ROWS, structure};
use crate::device::cuda::aggregate::results::{GroupResults, Members};
use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::layout::bitmap_bytes;
use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::storage::Storage;
use crate::device::cuda::columns::to_host::{column_to_host, words_from_host};
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::keys::key_column::{self, KeySource};
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::runtime::arguments::{Structure, U64};
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::host::keys::row_order::{RowOrder, Zeros, places};
use crate::device::primitives::device::Device;
use crate::device::primitives::rows::RowPrimitives;
use crate::error::{BowtieError, Result};
use crate::ir::strategies::GroupStrategy;

/// The most words and columns of keys, as in the kernel.
const MOST_KEYS: usize = 16;

/// `RunKeys` of the kernel: for each key its values, validity and kind; then their number.
type RunKeys = Structure<49>;

/// A key as the kernel reads it.
pub(crate) enum RunKey<'a> {
    Values(&'a Values, Kind),
    /// Words of text, in the order of the text, or of keys.
    Words(Memory, Option<&'a Memory>, Kind),
}

impl RunKey<'_> {
    /// Words of keys, without NULLs.
    pub(crate) fn of_words(words: Memory, width: Width) -> Self {
        let kind = match width {
            Width::Four => Kind::U32,
            Width::Eight => Kind::U64,
        };
        Self::Words(words, None, kind)
    }
}

/// Aggregates `rows` rows, at least one, by the runs of their keys; `None` where they are in no order of the keys, or a key has no words in device
/// memory.
pub(crate) fn by_runs<'k>(
    device: &CudaDevice,
    rows: usize,
    keys: &[&Column],
    all: &[Accumulator<'_>],
) -> Result<Option<GroupResults<'k>>> {
    let stream = &device.stream;
    if runs_at(device, keys, places(rows).collect())?.is_none() {
        return Ok(None);
    }
    let Some(heads) = heads(device, keys, rows)? else {
        return Ok(None);
    };
    let (offsets, groups) = rows::select_offsets(stream, &heads, rows)?;
    let outs = added::outs(stream, all, groups)?;
    fold(stream, (&heads, &offsets), rows, groups, all, &outs)?;
    let firsts = rows::select_at(stream, &heads, rows, &offsets, groups, None)?;
    let firsts = firsts
        .into_cuda()
        .ok_or_else(|| BowtieError::Internal("rows on the host".into()))?;
    Ok(Some(GroupResults {
        outs,
        members: Members::Rows(firsts),
        groups,
        capacity: groups,
        by: Some(GroupStrategy::Runs).into(),
    }))
}

/// Adds rows to the results of their runs, which hold the neutral elements: `heads` has the first row of each of the `groups` runs, and `offsets`
/// are those of [`rows::select_offsets`].
pub(crate) fn fold(
    stream: &Stream,
    (heads, offsets): (&Memory, &Memory),
    rows: usize,
    groups: usize,
    all: &[Accumulator<'_>],
    outs: &[Memory],
) -> Result<()> {
    let launches = all
        .chunks(MOST_ACCUMULATORS)
        .zip(outs.chunks(MOST_ACCUMULATORS));
    for (all, outs) in launches {
        let given = structure(all, outs, groups);
        let args = (
            heads.into(),
            offsets.into(),
            (rows as u32).into(),
            (&given).into(),
        );
        let shape = Shape {
            slices: all.len() as u32,
            ..Shape::blocks_of(rows, SORTED_ROWS, 256)
        };
        // SAFETY: `heads` holds a bit for each row, the first one set, in whole words, and `offsets` a word for each 8192 of them; every column of an
        // accumulator holds a value and a bit for each row; each result is allocated for `groups` groups, as many as bits are set, and holds its
        // neutral element.
        unsafe { stream.launch(kernels::GROUP_RUNS_FOLD, shape, &args)? };
    }
    Ok(())
}

/// Rows, evenly spread, that tell how many groups there are.
const SPREAD: usize = 1024;

/// Whether a sample of the rows is in order and has enough groups for runs to be faster than accumulators in shared memory.
pub(crate) fn are_many(device: &CudaDevice, keys: &[&Column], rows: usize) -> Result<bool> {
    let spread = (0..SPREAD).map(|i| i * (rows - 1) / (SPREAD - 1));
    let mut at: Vec<usize> = places(rows).chain(spread).collect();
    at.sort_unstable();
    at.dedup();
    let runs = runs_at(device, keys, at)?;
    Ok(runs.is_some_and(|runs| runs >= SPREAD * 15 / 16))
}

/// The runs of rows at these places, ascending, if they are in an order: the host looks at them.
fn runs_at(device: &CudaDevice, keys: &[&Column], at: Vec<usize>) -> Result<Option<usize>> {
    let at: Vec<u32> = at.into_iter().map(|row| row as u32).collect();
    let lease = device.fallback.budget().lease(0, "a sample")?;
    let at = words_from_host(device, &Buffer::host(at, lease), "a sample")?;
    let arrays = keys.iter().map(|key| {
        column_to_host(device, &device.gather(key, &at)?)?
            .on_host()
            .cloned()
    });
    let arrays = arrays.collect::<Result<Vec<_>>>()?;
    let order = RowOrder::any(&arrays, Zeros::Equal)?;
    let runs = order.and_then(|order| order.runs(at.len()));
    Ok(runs.map(|runs| runs.len()))
}

/// A bit for each row, set where it begins a run; `None` where rows are in no order, or a key has no words.
fn heads(device: &CudaDevice, keys: &[&Column], rows: usize) -> Result<Option<Memory>> {
    let stream = &device.stream;
    let mut texts = vec![];
    for key in keys {
        texts.push(match run_kind(key) {
            Some(_) => None,
            None => match key_column::base_key(device, key)? {
                Some(text) => Some(text),
                None => return Ok(None),
            },
        });
    }
    let mut columns = vec![];
    for (key, text) in keys.iter().zip(&texts) {
        match (run_kind(key), text) {
            (Some((values, kind)), _) => columns.push(RunKey::Values(values, kind)),
            (None, Some((text, words))) => match text.source()? {
                KeySource::Values(values) if *words == 0 => match kind_of(&values.data_type) {
                    Some(kind) => columns.push(RunKey::Values(values, kind)),
                    None => return Ok(None),
                },
                source => {
                    let Some(bytes) = source.bytes() else {
                        return Ok(None);
                    };
                    if columns.len() + *words > MOST_KEYS {
                        return Ok(None);
                    }
                    for word in 0..*words {
                        let out = stream.alloc(rows * 8, "key words")?;
                        key_column::text_word(
                            stream,
                            bytes,
                            bytes.valid,
                            (word, *words),
                            (&out).into(),
                            rows,
                        )?;
                        columns.push(RunKey::Words(out, bytes.valid, Kind::U64));
                    }
                }
            },
            (None, None) => return Ok(None),
        }
    }
    match columns.len() <= MOST_KEYS {
        true => heads_of(stream, &columns, rows),
        false => Ok(None),
    }
}

/// The same by keys of the kernel.
pub(crate) fn heads_of(
    stream: &Arc<Stream>,
    keys: &[RunKey<'_>],
    rows: usize,
) -> Result<Option<Memory>> {
    let heads = stream.alloc(bitmap_bytes(rows), "run heads")?;
    let steps = stream.zeroed(8, "run heads")?;
    let given = structure_of(keys);
    let args = (
        (&given).into(),
        (rows as u32).into(),
        (&heads).into(),
        (&steps).into(),
    );
    // SAFETY: each key has a value of its kind, and a bit, for each row; `heads` holds a bit for each in whole words; `steps` holds two words, which
    // are zero.
    unsafe {
        stream.launch(
            kernels::GROUP_RUNS_HEADS,
            Shape::blocks_of(rows, SORTED_ROWS, 256),
            &args,
        )?
    };
    let seen = stream.read_word(&steps, 0)?;
    // Of two bits of a key, those of one order have one at most.
    let is_ordered = seen & (seen >> 1) & 0x5555_5555_5555_5555 == 0;
    Ok(is_ordered.then_some(heads))
}

fn structure_of(keys: &[RunKey<'_>]) -> RunKeys {
    let mut given = [U64::ZERO; 49];
    for (key, given) in keys.iter().zip(given.chunks_exact_mut(3)) {
        let of = match key {
            RunKey::Values(values, kind) => [
                (&values.values).into(),
                values.valid.as_ref().into(),
                (*kind as u32, 0).into(),
            ],
            RunKey::Words(words, valid, kind) => {
                [words.into(), (*valid).into(), (*kind as u32, 0).into()]
            }
        };
        given.copy_from_slice(&of);
    }
    given[48] = (keys.len() as u64).into();
    Structure(given)
}

/// The values that the kernel reads in place.
fn run_kind(key: &Column) -> Option<(&Values, Kind)> {
    match key.stored()? {
        Storage::Fixed(values) => Some((values, kind_of(&values.data_type)?)),
        _ => None,
    }
}

fn kind_of(data_type: &DataType) -> Option<Kind> {
    match data_type {
        DataType::Float32 => Some(Kind::F32),
        DataType::Float64 => Some(Kind::F64),
        other => Kind::of(other),
    }
}
