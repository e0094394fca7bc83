//! The value of a set function for pairs of rows, by the encoded sets of both sides.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array};
use rayon::prelude::*;

use crate::device::budget::{Budget, Lease};
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::host::pace::CancelCheck;
use crate::device::host::sets::encode::encoding::Sets;
use crate::device::host::sets::finder::{SetIndex, lists_of};
use crate::device::host::sets::techniques::verify::overlap;
use crate::error::{BowtieError, Result};
use crate::ir::set_predicate::SetValue;

/// The place of a row without a set.
const NOWHERE: u32 = u32::MAX;

/// Pairs that one task computes.
const TASK_PAIRS: usize = 1 << 12;

/// The sets of the probe side, and the place of each row of both sides.
#[derive(Debug)]
pub(crate) struct ProbeSets {
    sets: Sets,
    places: Vec<u32>,
    indexed_places: Vec<u32>,
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

/// The value of each pair of an indexed row and a probe row: Int64 of an overlap, Float64 of a degree.
pub(crate) fn set_values(
    budget: &Arc<Budget>,
    index: &SetIndex,
    probe: &ProbeSets,
    (indexed_rows, probe_rows): (&Buffer<u32>, &Buffer<u32>),
    value: SetValue,
) -> Result<Column> {
    let pairs = probe_rows.len();
    let lease = budget.lease(pairs as u64 * 8, "values of sets")?;
    let (indexed_rows, probe_rows) = (indexed_rows.on_host()?, probe_rows.on_host()?);
    let sizes = |at: usize| -> Result<(u64, u64, u64)> {
        let place = probe.places[probe_rows[at] as usize];
        let indexed = probe.indexed_places[indexed_rows[at] as usize];
        if place == NOWHERE || indexed == NOWHERE {
            return Err(BowtieError::Internal(
                "a match of a row without a set".into(),
            ));
        }
        let (place, indexed) = (place as usize, indexed as usize);
        let shared = overlap(probe.sets.get(place), index.sets.get(indexed));
        Ok((
            shared as u64,
            probe.sets.size(place),
            index.sets.size(indexed),
        ))
    };
    let array: ArrayRef = match value {
        SetValue::Overlap => {
            let values = of_pairs(pairs, |at| Ok(sizes(at)?.0 as i64))?;
            Arc::new(Int64Array::from(values))
        }
        SetValue::Degree(measure) => {
            let values = of_pairs(pairs, |at| {
                let (shared, a, b) = sizes(at)?;
                Ok(measure.degree(shared, a, b))
            })?;
            Arc::new(Float64Array::from(values))
        }
    };
    Ok(Column::host(array, lease))
}

fn of_pairs<T: Send>(pairs: usize, value: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let parts: Vec<Vec<T>> = (0..pairs.div_ceil(TASK_PAIRS))
        .into_par_iter()
        .map(|task| {
            let end = ((task + 1) * TASK_PAIRS).min(pairs);
            (task * TASK_PAIRS..end).map(&value).collect()
        })
        .collect::<Result<_>>()?;
    Ok(parts.into_iter().flatten().collect())
}
