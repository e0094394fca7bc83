//! Expands the candidates of a tile piece by piece. In: a counted tile. Out: output rows of the matches, and their
//! flags.

use crate::device::batches::batch::DeviceBatch;
use crate::device::batches::batch_column::BatchColumn;
use crate::error::{BowtieError, Result};
use crate::exec::chunk::DeviceChunk;
use crate::exec::join::residual;
use crate::exec::join::row_sink::{JoinRun, PairsOfTile};
use crate::exec::join::tiles::probed_tile::ProbedTile;
use crate::exec::join::walk::State;
use crate::exec::memory::step::Step;
use crate::ir::side::Side;
use crate::ops::probe::RowPairs;
use crate::spec::join::Output;

impl JoinRun {
    /// Makes the next pieces of a tile. Flags matches where counts do not tell them.
    pub(crate) fn emit_pairs(
        &mut self,
        step: &Step<'_>,
        mut pairs: Box<PairsOfTile>,
    ) -> Result<Vec<DeviceChunk>> {
        let pieces = self.size.of_pairs(
            self.device.as_ref(),
            &pairs.offsets,
            pairs.next,
            pairs.total,
        );
        let made = pieces.and_then(|pieces| {
            let made = self.pieces(pieces.len(), |i| {
                let piece = &pieces[i];
                self.pairs_piece(&pairs, piece.start, (piece.end - piece.start) as usize)
            })?;
            Ok((made, pieces.last().map_or(pairs.total, |piece| piece.end)))
        });
        let made = self.or_shorter(step, made).map(|made| match made {
            Some((made, end)) => {
                pairs.next = end;
                made
            }
            None => vec![],
        });
        self.state = match pairs.next < pairs.total {
            true => State::Pairs(pairs),
            false => State::Tiles,
        };
        made
    }

    /// The output rows of `len` candidates from number `from` on; `None` if there are none, or the join emits no
    /// matches.
    fn pairs_piece(
        &self,
        pairs: &PairsOfTile,
        from: u64,
        len: usize,
    ) -> Result<Option<DeviceBatch>> {
        let device = self.device.as_ref();
        let tile = &pairs.tile;
        let by_pairs = pairs.flag_left || pairs.flag_right;
        if let Some(rows) = tile.search.product()
            && self.spec.emits_pairs()
            && !by_pairs
            && tile.filters(&self.spec).is_empty()
        {
            return self.product_piece(pairs, rows, from, len).map(Some);
        }
        let rows = tile.matching_pairs(device, &self.spec, &pairs.offsets, from, len)?;
        for (side, by_pairs) in [
            (Side::Left, pairs.flag_left),
            (Side::Right, pairs.flag_right),
        ] {
            if by_pairs {
                let (flags, first) = self.flags(side, &tile.tile)?;
                device.set_flags(flags, first, rows.of(side))?;
            }
        }
        if !self.spec.emits_pairs() || rows.len() == 0 {
            return Ok(None);
        }
        self.rows_of_pairs(tile, &rows).map(Some)
    }

    /// The output rows of some pairs.
    pub(crate) fn rows_of_pairs(&self, tile: &ProbedTile, pairs: &RowPairs) -> Result<DeviceBatch> {
        let output = self.spec.output.iter();
        let columns = output.map(|column| self.column_of_pairs(tile, pairs, *column));
        Ok(DeviceBatch::new(
            pairs.len(),
            columns.collect::<Result<_>>()?,
        ))
    }

    fn column_of_pairs(
        &self,
        tile: &ProbedTile,
        pairs: &RowPairs,
        column: Output,
    ) -> Result<Option<BatchColumn>> {
        match column {
            Output::Column(side, i) => {
                let column = tile.of(side).any(i)?;
                let device = self.device.as_ref();
                column.gather(device, pairs.of(side)).map(Some)
            }
            Output::Value(value) => self.value_of_pairs(tile, pairs, value).map(Some),
            Output::Mark => Err(BowtieError::Internal(
                "a mark column among output rows".into(),
            )),
        }
    }

    /// A value of the sets of each pair, by the sets that found them or else by DataFusion's call.
    pub(crate) fn value_of_pairs(
        &self,
        tile: &ProbedTile,
        pairs: &RowPairs,
        value: usize,
    ) -> Result<BatchColumn> {
        let device = self.device.as_ref();
        let value = &self.spec.values[value];
        if let Some(values) = tile.search.set_values(device, pairs, value.value)? {
            return Ok(values.into());
        }
        let values = residual::values(device, &value.call, &tile.left, &tile.right, pairs)?;
        Ok(device.upload(&[values])?.into())
    }

    /// The output rows of a part of a cross product, in which the build side has `rows` rows. The number of a pair
    /// tells its rows, so that row ids are made only for columns that need a gather.
    fn product_piece(
        &self,
        of_tile: &PairsOfTile,
        rows: usize,
        from: u64,
        len: usize,
    ) -> Result<DeviceBatch> {
        let device = self.device.as_ref();
        let tile = &of_tile.tile;
        let build = tile.search.build_side;
        let mut pairs = None;
        let columns = self.spec.output.iter().map(|column| {
            if let Output::Column(side, i) = column {
                let column = tile.of(*side).any(*i)?;
                let repeated = *side != build;
                let made = device.cross_product(column.moved(), repeated, rows, from, len)?;
                if let Some(made) = made {
                    return Ok(Some(column.of_moved(made)));
                }
            }
            let pairs = match &pairs {
                Some(pairs) => pairs,
                None => pairs.insert(tile.search.pairs(device, &of_tile.offsets, from, len)?),
            };
            self.column_of_pairs(tile, pairs, *column)
        });
        Ok(DeviceBatch::new(len, columns.collect::<Result<_>>()?))
    }
}
