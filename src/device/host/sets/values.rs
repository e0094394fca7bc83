//! The value of a set function for pairs of rows, by the encoded sets of both sides.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{Float64Type, Int64Type};
use rayon::prelude::*;

use crate::device::budget::{Budget, Lease};
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::host::pace::CancelCheck;
use crate::device::host::sets::encode::encoding::Sets;
use crate::device::host::sets::finder::{Finder, SetIndex, lists_of};
use crate::device::host::sets::pair_overlaps::{NOWHERE, RowPairs};
use crate::error::Result;
use crate::ir::set_predicate::SetValue;

/// The sets of the probe side, and the place of each row of both sides.
#[derive(Debug)]
pub(crate) struct ProbeSets {
    pub(crate) sets: Sets,
    pub(crate) places: Vec<u32>,
    pub(crate) indexed_places: Vec<u32>,
    _lease: Lease,
}

/// Encodes the lists of the probe side, with the groups of its rows.
pub(crate) fn probe_sets(
    budget: &Arc<Budget>,
    index: &SetIndex,
    column: &Column,
    groups: Option<&Buffer<u32>>,
    check_cancelled: CancelCheck<'_>,
) -> Result<ProbeSets> {
    let rows = column.rows();
    let lease = budget.lease((rows + index.rows) as u64 * 4, "places of sets")?;
    let (lists, plain) = lists_of(budget, column, &[])?;
    let ids = groups.map(|ids| ids.on_host()).transpose()?;
    let ids = ids.map(AsRef::as_ref);
    let sets = index
        .domain
        .encode(budget, rows, &lists, ids, check_cancelled)?;
    drop((lists, plain));
    Ok(ProbeSets {
        places: places(&sets, rows),
        indexed_places: places(&index.sets, index.rows),
        sets,
        _lease: lease,
    })
}

fn places(sets: &Sets, rows: usize) -> Vec<u32> {
    let mut places = vec![NOWHERE; rows];
    for place in 0..sets.len() {
        for row in sets.members.of(place) {
            places[*row as usize] = place as u32;
        }
    }
    places
}

/// The value of each pair of an indexed row and a probe row: Int64 of an overlap, Float64 of a degree. NULL where a row has no set.
pub(crate) fn set_values(
    budget: &Arc<Budget>,
    index: &SetIndex,
    probe: &ProbeSets,
    (indexed_rows, probe_rows): (&Buffer<u32>, &Buffer<u32>),
    value: SetValue,
    check_cancelled: CancelCheck<'_>,
) -> Result<Column> {
    let pairs = probe_rows.len();
    let lease = budget.lease(pairs as u64 * 9, "values of sets")?;
    // Of the sets that a predicate found a row meets few.
    let postings = match index.finder {
        Finder::Intersect(_) => {
            let sets = (&index.sets, index.universe);
            index.counted.of(sets, pairs, budget, check_cancelled)?
        }
        _ => None,
    };
    let pairs = RowPairs {
        indexed: &index.sets,
        probe: &probe.sets,
        indexed_places: &probe.indexed_places,
        probe_places: &probe.places,
        indexed_rows: indexed_rows.on_host()?,
        probe_rows: probe_rows.on_host()?,
        postings,
    };
    let array: ArrayRef = match value {
        SetValue::Overlap => Arc::new(of_pairs::<Int64Type>(&pairs, |shared, _| shared as i64)),
        SetValue::Degree(measure) => Arc::new(of_pairs::<Float64Type>(&pairs, |shared, (a, b)| {
            measure.degree(shared, a, b)
        })),
    };
    Ok(Column::host(array, lease))
}

/// The values of all pairs, of their overlaps and sizes.
fn of_pairs<T: ArrowPrimitiveType>(
    pairs: &RowPairs<'_>,
    value: impl Fn(u64, (u64, u64)) -> T::Native + Sync,
) -> PrimitiveArray<T> {
    let parts: Vec<(Vec<T::Native>, Vec<bool>)> = pairs
        .tasks()
        .into_par_iter()
        .map_init(Vec::new, |counts, task| {
            let mut values = Vec::with_capacity(task.len());
            let mut valid = Vec::with_capacity(task.len());
            pairs.for_each(task, counts, &mut |overlap| {
                values.push(match overlap {
                    Some((shared, sizes)) => value(shared, sizes),
                    None => T::default_value(),
                });
                valid.push(overlap.is_some());
            });
            (values, valid)
        })
        .collect();
    let has_nulls = parts.iter().any(|(_, valid)| valid.contains(&false));
    let valid = has_nulls.then(|| parts.iter().flat_map(|(_, valid)| valid).copied());
    let valid = valid.map(NullBuffer::from_iter);
    let values: Vec<T::Native> = parts
        .iter()
        .flat_map(|(values, _)| values)
        .copied()
        .collect();
    PrimitiveArray::new(values.into(), valid)
}
