//! Groups of a tile's rows, made on the device. In: the states of the rows of the grouped side, and its group columns. Out: distinct groups with
//! their states. They wait on the device for those of the next tile with the same rows, until the table gets them: before other rows are grouped, at the end of
//! a chunk, and where a tile needs the memory.

use std::sync::Arc;

use arrow::array::UInt32Array;
use arrow::datatypes::DataType;

use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::results::Aggregated;
use crate::error::{BowtieError, IfItFits as _, Result};
use crate::exec::aggregate::group_values::Partial;
use crate::exec::aggregate::states::mergeable_states;
use crate::exec::join::tiles::probed_tile::ProbedTile;
use crate::exec::join::walk::State;
use crate::exec::join_aggregate::group_sink::AggregateRun;
use crate::exec::join_aggregate::states::{ChunkRows, StatesOf};
use crate::exec::memory::compact_views::compact_views;
use crate::exec::memory::step::Step;
use crate::ir::fold::Fold;
use crate::ir::side::Side;
use crate::ir::strategies::Grouping;
use crate::spec::join_aggregate::GroupSide;

/// Fewer rows are grouped by the table.
const FEW_ROWS: usize = 4096;

impl AggregateRun {
    /// Whether the device groups these rows by the states of `wanted` aggregates, which are all. The table remembers which groups left rows are in, and is as good
    /// where they come again.
    pub(crate) fn groups_on_device(&self, of: &ChunkRows, wanted: &[usize]) -> bool {
        let spec = &self.sink.spec;
        let input = spec.join.input(of.side);
        let mut columns = spec.group_columns.iter();
        spec.group_side == GroupSide::Side(of.side)
            && wanted.len() == spec.aggregates.len()
            && of.rows.len() >= FEW_ROWS
            && (of.side == Side::Right || self.sink.table.is_empty())
            && !spec.group_columns.is_empty()
            && columns.all(|column| is_equal_by_bytes(input.data_type(*column)))
    }

    /// The groups of the rows that have a match, by their `weights`; `None` if these are few.
    pub(crate) fn grouped(
        &self,
        of: &ChunkRows,
        wanted: &[usize],
        weights: &Buffer<u32>,
        states_of: StatesOf<'_>,
    ) -> Result<Option<Aggregated>> {
        let device = self.device.as_ref();
        let rows = of.rows.len();
        let flags = device.flags(rows)?;
        device.set_flags_counted(&flags, 0, weights)?;
        let matched = device.flagged_rows(&flags, 0, rows, true)?;
        if matched.len() < FEW_ROWS {
            return Ok(None);
        }
        let aggregates = &self.sink.spec.aggregates;
        let ids = UInt32Array::new(device.read(&matched)?, None);
        let keys = self.group_columns_of(of.side, of.left_chunk, of.rows.clone(), &ids)?;
        let keys = keys.into_iter().map(|key| device.upload(&[key]));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let keys: Vec<&Column> = keys.iter().map(AsRef::as_ref).collect();
        // A row without a match may have a state all the same: an extreme's is its value.
        let of_matched = |state: Arc<Column>| match matched.len() == rows {
            true => Ok(state),
            false => device.gather(&state, &matched).map(Arc::new),
        };
        let mut states = vec![];
        for i in wanted {
            let aggregate = &aggregates[*i];
            let folds = aggregate.function.folds().iter();
            for (fold, state) in folds.zip(states_of(*i, aggregate)?) {
                states.push((fold.of_states(), of_matched(state)?));
            }
        }
        let folds: Vec<(Fold, Option<&Column>)> = states
            .iter()
            .map(|(fold, column)| (*fold, Some(column.as_ref())))
            .collect();
        device
            .aggregate(matched.len(), &keys, &folds, Grouping::AUTO)
            .map(Some)
    }

    /// Adds groups of rows to those that wait on the device, if these are of the same rows.
    pub(crate) fn add_groups(&mut self, of: ChunkRows, groups: Aggregated) -> Result<()> {
        let together = match &self.sink.waiting {
            Some((rows, waiting)) if *rows == of => self.together(waiting, &groups).if_it_fits()?,
            _ => None,
        };
        if together.is_none() {
            self.merge_waiting()?;
        }
        self.sink.waiting = Some((of, together.unwrap_or(groups)));
        Ok(())
    }

    /// Puts back a tile that did not fit: whole if groups can leave the device for it.
    pub(crate) fn put_back(
        &mut self,
        step: &Step<'_>,
        tile: &ProbedTile,
        error: BowtieError,
    ) -> Result<()> {
        match error.is_out_of_device_memory()
            && step.may_shrink(&error)
            && self.sink.waiting.is_some()
        {
            true => self.put_back_for_room(tile),
            false => self.matrix.put_back(step, &tile.tile, error),
        }
    }

    /// Puts back a whole tile, whose groups leave the device first.
    pub(crate) fn put_back_for_room(&mut self, tile: &ProbedTile) -> Result<()> {
        self.matrix.tiles.push(tile.tile.clone());
        self.merge_waiting()
    }

    /// Merges the groups that wait on the device into the table.
    pub(crate) fn merge_waiting(&mut self) -> Result<()> {
        let Some((_, groups)) = &self.sink.waiting else {
            return Ok(());
        };
        let groups = self.downloaded(groups)?;
        self.sink.waiting = None;
        // After a failure some states are merged and others are not, so it cannot be retried.
        let state = std::mem::replace(&mut self.state, State::Done);
        self.sink.table.merge_distinct(groups)?;
        self.state = state;
        Ok(())
    }

    /// The distinct groups of both.
    fn together(&self, one: &Aggregated, other: &Aggregated) -> Result<Aggregated> {
        let device = self.device.as_ref();
        let concat = |one: &[Column], other: &[Column]| {
            let both = one.iter().zip(other);
            both.map(|(one, other)| device.concat(&[one, other]))
                .collect::<Result<Vec<Column>>>()
        };
        let keys = concat(&one.keys, &other.keys)?;
        let states = concat(&one.states, &other.states)?;
        let folds = self.sink.spec.aggregates.iter();
        let folds = folds.flat_map(|aggregate| aggregate.function.folds());
        let folds: Vec<(Fold, Option<&Column>)> = folds
            .zip(&states)
            .map(|(fold, column)| (fold.of_states(), Some(column)))
            .collect();
        let keys: Vec<&Column> = keys.iter().collect();
        device.aggregate(one.groups + other.groups, &keys, &folds, Grouping::AUTO)
    }

    fn downloaded(&self, groups: &Aggregated) -> Result<Partial> {
        let device = self.device.as_ref();
        let mut columns = groups.states.iter();
        let made = self.sink.spec.aggregates.iter().map(|aggregate| {
            let columns = columns.by_ref().take(aggregate.function.folds().len());
            let states = columns.map(|column| device.download(column));
            let states = states.collect::<Result<Vec<_>>>()?;
            mergeable_states(aggregate.function, &aggregate.aggregate, states)
        });
        let made = made.collect::<Result<_>>()?;
        let keys = groups.keys.iter();
        let keys = keys.map(|key| compact_views(device.download(key)?));
        Ok(Partial {
            rows: groups.groups,
            keys: keys.collect::<Result<_>>()?,
            states: made,
        })
    }
}

/// Whether values are equal if and only if their bytes are.
fn is_equal_by_bytes(data_type: &DataType) -> bool {
    let other = matches!(data_type, DataType::Dictionary(_, _));
    !other && !data_type.is_floating() && !data_type.is_nested()
}
