//! An inner equi-join that materialises its columns from transformed relations: GFTR (\[W\] 4.1.2), with one gather for
//! each side.
//!
//! The columns of each side are gathered into key order once. Matches are positions in that order, so that the values of
//! neighbouring matches are adjacent.

use std::sync::Arc;

use crate::device::budget::Budget;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::device::data::results::{Joined, Paired};
use crate::device::data::structures::EquiIndex;
use crate::device::host::columns::values::gather;
use crate::error::Result;

/// The build side: its index, and its payload columns in the order of the index.
#[derive(Debug)]
pub(crate) struct EquiBuild {
    index: EquiIndex,
    transformed: Vec<Column>,
}

impl EquiBuild {
    pub(crate) fn new(budget: &Arc<Budget>, index: EquiIndex, payload: &[&Column]) -> Result<Self> {
        let transformed = payload
            .iter()
            .map(|column| gather(budget, column, &index.rows.rows))
            .collect::<Result<_>>()?;
        Ok(Self { index, transformed })
    }

    pub(crate) fn index(&self) -> &EquiIndex {
        &self.index
    }
}

/// The most matches of a single-pass join; more are gathered in output batches.
const MOST_PAIRS: usize = 1 << 22;

/// All matches of `probe`, the probe rows in order, each with its range in the index.
pub(crate) fn join(
    budget: &Arc<Budget>,
    build: &EquiBuild,
    probe: &OrderedRows,
    ranges: &Ranges,
    payload: &[&Column],
) -> Result<Paired> {
    let (lo, hi) = (ranges.lo.on_host()?, ranges.hi.on_host()?);
    let spans = || lo.iter().zip(hi.iter()).map(|(lo, hi)| *lo..*hi);
    let rows: usize = spans().map(|span| span.len()).sum();
    if rows > MOST_PAIRS {
        return Ok(Paired::TooMany);
    }
    let positions = || budget.lease(rows as u64 * 4, "join output rows");
    let (of_build, of_probe) = (positions()?, positions()?);
    let build_positions = Buffer::host(spans().flatten().collect(), of_build);
    let probe_positions = spans()
        .enumerate()
        .flat_map(|(at, span)| std::iter::repeat_n(at as u32, span.len()));
    let probe_positions = Buffer::host(probe_positions.collect(), of_probe);
    let gathered = |column: &Column, positions| gather(budget, column, positions);
    Ok(Paired::All(Joined {
        rows,
        build: build
            .transformed
            .iter()
            .map(|column| gathered(column, &build_positions))
            .collect::<Result<_>>()?,
        probe: payload
            .iter()
            .map(|column| {
                let transformed = gather(budget, column, &probe.rows)?;
                gathered(&transformed, &probe_positions)
            })
            .collect::<Result<_>>()?,
    }))
}
