//! Rows of one side that come out by themselves, by their flags: when their right chunk is done, or at the end of the left side.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, BooleanArray, new_null_array};
use datafusion::common::JoinType;

use crate::device::data::batch::DeviceBatch;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::structures::Flags;
use crate::device::lazy_column::{Need, Payload};
use crate::error::{BowtieError, Result};
use crate::exec::chunk::DeviceChunk;
use crate::exec::input::chunk::InputChunk;
use crate::exec::join::run::{JoinRun, State};
use crate::exec::join::semi_bitmap::BitmapSemiJoin;
use crate::ir::side::Side;
use crate::spec::join::Output;

impl JoinRun {
    pub(crate) fn emit_right_end(&mut self, next: usize) -> Result<Vec<DeviceChunk>> {
        let (made, next) = self.side_rows(Side::Right, 0, next)?;
        self.state = match next {
            Some(next) => State::RightEnd { next },
            None => self.end_right_chunk(),
        };
        Ok(made)
    }

    fn end_right_chunk(&mut self) -> State {
        self.right_flags = None;
        self.matrix.take_right();
        State::NextRight
    }

    /// What comes out of the right chunk at hand, if it and the left side are in the order of their keys.
    pub(crate) fn emit_right_by_merge(&mut self) -> Result<Option<Vec<DeviceChunk>>> {
        if !self.comes_at_once() {
            return Ok(None);
        }
        let Some(by_merge) = &mut self.by_merge else {
            return Ok(None);
        };
        let made = at_once(
            by_merge.keep(&self.matrix, &self.metrics),
            self.matrix.may_wait,
        )?;
        match made {
            Some(_) => self.state = self.end_right_chunk(),
            None => self.by_merge = None,
        }
        Ok(made)
    }

    /// The right chunk at hand met all left rows by bits of keys.
    pub(crate) fn emit_right_by_bits(&mut self) -> Result<Vec<DeviceChunk>> {
        let (Some(by_bits), Some(flags)) = (&self.by_bits, &self.right_flags) else {
            return Ok(self.end_tiles());
        };
        if let Some(made) = self.kept_by_bits(by_bits, 0)? {
            self.state = self.end_right_chunk();
            return Ok(made);
        }
        by_bits.flag(&mut self.matrix, 0, flags)?;
        Ok(self.end_tiles())
    }

    pub(crate) fn emit_left_end(&mut self, chunk: usize, next: usize) -> Result<Vec<DeviceChunk>> {
        self.matrix.load_left(chunk)?;
        let Some(flags) = self.left_flags.get(chunk) else {
            self.state = State::Done;
            return Ok(vec![]);
        };
        if let Some(by_bits) = &self.by_bits
            && self.flagged_left == chunk
        {
            if let Some(made) = self.kept_by_bits(by_bits, chunk)? {
                self.flagged_left += 1;
                self.state = State::LeftEnd {
                    chunk: chunk + 1,
                    next: 0,
                };
                return Ok(made);
            }
            by_bits.flag(&mut self.matrix, chunk, flags)?;
            self.flagged_left += 1;
        }
        let (made, next) = self.side_rows(Side::Left, chunk, next)?;
        self.state = match next {
            Some(next) => State::LeftEnd { chunk, next },
            None => State::LeftEnd {
                chunk: chunk + 1,
                next: 0,
            },
        };
        Ok(made)
    }

    /// The next rows of a left chunk, or of the right chunk at hand, from row `next` on; and the first of those that are left, if any
    /// are.
    fn side_rows(
        &mut self,
        side: Side,
        left_chunk: usize,
        next: usize,
    ) -> Result<(Vec<DeviceChunk>, Option<usize>)> {
        let (chunk, flags) = match side {
            Side::Left => (
                self.matrix.left().get(left_chunk),
                self.left_flags.get(left_chunk),
            ),
            Side::Right => (self.matrix.right(), self.right_flags.as_ref()),
        };
        let (Some(chunk), Some(flags)) = (chunk, flags) else {
            return Err(BowtieError::Internal("the end of no chunk".into()));
        };
        if next == 0
            && let Some(made) = self.side_at_once(side, left_chunk, flags)?
        {
            return Ok((made, None));
        }
        let rows = chunk.rows();
        let pieces = self.size.of_rows(next, rows);
        let end = pieces.last().map_or(rows, |piece| piece.end);
        let made = self.pieces(pieces.len(), |i| {
            self.side_piece(side, chunk, flags, pieces[i].clone())
        });
        let (made, done) = self.or_smaller(made)?;
        let next = if done { end } else { next };
        Ok((made, (next < rows).then_some(next)))
    }

    /// The rows of a semi or anti join's chunk together, kept as their keys' bits are looked at, where they lie on the device and stay
    /// there; `None` where flags are needed.
    fn kept_by_bits(
        &self,
        by_bits: &BitmapSemiJoin,
        left_chunk: usize,
    ) -> Result<Option<Vec<DeviceChunk>>> {
        use JoinType::*;
        let matched = match self.spec.kind {
            LeftSemi | RightSemi => true,
            LeftAnti | RightAnti => false,
            _ => return Ok(None),
        };
        if !self.comes_at_once() {
            return Ok(None);
        }
        let output = self.spec.output.iter().map(|column| match column {
            Output::Column(side, column) if *side == by_bits.side() => Some(*column),
            _ => None,
        });
        let Some(output) = output.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let _timer = self.metrics.output_time.timer();
        let kept = by_bits.keep(&self.matrix, left_chunk, matched, &output);
        at_once(kept, self.matrix.may_wait)
    }

    /// Whether rows of a chunk come out together, if they lie on the device.
    fn comes_at_once(&self) -> bool {
        self.spec.output_on_device && !self.spec.emits_pairs() && !self.right_keys.any()
    }

    /// The rows of a semi, anti or mark join's chunk together, where they lie on the device and stay there;
    /// `None` where they come out piece by piece.
    fn side_at_once(
        &self,
        side: Side,
        left_chunk: usize,
        flags: &Flags,
    ) -> Result<Option<Vec<DeviceChunk>>> {
        if !self.comes_at_once() {
            return Ok(None);
        }
        let Some(batch) = self.matrix.whole(side, left_chunk) else {
            return Ok(None);
        };
        let _timer = self.metrics.output_time.timer();
        let flagged = self.flagged(&batch, flags).map(Some);
        at_once(flagged, self.matrix.may_wait)
    }

    /// What comes out of all rows of a chunk by their flags.
    fn flagged(&self, batch: &DeviceBatch, flags: &Flags) -> Result<DeviceBatch> {
        use JoinType::*;
        let device = self.device.as_ref();
        let rows = batch.rows();
        let found = |set| device.flag_column(flags, 0, rows, set).map(Arc::new);
        let columns = self.spec.output.iter().map(|column| match column {
            Output::Column(_, column) => batch.column(*column).cloned(),
            Output::Mark => found(true),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let kept = match self.spec.kind {
            LeftMark | RightMark => None,
            kind => {
                let columns: Vec<&Column> = columns.iter().map(AsRef::as_ref).collect();
                let flags = found(matches!(kind, LeftSemi | RightSemi))?;
                device.keep(&flags, &columns)?
            }
        };
        let (rows, columns) = match kept {
            Some((rows, kept)) => (rows, kept.into_iter().map(Arc::new).collect()),
            None => (rows, columns),
        };
        Ok(DeviceBatch::new(
            rows,
            columns.into_iter().map(Some).collect(),
        ))
    }

    /// Those of the rows of a left chunk's `piece` whose key is not NULL.
    fn with_key(
        &self,
        rows: Buffer<u32>,
        chunk: &InputChunk,
        piece: &Range<usize>,
    ) -> Result<Buffer<u32>> {
        let mut rows = rows;
        for (key, _) in &self.spec.theta.equalities {
            let keys = chunk.some(*key, piece)?;
            if keys.null_count() > 0 {
                let known = self.device.read(&rows)?;
                let keep = known.iter().map(|row| keys.is_valid(*row as usize));
                let keep: BooleanArray = keep.map(Some).collect();
                rows = self.device.compact(&rows, &keep)?;
            }
        }
        Ok(rows)
    }

    /// Rows of a chunk of `side`, as far as they come out without a partner.
    fn side_piece(
        &self,
        side: Side,
        chunk: &InputChunk,
        flags: &Flags,
        piece: Range<usize>,
    ) -> Result<Option<DeviceBatch>> {
        use JoinType::*;
        let (from, len) = (piece.start, piece.len());
        let device = self.device.as_ref();
        let rows = match self.spec.kind {
            LeftMark | RightMark => device.sequence(0, len)?,
            LeftSemi | RightSemi => device.flagged_rows(flags, from, len, true)?,
            _ => device.flagged_rows(flags, from, len, false)?,
        };
        let rows = match self.right_keys.any() {
            true => self.with_key(rows, chunk, &piece)?,
            false => rows,
        };
        if rows.len() == 0 {
            return Ok(None);
        }
        // Each is gathered once: of few rows the host does it, unless they are wanted on the device.
        let payload = Arc::new(Payload::default());
        let needed: Vec<Need> = (0..self.spec.input(side).columns())
            .map(
                |i| match self.spec.output.contains(&Output::Column(side, i)) {
                    true if self.spec.output_on_device => Need::Now,
                    true => Need::Late(Arc::clone(&payload)),
                    false => Need::Never,
                },
            )
            .collect();
        let batch = chunk.upload(device, &piece, &needed, &self.metrics)?;
        let columns = self
            .spec
            .output
            .iter()
            .map(|column| {
                match column {
                    Output::Mark => device.flag_column(flags, from, len, true),
                    Output::Column(of, i) if *of == side => device.gather(batch.column(*i)?, &rows),
                    Output::Column(other, i) => {
                        let data_type = self.spec.input(*other).data_type(*i);
                        match self.spec.output_on_device {
                            true => {
                                return Ok(Some(
                                    device.upload(&[new_null_array(data_type, rows.len())])?,
                                ));
                            }
                            false => device.nulls(data_type, rows.len()),
                        }
                    }
                }
                .map(|c| Some(Arc::new(c)))
            })
            .collect::<Result<_>>()?;
        self.metrics
            .uploaded_bytes
            .add(payload.take_uploaded() as usize);
        Ok(Some(DeviceBatch::new(rows.len(), columns)))
    }
}

/// Rows that came out together; `None` where there was no room for them, which may not wait, or they do not.
fn at_once(made: Result<Option<DeviceBatch>>, may_wait: bool) -> Result<Option<Vec<DeviceChunk>>> {
    match made {
        Ok(Some(batch)) => Ok(Some(match batch.rows() {
            0 => vec![],
            _ => vec![DeviceChunk::Resident(batch)],
        })),
        Ok(None) => Ok(None),
        Err(error) if error.is_out_of_device_memory() && !may_wait => Ok(None),
        Err(error) => Err(error),
    }
}
