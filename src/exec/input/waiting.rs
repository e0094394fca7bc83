//! [`Waiting`]: the pieces that become the next chunk, on the device, on the host, or in a file.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::device::batches::batch::DeviceBatch;
use crate::device::batches::batch_column::BatchColumn;
use crate::device::primitives::device::Device;
use crate::error::IfItFits as _;
use crate::exec::chunk::chunk_limits::ChunkLimits;
use crate::exec::chunk::sizes::batch_bytes;
use crate::exec::chunk::staged_chunk::StagedChunk;
use crate::exec::input::chunk::{Input, InputChunk};
use crate::exec::input::resident_chunk::slices;
use crate::exec::memory::on_request::Evictable;
use crate::exec::memory::spill::{Spilling, spilled_rows};
use crate::exec::memory::spilled_chunk::ChunkWriter;
use crate::exec::memory::step::{self, OnRefusal};

/// The pieces of the next chunk, and the chunks that are ready.
pub(crate) struct Waiting {
    pub(crate) on_device: Vec<DeviceBatch>,
    pub(crate) on_host: Vec<RecordBatch>,
    /// Of pieces on the device and on the host together.
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
    pub(crate) schema: SchemaRef,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) reservation: MemoryReservation,
    pub(crate) spilling: Option<Spilling>,
    /// The spilled chunk that is being written. Its rows come before those of the waiting pieces.
    pub(crate) in_file: Option<ChunkWriter>,
    pub(crate) limits: ChunkLimits,
    /// What the reader has not read yet.
    pub(crate) ready: VecDeque<Input>,
}

impl Evictable for Waiting {
    fn holds_device_memory(&self) -> bool {
        !self.on_device.is_empty()
    }

    fn evict_for_others(&mut self) -> crate::error::Result<()> {
        let bytes = self.on_device.iter().map(|batch| batch.bytes() as usize);
        let has_room = || match bytes.sum() {
            0 => true,
            bytes => self.reservation.new_empty().try_grow(bytes).is_ok(),
        };
        // What the pool refuses stays where it is.
        if self.spilling.is_none() && !has_room() {
            return Ok(());
        }
        let device = Arc::clone(&self.device);
        step::shared(device.as_ref(), OnRefusal::Shrink, |_| self.download())
    }
}

impl Waiting {
    pub(crate) fn push(&mut self, batch: DeviceBatch, rows: usize, bytes: usize) {
        self.on_device.push(batch);
        self.rows += rows;
        self.bytes += bytes;
    }

    /// Moves all state out, so that a blocking thread can own it.
    pub(crate) fn take(&mut self) -> Self {
        Self {
            on_device: std::mem::take(&mut self.on_device),
            on_host: std::mem::take(&mut self.on_host),
            rows: std::mem::take(&mut self.rows),
            bytes: std::mem::take(&mut self.bytes),
            schema: Arc::clone(&self.schema),
            device: Arc::clone(&self.device),
            reservation: self.reservation.take(),
            spilling: self.spilling.clone(),
            in_file: self.in_file.take(),
            limits: self.limits,
            ready: std::mem::take(&mut self.ready),
        }
    }

    /// Cuts a staged chunk to the size that the reader wants. Finished groups arrive as one chunk.
    pub(crate) fn cut(&self, chunk: StagedChunk) -> crate::error::Result<Vec<InputChunk>> {
        let row_bytes = (0..self.schema.fields().len().min(chunk.shape().columns()))
            .map(|column| chunk.mean_bytes(column))
            .sum::<crate::error::Result<u64>>()? as usize;
        let mut most = self.limits.most_rows;
        // An upload makes chunks of about the right size.
        if chunk.rows().saturating_mul(row_bytes) / 2 > self.limits.bytes {
            most = most.min((self.limits.bytes / row_bytes.max(1)).max(1));
        }
        let chunks = chunk.cut(most)?.into_iter();
        Ok(chunks.map(InputChunk::Staged).collect())
    }

    /// Spills the chunks that the reader has not read yet.
    pub(crate) fn leave_host(&mut self) -> crate::error::Result<()> {
        if let Some(spilling) = &self.spilling {
            for input in &mut self.ready {
                if let Input::Chunk(chunk) = input {
                    chunk.leave_host(spilling)?;
                }
            }
        }
        Ok(())
    }

    /// Downloads the waiting pieces. They are spilled if the memory pool refuses them.
    pub(crate) fn download(&mut self) -> crate::error::Result<()> {
        if self.in_file.is_some() {
            return self.spill();
        }
        while !self.on_device.is_empty() {
            let bytes = self.on_device[0].bytes() as usize;
            let reserved = self.reserve(bytes);
            if let (Err(_), Some(_)) = (&reserved, &self.spilling) {
                return self.spill();
            }
            reserved?;
            let batch = self.on_device.remove(0);
            let batch = batch.download(self.device.as_ref(), &self.schema)?;
            // Buffers that views and dictionaries share are counted once.
            let more = batch_bytes(&batch).saturating_sub(bytes);
            let grown = self.reserve(more);
            self.on_host.push(batch);
            if let (Err(_), Some(_)) = (&grown, &self.spilling) {
                return self.spill();
            }
            grown?;
        }
        Ok(())
    }

    /// Rows without columns take no memory; a full pool would refuse even 0 bytes.
    fn reserve(&self, bytes: usize) -> Result<()> {
        match bytes {
            0 => Ok(()),
            bytes => self.reservation.try_grow(bytes),
        }
    }

    /// Appends the waiting pieces to the spilled chunk, which is finished once it is long enough.
    pub(crate) fn spill(&mut self) -> crate::error::Result<()> {
        // Rows without columns take no memory, and a file cannot hold them.
        if self.schema.fields().is_empty() {
            return Ok(());
        }
        for batch in std::mem::take(&mut self.on_host) {
            let rows = batch.num_rows();
            let each = spilled_rows(batch_bytes(&batch) / rows.max(1));
            for from in (0..rows).step_by(each) {
                let part = batch.slice(from, each.min(rows - from));
                self.write(part.columns().to_vec())?;
            }
        }
        let device = Arc::clone(&self.device);
        for batch in std::mem::take(&mut self.on_device) {
            slices(device.as_ref(), &batch, &mut |columns| self.write(columns))?;
        }
        (self.rows, self.bytes) = (0, 0);
        self.reservation.free();
        Ok(())
    }

    /// Appends a batch to the spilled chunk, which is created if there is none.
    fn write(&mut self, columns: Vec<ArrayRef>) -> crate::error::Result<()> {
        if self.in_file.is_none() {
            let types = columns.iter().map(|array| array.data_type().clone());
            if let Some(spilling) = &self.spilling {
                self.in_file = ChunkWriter::create(types, spilling)?;
            }
        }
        let Some(file) = &mut self.in_file else {
            return Err(crate::error::BowtieError::Internal(
                "rows without columns are spilled".into(),
            ));
        };
        file.append(columns)?;
        if file.rows() >= self.limits.rows || file.bytes() >= self.limits.bytes {
            self.finish_file()?;
        }
        Ok(())
    }

    fn finish_file(&mut self) -> crate::error::Result<()> {
        let chunk = match self.in_file.take() {
            Some(file) => file.finish(vec![], &self.reservation)?,
            None => None,
        };
        let chunk = chunk.map(InputChunk::Spilled);
        self.ready.extend(chunk.map(Input::Chunk));
        Ok(())
    }

    /// Makes the last chunks.
    pub(crate) fn finish(&mut self) -> crate::error::Result<()> {
        self.put_together()?;
        self.finish_file()
    }

    /// Makes one chunk of all waiting pieces: on the device if they are resident and a copy of them fits, otherwise on
    /// the host.
    pub(crate) fn put_together(&mut self) -> crate::error::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        if self.on_host.is_empty()
            && self.in_file.is_none()
            && let Some(batch) = self.on_device().if_it_fits()?
        {
            let outgrew = batch.bytes() > self.bytes as u64;
            (self.rows, self.bytes) = (0, 0);
            self.on_device.clear();
            let reservation = self.reservation.take();
            let mut chunk = InputChunk::of_batch(batch, &self.device, &self.schema, reservation);
            // Memory is kept for work.
            if outgrew && self.device.budget().is_scarce(0) {
                chunk.evict(self.spilling.as_ref());
            }
            self.ready.push_back(Input::Chunk(chunk));
            return Ok(());
        }
        self.download()?;
        if self.rows == 0 {
            // All rows were spilled.
            return Ok(());
        }
        let columns = (0..self.schema.fields().len()).map(|i| {
            let parts = self.on_host.iter();
            parts.map(|batch| Arc::clone(batch.column(i))).collect()
        });
        let columns = columns.collect();
        self.on_host.clear();
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        let reservation = Arc::new(self.reservation.take());
        let chunk = StagedChunk::of_parts(rows, columns, reservation);
        let chunk = InputChunk::Staged(chunk);
        self.ready.push_back(Input::Chunk(chunk));
        Ok(())
    }

    /// The waiting pieces as one batch on the device.
    fn on_device(&self) -> crate::error::Result<DeviceBatch> {
        if let [batch] = self.on_device.as_slice() {
            return Ok(batch.clone());
        }
        let columns = (0..self.schema.fields().len()).map(|i| {
            let parts = self.on_device.iter();
            let parts = parts.map(|batch| batch.any(i));
            let parts = parts.collect::<crate::error::Result<Vec<_>>>()?;
            BatchColumn::concat(self.device.as_ref(), &parts).map(Some)
        });
        Ok(DeviceBatch::new(
            self.rows,
            columns.collect::<crate::error::Result<_>>()?,
        ))
    }
}
