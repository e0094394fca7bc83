//! What a fused aggregation downloads from the device: partial states of rows, or arguments of expanded matches. Both
//! are brought to the form that DataFusion's accumulators take.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;

use crate::device::data::column::Column;
use crate::device::data::results::Aggregated;
use crate::device::primitives::device::Device;
use crate::error::Result;
use crate::exec::aggregate::states::mergeable_states;
use crate::exec::join::tiles::probed_tile::ProbedTile;
use crate::ir::side::Side;
use crate::ops::probe::RowPairs;
use crate::spec::join_aggregate::{AggregateSpec, JoinAggregateSpec};

/// Rows of a chunk: of a left one, or of the current right one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChunkRows {
    pub(crate) side: Side,
    pub(crate) left_chunk: usize,
    pub(crate) rows: Range<usize>,
}

/// The states of an aggregate, by its number, for each row of a side.
pub(crate) type StatesOf<'a> = &'a dyn Fn(usize, &AggregateSpec) -> Result<Vec<Arc<Column>>>;

/// Partial states of the rows of one side that have a match.
pub(crate) enum SideStates {
    ByRow(RowStates),
    /// Of the groups of the grouped side, on the device.
    ByGroup(Aggregated),
}

/// Partial states of rows, by aggregate.
pub(crate) struct RowStates {
    /// The rows with a match.
    pub matched: UInt32Array,
    /// The number of an aggregate, and its states for these rows.
    pub states: Vec<(usize, Vec<ArrayRef>)>,
}

/// Matches, and each aggregate's argument for them.
pub(crate) struct PairValues {
    pub rows: RowPairs,
    pub values: Vec<ArrayRef>,
}

impl PairValues {
    /// Gathers and downloads the arguments of matches.
    pub(crate) fn gather(
        device: &dyn Device,
        spec: &JoinAggregateSpec,
        tile: &ProbedTile,
        rows: RowPairs,
    ) -> Result<Self> {
        let values = spec
            .aggregates
            .iter()
            .map(|aggregate| match aggregate.argument {
                Some((side, column)) => {
                    let column = tile.of(side).column(column)?;
                    device.download(&device.gather(column, rows.of(side))?)
                }
                // COUNT(*) counts rows: any array without NULLs will do.
                None => Ok(Arc::new(UInt32Array::from(vec![0; rows.len()])) as ArrayRef),
            })
            .collect::<Result<_>>()?;
        Ok(Self { rows, values })
    }
}

/// Downloads the states of the matched rows, in the form that DataFusion's accumulators merge.
pub(crate) fn aggregate_states(
    device: &dyn Device,
    aggregate: &AggregateSpec,
    states: Vec<Arc<Column>>,
    matched: &UInt32Array,
) -> Result<Vec<ArrayRef>> {
    let states = states
        .into_iter()
        .map(|state| Ok(take(&device.download(&state)?, matched, None)?))
        .collect::<Result<Vec<_>>>()?;
    mergeable_states(aggregate.function, &aggregate.aggregate, states)
}
