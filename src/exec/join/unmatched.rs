//! Emits rows of one side by their flags: unmatched rows of outer and anti joins, matched rows of semi joins, all rows
//! with a mark of mark joins. Right rows are emitted when their chunk is done, left rows at the end. Rows that stay on
//! the device are emitted as whole chunks where possible.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, BooleanArray, new_null_array};
use arrow::datatypes::DataType;
use datafusion::common::JoinType;

use crate::device::batches::batch::DeviceBatch;
use crate::device::batches::batch_column::BatchColumn;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::structures::Flags;
use crate::device::lazy_column::{Need, Payload};
use crate::error::{BowtieError, Result};
use crate::exec::chunk::DeviceChunk;
use crate::exec::input::chunk::InputChunk;
use crate::exec::join::fast_paths::semi_bitmap::BitmapSemiJoin;
use crate::exec::join::row_sink::JoinRun;
use crate::exec::join::walk::State;
use crate::exec::memory::step::Step;
use crate::ir::side::Side;
use crate::spec::join::Output;

impl JoinRun {
    /// Emits rows of the current right chunk by their flags, from row `next` on.
    pub(crate) fn emit_right_end(
        &mut self,
        step: &Step<'_>,
        next: usize,
    ) -> Result<Vec<DeviceChunk>> {
        let (made, next) = self.side_rows(step, Side::Right, 0, next)?;
        match next {
            Some(next) => self.state = State::RightEnd { next },
            None => self.end_right_chunk(),
        }
        Ok(made)
    }

    /// The output of the current right chunk by a merge, if it and the left side are presorted.
    pub(crate) fn emit_right_presorted(
        &mut self,
        step: &Step<'_>,
    ) -> Result<Option<Vec<DeviceChunk>>> {
        if !self.output_is_one_chunk() {
            return Ok(None);
        }
        let Some(presorted) = &mut self.sink.presorted else {
            return Ok(None);
        };
        let made = at_once(step, presorted.keep(&self.matrix, &self.metrics))?;
        match made {
            Some(_) => self.end_right_chunk(),
            None => self.sink.presorted = None,
        }
        Ok(made)
    }

    /// Emits the rows of the current right chunk by the key bitmap, or sets their flags by it.
    pub(crate) fn emit_right_by_bitmap(&mut self, step: &Step<'_>) -> Result<Vec<DeviceChunk>> {
        if let (Some(bitmap), Some(flags)) = (&self.sink.bitmap, &self.right_flags) {
            if let Some(made) = self.kept_by_bitmap(step, bitmap, 0)? {
                self.end_right_chunk();
                return Ok(made);
            }
            bitmap.flag(step, &mut self.matrix, 0, flags)?;
        }
        self.end_tiles();
        Ok(vec![])
    }

    /// Emits rows of left chunk `chunk` by their flags, from row `next` on.
    pub(crate) fn emit_left_end(
        &mut self,
        step: &Step<'_>,
        chunk: usize,
        next: usize,
    ) -> Result<Vec<DeviceChunk>> {
        self.matrix.load_left(chunk)?;
        let Some(flags) = self.left_flags.get(chunk) else {
            self.state = State::Done;
            return Ok(vec![]);
        };
        if let Some(bitmap) = &self.sink.bitmap
            && self.sink.flagged_left == chunk
        {
            if let Some(made) = self.kept_by_bitmap(step, bitmap, chunk)? {
                self.sink.flagged_left += 1;
                self.state = State::LeftEnd {
                    chunk: chunk + 1,
                    next: 0,
                };
                return Ok(made);
            }
            bitmap.flag(step, &mut self.matrix, chunk, flags)?;
            self.sink.flagged_left += 1;
        }
        let (made, next) = self.side_rows(step, Side::Left, chunk, next)?;
        self.state = match next {
            Some(next) => State::LeftEnd { chunk, next },
            None => State::LeftEnd {
                chunk: chunk + 1,
                next: 0,
            },
        };
        Ok(made)
    }

    /// The next rows of a left chunk, or of the current right chunk, from row `next` on. Also returns the row to go on
    /// from, if any is left.
    fn side_rows(
        &mut self,
        step: &Step<'_>,
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
            && let Some(made) = self.side_in_one_chunk(step, side, left_chunk, flags)?
        {
            return Ok((made, None));
        }
        let rows = chunk.rows();
        let pieces = self.size.of_rows(next, rows);
        let end = pieces.last().map_or(rows, |piece| piece.end);
        let made = self.pieces(pieces.len(), |i| {
            self.side_piece(side, chunk, flags, pieces[i].clone())
        });
        let (made, next) = match self.or_shorter(step, made)? {
            Some(made) => (made, end),
            None => (vec![], next),
        };
        Ok((made, (next < rows).then_some(next)))
    }

    /// All rows of a semi or anti join's chunk in one pass that probes the key bitmap. `None` if they are not resident,
    /// if the output does not stay on the device, or if flags are needed.
    fn kept_by_bitmap(
        &self,
        step: &Step<'_>,
        bitmap: &BitmapSemiJoin,
        left_chunk: usize,
    ) -> Result<Option<Vec<DeviceChunk>>> {
        use JoinType::*;
        let matched = match self.spec.kind {
            LeftSemi | RightSemi => true,
            LeftAnti | RightAnti => false,
            _ => return Ok(None),
        };
        if !self.output_is_one_chunk() {
            return Ok(None);
        }
        let output = self.spec.output.iter().map(|column| match column {
            Output::Column(side, column) if *side == bitmap.side() => Some(*column),
            _ => None,
        });
        let Some(output) = output.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let _timer = self.metrics.output_time.timer();
        let kept = bitmap.keep(&self.matrix, left_chunk, matched, &output);
        at_once(step, kept)
    }

    /// Whether rows of a resident chunk can be emitted together.
    fn output_is_one_chunk(&self) -> bool {
        self.spec.output_on_device && !self.spec.emits_pairs() && !self.sink.right_keys.any()
    }

    /// All rows of a semi, anti or mark join's chunk, if they are resident and the output stays on the device; `None`
    /// if they are emitted piece by piece.
    fn side_in_one_chunk(
        &self,
        step: &Step<'_>,
        side: Side,
        left_chunk: usize,
        flags: &Flags,
    ) -> Result<Option<Vec<DeviceChunk>>> {
        if !self.output_is_one_chunk() {
            return Ok(None);
        }
        let Some(batch) = self.matrix.whole(side, left_chunk) else {
            return Ok(None);
        };
        let _timer = self.metrics.output_time.timer();
        let flagged = self.flagged(&batch, flags).map(Some);
        at_once(step, flagged)
    }

    /// The output of all rows of a chunk by their flags.
    fn flagged(&self, batch: &DeviceBatch, flags: &Flags) -> Result<DeviceBatch> {
        use JoinType::*;
        let device = self.device.as_ref();
        let rows = batch.rows();
        let found = |set| device.flag_column(flags, 0, rows, set);
        let columns = self.spec.output.iter().map(|column| match column {
            Output::Column(_, column) => batch.any(*column).cloned(),
            Output::Mark => found(true).map(BatchColumn::from),
            Output::Value(_) => Err(BowtieError::Internal("a value of rows alone".into())),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let kept = match self.spec.kind {
            LeftMark | RightMark => None,
            kind => {
                let moved: Vec<&Column> = columns.iter().map(|column| column.moved()).collect();
                let flags = found(matches!(kind, LeftSemi | RightSemi))?;
                device.keep(&flags, &moved)?
            }
        };
        Ok(match kept {
            Some((rows, kept)) => {
                let kept = columns.iter().zip(kept);
                DeviceBatch::of(rows, kept.map(|(column, kept)| column.of_moved(kept)))
            }
            None => DeviceBatch::of(rows, columns),
        })
    }

    /// The `rows` of a left chunk's `piece` whose keys are not NULL.
    fn with_key(
        &self,
        rows: Buffer<u32>,
        chunk: &InputChunk,
        piece: &Range<usize>,
    ) -> Result<Buffer<u32>> {
        let mut rows = rows;
        for key in self.spec.theta.keys(Side::Left) {
            let keys = chunk.some(key, piece)?;
            if keys.null_count() > 0 {
                let known = self.device.read(&rows)?;
                let keep = known.iter().map(|row| keys.is_valid(*row as usize));
                let keep: BooleanArray = keep.map(Some).collect();
                rows = self.device.compact(&rows, &keep)?;
            }
        }
        Ok(rows)
    }

    /// The output of the rows `piece` of a chunk of `side` by their flags; `None` if no row is emitted.
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
        let rows = match self.sink.right_keys.any() {
            true => self.with_key(rows, chunk, &piece)?,
            false => rows,
        };
        if rows.len() == 0 {
            return Ok(None);
        }
        // Each column is gathered once. The host does it for few rows, unless the output stays on the device.
        let payload = Arc::new(Payload::default());
        let needed: Vec<Need> = (0..self.spec.input(side).columns())
            .map(
                |i| match self.spec.output.contains(&Output::Column(side, i)) {
                    true if self.spec.output_on_device => Need::Now,
                    true => Need::Lazy(Arc::clone(&payload)),
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
                    Output::Column(of, i) if *of == side => {
                        return batch.any(*i)?.gather(device, &rows).map(Some);
                    }
                    Output::Column(..) | Output::Value(_) => {
                        let data_type = match column {
                            Output::Value(value) => self.spec.values[*value].field.data_type(),
                            Output::Column(other, i) => self.spec.input(*other).data_type(*i),
                            Output::Mark => &DataType::Boolean,
                        };
                        match self.spec.output_on_device {
                            true => {
                                let nulls = new_null_array(data_type, rows.len());
                                return Ok(Some(device.upload(&[nulls])?.into()));
                            }
                            false => device.nulls(data_type, rows.len()),
                        }
                    }
                }
                .map(|column| Some(column.into()))
            })
            .collect::<Result<_>>()?;
        self.metrics
            .uploaded_bytes
            .add(payload.take_uploaded() as usize);
        Ok(Some(DeviceBatch::new(rows.len(), columns)))
    }
}

/// The result of a path that emits a whole chunk. `None` if it did not apply, or did not fit and the step may take a
/// path with less memory.
fn at_once(step: &Step<'_>, made: Result<Option<DeviceBatch>>) -> Result<Option<Vec<DeviceChunk>>> {
    match made {
        Ok(Some(batch)) => Ok(Some(match batch.rows() {
            0 => vec![],
            _ => vec![DeviceChunk::Resident(batch)],
        })),
        Ok(None) => Ok(None),
        Err(error) if step.may_shrink(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
