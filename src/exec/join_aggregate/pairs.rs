//! Aggregates a tile by its expanded matches, piece by piece. In: a counted tile. Out: arguments, added to the
//! accumulators of their rows' groups.

use std::sync::Arc;

use arrow::array::UInt32Array;
use parking_lot::Mutex;

use crate::device::budget::Lease;
use crate::device::data::buffer::Buffer;
use crate::error::Result;
use crate::exec::join::tiles::probed_tile::ProbedTile;
use crate::exec::join::walk::State;
use crate::exec::join_aggregate::group_sink::{AggregateRun, PairsOfTile};
use crate::exec::join_aggregate::states::PairValues;
use crate::exec::memory::step::Step;
use crate::ir::side::Side;
use crate::spec::join_aggregate::GroupSide;

impl AggregateRun {
    /// The number of rows of the tile on the grouped side; 0 if nothing is grouped by.
    pub(crate) fn grouped_rows(&self, tile: &ProbedTile) -> usize {
        match self.sink.spec.group_side {
            GroupSide::Nothing => 0,
            GroupSide::Side(side) => tile.of(side).rows(),
        }
    }

    /// The offsets and the number of the tile's candidates, and a reservation for the groups of its rows; `None` if it
    /// has no candidate.
    pub(crate) fn begin_pairs(
        &self,
        tile: &ProbedTile,
    ) -> Result<Option<(Buffer<u64>, u64, Lease)>> {
        self.check_room(&tile.tile)?;
        let offsets = tile.search.offsets(self.device.as_ref())?;
        let total = self.device.total(&offsets)?;
        let groups = self.grouped_rows(tile) * size_of::<Option<usize>>();
        let lease = self.device.budget().lease(groups as u64, "group ids")?;
        self.metrics
            .candidate_pairs
            .add(usize::try_from(total).unwrap_or(usize::MAX));
        Ok((total > 0).then_some((offsets, total, lease)))
    }

    /// Makes the next pieces of a tile's matches and adds them to the groups.
    pub(crate) fn merge_pairs(
        &mut self,
        step: &Step<'_>,
        mut pairs: Box<PairsOfTile>,
    ) -> Result<()> {
        let timer = self.metrics.output_time.clone();
        let _timer = timer.timer();
        let made = self.values_of_pairs(&pairs);
        let made = self.or_shorter(step, made);
        if let Ok(Some((values, end))) = &made {
            // After a failure some values are added and others are not, so the state stays `Done`.
            for values in values {
                self.accumulate(&mut pairs, values)?;
            }
            pairs.next = *end;
        }
        self.state = match pairs.next < pairs.total {
            true => State::Pairs(pairs),
            false => State::Tiles,
        };
        made.map(|_| ())
    }

    /// The next matches with the arguments of all aggregates, piece by piece, and the number of the candidate after
    /// them.
    fn values_of_pairs(&self, pairs: &PairsOfTile) -> Result<(Vec<PairValues>, u64)> {
        let (device, join, spec) = (self.device.as_ref(), &self.spec, &self.sink.spec);
        let pieces = self
            .size
            .of_pairs(device, &pairs.offsets, pairs.next, pairs.total)?;
        let made: Vec<Mutex<Option<PairValues>>> =
            pieces.iter().map(|_| Mutex::new(None)).collect();
        device.for_each_piece(pieces.len(), &|i| {
            let (from, len) = (pieces[i].start, (pieces[i].end - pieces[i].start) as usize);
            let rows = pairs
                .tile
                .matching_pairs(device, join, &pairs.offsets, from, len)?;
            *made[i].lock() = Some(PairValues::gather(device, spec, &pairs.tile, rows)?);
            Ok(())
        })?;
        let end = pieces.last().map_or(pairs.total, |piece| piece.end);
        let values = made.into_iter().filter_map(Mutex::into_inner).collect();
        Ok((values, end))
    }

    /// Adds a piece of matches to the groups, and sets the flags of its rows.
    fn accumulate(&mut self, pairs: &mut PairsOfTile, made: &PairValues) -> Result<()> {
        let device = Arc::clone(&self.device);
        let device = device.as_ref();
        let rows = &made.rows;
        for side in [Side::Left, Side::Right] {
            if self.spec.flags_side(side) {
                let (flags, first) = self.flags(side, &pairs.tile.tile)?;
                device.set_flags(flags, first, rows.of(side))?;
            }
        }
        let groups = match self.sink.spec.group_side {
            GroupSide::Nothing => vec![0; rows.len()],
            GroupSide::Side(side) => {
                let ids = device.read(rows.of(side))?;
                let mut fresh: Vec<u32> = ids
                    .iter()
                    .copied()
                    .filter(|row| pairs.groups[*row as usize].is_none())
                    .collect();
                fresh.sort_unstable();
                fresh.dedup();
                let fresh = UInt32Array::from(fresh);
                let found = self.groups_of(side, &pairs.tile, &fresh)?;
                for (row, group) in fresh.values().iter().zip(found) {
                    pairs.groups[*row as usize] = Some(group);
                }
                ids.iter()
                    .map(|row| pairs.groups[*row as usize].unwrap_or_default())
                    .collect()
            }
        };
        for (i, values) in made.values.iter().enumerate() {
            self.sink.table.update(i, values, &groups)?;
        }
        Ok(())
    }
}
