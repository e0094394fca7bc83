//! Aggregates of a tile that need its pairs.

use std::sync::Arc;

use arrow::array::UInt32Array;
use parking_lot::Mutex;

use crate::device::budget::Lease;
use crate::device::data::buffer::Buffer;
use crate::error::Result;
use crate::exec::join::tiles::probed_tile::ProbedTile;
use crate::exec::join_aggregate::run::{AggregateRun, PairsOfTile, State};
use crate::exec::join_aggregate::states::PairValues;
use crate::ir::side::Side;
use crate::spec::join_aggregate::GroupSide;

impl AggregateRun {
    /// Rows of the tile on the grouped side.
    pub(crate) fn grouped_rows(&self, tile: &ProbedTile) -> usize {
        match self.spec.group_side {
            GroupSide::Nothing => 0,
            GroupSide::Side(side) => tile.of(side).rows(),
        }
    }

    /// Offsets and number of the tile's pairs, and a lease for their rows' groups; `None` when it has none.
    pub(crate) fn begin_pairs(
        &self,
        tile: &ProbedTile,
    ) -> Result<Option<(Buffer<u64>, u64, Lease)>> {
        let offsets = tile.search.offsets(self.device.as_ref())?;
        let total = self.device.total(&offsets)?;
        let groups = self.grouped_rows(tile) * size_of::<Option<usize>>();
        let lease = self.device.budget().lease(groups as u64, "group ids")?;
        self.metrics
            .candidate_pairs
            .add(usize::try_from(total).unwrap_or(usize::MAX));
        Ok((total > 0).then_some((offsets, total, lease)))
    }

    pub(crate) fn pairs_step(&mut self, mut pairs: Box<PairsOfTile>) -> Result<()> {
        let timer = self.metrics.output_time.clone();
        let _timer = timer.timer();
        let (device, join) = (self.device.as_ref(), &self.spec.join);
        let pieces = match self
            .size
            .of_pairs(device, &pairs.offsets, pairs.next, pairs.total)
        {
            Err(error) if error.is_divisible() && self.size.halve() => {
                self.state = State::Pairs(pairs);
                return Ok(());
            }
            Err(error) => {
                self.state = State::Pairs(pairs);
                return Err(error);
            }
            Ok(pieces) => pieces,
        };
        let made: Vec<Mutex<Option<PairValues>>> =
            pieces.iter().map(|_| Mutex::new(None)).collect();
        let spec = &self.spec;
        let result = device.for_each_piece(pieces.len(), &|i| {
            let (from, len) = (pieces[i].start, (pieces[i].end - pieces[i].start) as usize);
            let rows = pairs
                .tile
                .matching_pairs(device, join, &pairs.offsets, from, len)?;
            *made[i].lock() = Some(PairValues::gather(device, spec, &pairs.tile, rows)?);
            Ok(())
        });
        match result {
            Err(error)
                if error.is_divisible() && (self.size.halve() || self.matrix.make_room()) => {}
            Err(error) => {
                self.state = State::Pairs(pairs);
                return Err(error);
            }
            Ok(()) => {
                self.size.made();
                for piece in made.into_iter().filter_map(Mutex::into_inner) {
                    self.accumulate(&mut pairs, &piece)?;
                }
                pairs.next = pieces.last().map_or(pairs.total, |piece| piece.end);
            }
        }
        self.state = match pairs.next < pairs.total {
            true => State::Pairs(pairs),
            false => State::Tiles,
        };
        Ok(())
    }

    fn accumulate(&mut self, pairs: &mut PairsOfTile, made: &PairValues) -> Result<()> {
        let device = Arc::clone(&self.device);
        let device = device.as_ref();
        let rows = &made.rows;
        for side in [Side::Left, Side::Right] {
            if self.spec.join.flags_side(side) {
                let (flags, first) = self.flags(side, &pairs.tile)?;
                device.set_flags(flags, first, rows.of(side))?;
            }
        }
        let groups = match self.spec.group_side {
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
            self.table.update(i, values, &groups)?;
        }
        Ok(())
    }
}
