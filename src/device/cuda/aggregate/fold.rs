//! Grouped aggregation (\[W\] 3.2 and 4.2 to 4.4): from columns to accumulators, and from the accumulators' results to
//! columns (`kernels/aggregate/group_out.cu`). `strategies.rs` assigns rows to groups.

use std::sync::Arc;

use arrow::datatypes::DataType;

use crate::device::cuda::aggregate::accumulate::accumulator::{Accumulator, Kind, Update};
use crate::device::cuda::aggregate::decode_keys;
use crate::device::cuda::aggregate::results::{GroupResults, Members};
use crate::device::cuda::aggregate::short_text::{self, TextCodes};
use crate::device::cuda::aggregate::strategies;
use crate::device::cuda::aggregate::variance::{self, Moments};
use crate::device::cuda::aggregate::{dependent_keys, strategy_run};
use crate::device::cuda::codegen::filter::distinct;
use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::layout::{bitmap_bytes, width};
use crate::device::cuda::columns::storage::Storage;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::equi::materialize;
use crate::device::cuda::keys::order_keys;
use crate::device::cuda::runtime::access::{memory, valid_memory};
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::data::results::Aggregated;
use crate::device::primitives::keys::KeyPrimitives;
use crate::device::primitives::rows::RowPrimitives;
use crate::error::{BowtieError, Result};
use crate::ir::fold::Fold;
use crate::ir::strategies::{GroupStrategy, Grouping};

/// The input of an aggregate.
#[derive(Debug)]
enum Source<'a> {
    /// Only which rows have a value.
    Valid(Option<&'a Memory>),
    Values(&'a Values, Kind),
    /// Floats, in two passes for mean and squared deviations.
    Moments(&'a Values),
    /// The order keys of the values, for MIN and MAX.
    Keys(Keys),
}

/// Where the result of an aggregate is.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// The accumulator's index, and the index of the accumulator that counts its values, if one does.
    Out(usize, Option<usize>),
    /// The index of the moments, and the result: the mean (0) or the squared deviations (1).
    Moment(usize, usize),
}

fn already_taken() -> BowtieError {
    BowtieError::Internal("a result was already taken".into())
}

impl Source<'_> {
    fn memory(&self) -> Result<(Option<&Memory>, Option<&Memory>, Kind)> {
        Ok(match self {
            Self::Valid(valid) => (None, *valid, Kind::U64),
            Self::Moments(_) => return Err(BowtieError::Internal("moments of one pass".into())),
            Self::Values(values, kind) => (Some(&values.values), values.valid.as_ref(), *kind),
            Self::Keys(keys) => (
                Some(memory(&keys.values)?),
                valid_memory(keys.valid.as_ref())?,
                Kind::U64,
            ),
        })
    }
}

/// Groups `rows` rows, at least one, and computes the aggregates of each group; `None` where the host fallback must
/// aggregate a column.
pub(crate) fn aggregate_on_gpu(
    device: &CudaDevice,
    rows: usize,
    keys: &[&Column],
    folds: &[(Fold, Option<&Column>)],
    wanted: Grouping,
) -> Result<Option<Aggregated>> {
    // A presorted column needs neither ranges nor ids: equal keys are adjacent.
    if let ([key], [], None) = (keys, folds, wanted.strategy)
        && let Some(distinct) = distinct::distinct_of_ascending(device, key)?
    {
        return Ok(Some(Aggregated {
            groups: distinct.rows(),
            keys: vec![distinct],
            states: vec![],
            by: Some(GroupStrategy::Sort).into(),
        }));
    }
    let mut sources = Vec::with_capacity(folds.len());
    for (fold, values) in folds {
        match source(device, *fold, *values)? {
            Some(source) => sources.push(source),
            None => return Ok(None),
        }
    }
    let mut all = vec![];
    // For each aggregate its accumulator, and the accumulator that counts its values.
    let mut places = Vec::with_capacity(folds.len());
    let mut moments: Vec<Moments<'_>> = vec![];
    for ((fold, _), source) in folds.iter().zip(&sources) {
        if let Source::Moments(values) = source {
            // The mean and the squared deviations of a variance share one pass.
            let known = moments.last().is_some_and(|last| last.is_of(values));
            if *fold == Fold::Mean || !known {
                moments.push(Moments::push(values, &mut all));
            }
            let of = usize::from(*fold == Fold::SquaredDeviations);
            places.push(Place::Moment(moments.len() - 1, of));
            continue;
        }
        let (values, valid, kind) = source.memory()?;
        let counted = match fold {
            // For an extreme, a row id or none tells it.
            Fold::Count | Fold::Min | Fold::Max => None,
            _ if valid.is_none() => None,
            _ => {
                all.push(Accumulator::of_rows(Update::Count, valid));
                Some(all.len() - 1)
            }
        };
        places.push(Place::Out(all.len(), counted));
        all.push(Accumulator {
            update: update_of(*fold, kind)?,
            kind,
            values,
            valid,
            centers: None,
        });
    }
    let made = short_text::text_as_integers(device, keys, rows)?;
    let numbers = TextCodes::of(keys, &made);
    let ids = match moments.is_empty() {
        true => None,
        false => Some(dependent_keys::ids_by_keys(device, rows, &numbers.columns)?),
    };
    let GroupResults {
        outs,
        members,
        groups,
        capacity,
        by,
    } = match &ids {
        None => strategies::accumulated(device, rows, &numbers, &all, wanted)?,
        Some((ids, groups)) => strategy_run::accumulated_by(device, rows, ids, *groups, &all)?,
    };
    let mut moments = match &ids {
        None => vec![],
        Some((ids, groups)) => moments
            .iter()
            .map(|of| variance::moments(device, of, rows, (ids, *groups), &outs))
            .collect::<Result<_>>()?,
    };

    let mut outs: Vec<Option<Memory>> = outs.into_iter().map(Some).collect();
    let mut take = |at: usize| outs[at].take().ok_or_else(already_taken);
    let mut states = Vec::with_capacity(folds.len());
    for ((fold, values), place) in folds.iter().zip(places) {
        let (at, counted) = match place {
            Place::Out(at, counted) => (at, counted),
            Place::Moment(at, of) => {
                let moment: Option<Column> = moments[at][of].take();
                states.push(moment.ok_or_else(already_taken)?);
                continue;
            }
        };
        let valid = match counted {
            Some(counted) => Some(nonzero_bits(&device.stream, &take(counted)?, groups)?),
            None => None,
        };
        states.push(state(
            device,
            *fold,
            *values,
            take(at)?,
            valid,
            (groups, capacity),
        )?);
    }
    let keys = match members {
        Members::Rows(firsts) => {
            let firsts = Buffer::cuda(firsts, groups);
            let keys = keys.iter().map(|key| device.gather(key, &firsts));
            keys.collect::<Result<_>>()?
        }
        Members::Ids(of, numbers) => {
            decode_keys::direct_keys(&device.stream, &of, numbers.as_ref(), groups)?
        }
        Members::Values(of, values) => {
            vec![decode_keys::found_keys(&device.stream, of, values, groups)?]
        }
    };
    Ok(Some(Aggregated {
        groups,
        keys,
        states,
        by,
    }))
}

/// `None` where the host fallback must aggregate the column.
fn source<'a>(
    device: &CudaDevice,
    fold: Fold,
    values: Option<&'a Column>,
) -> Result<Option<Source<'a>>> {
    let Some(column) = values else {
        return Ok(Some(Source::Valid(None)));
    };
    let Some(stored) = column.stored() else {
        return Ok(None);
    };
    Ok(match (fold, stored) {
        (Fold::Count, Storage::Fixed(values)) => Some(Source::Valid(values.valid.as_ref())),
        (Fold::Count, Storage::Text(text)) => Some(Source::Valid(text.valid.as_ref())),
        (Fold::Sum, Storage::Fixed(values)) => match values.data_type {
            DataType::Float64 => Some(Source::Values(values, Kind::F64)),
            _ => Kind::of(&values.data_type).map(|kind| Source::Values(values, kind)),
        },
        (Fold::Mean | Fold::SquaredDeviations, Storage::Fixed(values)) => {
            (values.data_type == DataType::Float64).then_some(Source::Moments(values))
        }
        (Fold::And | Fold::Or | Fold::Xor, Storage::Fixed(values)) => {
            Kind::of(&values.data_type).map(|kind| Source::Values(values, kind))
        }
        (Fold::Min | Fold::Max, Storage::Fixed(values)) => match Kind::of(&values.data_type) {
            Some(kind) => Some(Source::Values(values, kind)),
            None => Some(Source::Keys(
                match order_keys::total_keys(&device.stream, values, column.rows())? {
                    Some(floats) => floats,
                    None => device.order_keys(column)?.0,
                },
            )),
        },
        // A gather cannot produce NULL for a group without a value.
        (Fold::Min | Fold::Max, Storage::Text(text)) if text.valid.is_none() => {
            Some(Source::Keys(device.order_keys(column)?.0))
        }
        _ => None,
    })
}

/// The output column of an accumulator's result, which was allocated for `capacity` groups.
fn state(
    device: &CudaDevice,
    fold: Fold,
    values: Option<&Column>,
    out: Memory,
    valid: Option<Memory>,
    (groups, capacity): (usize, usize),
) -> Result<Column> {
    let stream = &device.stream;
    let (data_type, values) = match (fold, values) {
        (Fold::Count, _) => (DataType::Int64, out),
        (Fold::Min | Fold::Max, Some(values)) => {
            return device.gather(values, &Buffer::cuda(out, groups));
        }
        (_, Some(values)) => {
            let Some(Storage::Fixed(of)) = values.stored() else {
                return Err(BowtieError::Internal("a fold without values".into()));
            };
            (
                of.data_type.clone(),
                of_words(stream, &of.data_type, out, capacity)?,
            )
        }
        (_, None) => return Err(BowtieError::Internal("a fold without a column".into())),
    };
    let bytes = match width(&data_type).unwrap_or_default() {
        0 => bitmap_bytes(groups),
        width => groups * width,
    };
    let values = Values {
        data_type,
        // The allocation was for the capacity, not for the groups found.
        values: materialize::shrunk(stream, values, bytes)?,
        valid,
        original: None,
        made: Some(stream.mark()?),
    };
    Ok(Column::cuda(values, groups))
}

fn update_of(fold: Fold, kind: Kind) -> Result<Update> {
    Ok(match (fold, kind) {
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
        (Fold::Mean | Fold::SquaredDeviations, _) => {
            return Err(BowtieError::Internal(format!("{fold:?} of one pass")));
        }
    })
}

/// A bitmap of which of `n` words of 64 bits are not 0.
pub(crate) fn nonzero_bits(stream: &Arc<Stream>, words: &Memory, n: usize) -> Result<Memory> {
    let bits = stream.alloc(bitmap_bytes(n), "validity")?;
    let args = (words.into(), (&bits).into(), (n as u32).into());
    // SAFETY: `words` holds n words of 64 bits; `bits` holds n bits.
    unsafe { stream.launch(kernels::GROUP_OUT_BITS, Shape::rows(n), &args)? };
    Ok(bits)
}

/// Values of a type from the accumulators' words: narrowed, or joined from several words.
fn of_words(stream: &Arc<Stream>, data_type: &DataType, words: Memory, n: usize) -> Result<Memory> {
    let (kernel, items) = match width(data_type) {
        Some(0) => return nonzero_bits(stream, &words, n),
        Some(1) => (kernels::GROUP_OUT_NARROW8, n),
        Some(2) => (kernels::GROUP_OUT_NARROW16, n),
        Some(4) => (kernels::GROUP_OUT_NARROW32, n),
        Some(8) => return Ok(words),
        Some(16) => (kernels::GROUP_OUT_JOIN128, n),
        Some(32) => (kernels::GROUP_OUT_JOIN256, 2 * n),
        _ => {
            return Err(BowtieError::Internal(format!(
                "{data_type} has no words on a GPU"
            )));
        }
    };
    let bytes = width(data_type).unwrap_or_default() * n;
    let out = stream.alloc(bytes, "aggregates")?;
    let args = ((&words).into(), (&out).into(), (n as u32).into());
    // SAFETY: `words` holds the number of words for each of n values that the kernel reads; `out` has memory for n
    // values.
    unsafe { stream.launch(kernel, Shape::rows(items), &args)? };
    Ok(out)
}
