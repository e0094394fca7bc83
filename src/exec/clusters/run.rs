//! [`ClusterRun`]: the pairs so far. In: one chunk after the other. Out: clusters that were made on the device, or on the host where the
//! pairs do not fit together.

use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::execution::memory_pool::MemoryPool;

use crate::device::batches::batch::DeviceBatch;
use crate::device::lazy_column::Need;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, IfItFits as _, Result};
use crate::exec::clusters::components::{Clusters, Components};
use crate::exec::clusters::on_device::{DeviceClusters, FoundClusters, WORK_BYTES};
use crate::exec::clusters::table_memory::TableMemory;
use crate::exec::input::chunk::InputChunk;
use crate::exec::input::gathered::evict_each;
use crate::exec::input::resident_chunk::slices;
use crate::exec::memory::on_request::Evictable;
use crate::exec::memory::spill::Spilling;
use crate::exec::memory::step::{self, OnRefusal};
use crate::exec::metrics::{ClusterCounts, DeviceMetrics};
use crate::spec::clusters::ClustersSpec;

/// Pairs of a chunk that are on the host at a time.
const PIECE_PAIRS: usize = 1 << 16;

/// Bytes of a file of pairs that are on the host at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Ids that a device numbers together, at most.
const MOST_IDS: usize = (1 << 30) - 1;

/// Bytes of text in one column of a device, at most.
const MOST_TEXT: u64 = i32::MAX as u64;

/// The state of a clustering between two chunks.
pub(crate) struct ClusterRun {
    pub(crate) spec: Arc<ClustersSpec>,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) spilling: Option<Spilling>,
    pub(crate) pool: Arc<dyn MemoryPool>,
    pub(crate) metrics: DeviceMetrics,
    pub(crate) counts: ClusterCounts,
    /// Chunks of pairs, while all of them may fit on the device.
    pub(crate) chunks: Vec<InputChunk>,
    /// The clusters of all pairs so far, once they did not; pairs are not kept then.
    pub(crate) components: Option<Components>,
}

/// The clusters of all pairs.
pub(crate) enum Clustered {
    Nothing,
    OnDevice(Box<DeviceClusters>),
    OnHost(Box<Clusters>),
}

impl Evictable for ClusterRun {
    fn holds_device_memory(&self) -> bool {
        self.chunks.iter().any(|chunk| chunk.resident().is_some())
    }

    fn evict_for_others(&mut self) -> Result<()> {
        let spilling = self.spilling.as_ref();
        evict_each(self.chunks.iter_mut(), self.device.as_ref(), spilling)
    }
}

impl ClusterRun {
    /// Adds the pairs of a chunk.
    pub(crate) fn push(&mut self, chunk: InputChunk) -> Result<()> {
        chunk.check_evaluated(|_| true)?;
        self.metrics.chunks.add(1);
        self.counts.input_pairs.add(chunk.rows());
        self.chunks.push(chunk);
        if self.components.is_some() || !self.may_fit()? {
            return self.on_host();
        }
        if self.device.budget().is_scarce(0) {
            self.evict_for_others()?;
        }
        let full = self.spilling.as_ref().is_some_and(Spilling::pool_is_full);
        match full {
            true => self.leave_pool(),
            false => Ok(()),
        }
    }

    /// Spills the chunks that are on the host, or without files adds their pairs to the clusters that are made there.
    pub(crate) fn leave_pool(&mut self) -> Result<()> {
        let Some(spilling) = &self.spilling else {
            return self.on_host();
        };
        for chunk in &mut self.chunks {
            chunk.leave_host(spilling)?;
        }
        Ok(())
    }

    fn pairs(&self) -> usize {
        self.chunks.iter().map(InputChunk::rows).sum()
    }

    /// Whether the device has room for the pairs so far, their concatenation and the work on it.
    fn may_fit(&self) -> Result<bool> {
        let mut bytes = 0u64;
        for chunk in &self.chunks {
            bytes = bytes.saturating_add(chunk.bytes()?);
        }
        let ids = 2 * self.pairs();
        let needed = bytes.saturating_mul(2);
        let needed = needed.saturating_add(ids as u64 * WORK_BYTES);
        let is_short = self.spec.data_type.is_primitive() || bytes <= MOST_TEXT;
        Ok(ids <= MOST_IDS && is_short && needed <= self.device.budget().limit())
    }

    /// Adds all pairs to the clusters that are made on the host, and drops them.
    fn on_host(&mut self) -> Result<()> {
        let mut components = match self.components.take() {
            Some(components) => components,
            None => {
                let memory = TableMemory::new("BowtieClusters", &self.pool);
                Components::try_new(&self.spec.data_type, memory)?
            }
        };
        // Each chunk gives its memory back before the next one is read.
        for chunk in std::mem::take(&mut self.chunks) {
            self.metrics.clustered_on_host(chunk.rows());
            self.add_to(&mut components, chunk)?;
        }
        self.components = Some(components);
        Ok(())
    }

    fn add_to(&self, components: &mut Components, chunk: InputChunk) -> Result<()> {
        let device = self.device.as_ref();
        let _timer = self.metrics.prepare_time.timer();
        let mut add = |pairs: &[ArrayRef]| {
            device.check_cancelled()?;
            let [left, right] = pairs else {
                return Err(BowtieError::Internal("a pair has two ids".into()));
            };
            Ok(components.add(left, right)?)
        };
        if let Some(batch) = chunk.resident() {
            return step::shared(device, OnRefusal::Shrink, |_| {
                slices(device, batch, &mut |pairs| add(&pairs))
            });
        }
        // A file is read once, from its beginning to its end.
        if let InputChunk::Spilled(spilled) = &chunk {
            return spilled.each(PIECE_BYTES, &mut |rows| {
                add(&[rows.whole(0)?, rows.whole(1)?])
            });
        }
        for from in (0..chunk.rows()).step_by(PIECE_PAIRS) {
            let rows = from..chunk.rows().min(from + PIECE_PAIRS);
            add(&[chunk.some(0, &rows)?, chunk.some(1, &rows)?])?;
        }
        Ok(())
    }

    /// Ends the pairs.
    pub(crate) fn finish(&mut self) -> Result<Clustered> {
        if self.components.is_none() {
            if let Some(clustered) = self.clustered_on_device()? {
                self.chunks.clear();
                return Ok(clustered);
            }
            self.on_host()?;
        }
        let components = self.components.take();
        let components =
            components.ok_or_else(|| BowtieError::Internal("the clusters of no pairs".into()))?;
        let clusters = components.finish()?;
        self.counts.clusters.add(clusters.count());
        Ok(Clustered::OnHost(Box::new(clusters)))
    }

    /// The clusters by the device; `None` where the pairs do not fit together.
    fn clustered_on_device(&mut self) -> Result<Option<Clustered>> {
        if self.pairs() == 0 {
            return Ok(Some(Clustered::Nothing));
        }
        let device = Arc::clone(&self.device);
        let needs = [Need::Now, Need::Now];
        let find = |run: &mut Self, _: &step::Step<'_>| {
            let device = run.device.as_ref();
            let mut batches: Vec<DeviceBatch> = vec![];
            for chunk in &run.chunks {
                batches.push(chunk.upload(device, &(0..chunk.rows()), &needs, &run.metrics)?);
                // The memory pool may have room for one chunk alone.
                if let InputChunk::Spilled(spilled) = chunk {
                    spilled.unload();
                }
            }
            let _timer = run.metrics.prepare_time.timer();
            FoundClusters::of(device, &batches)
        };
        let found = step::retried_if_it_fits(device.as_ref(), self, find, |_| true);
        let found = match found {
            Err(error) if error.is_out_of_host_memory() => None,
            found => found.if_it_fits()?,
        };
        let peak = device.budget().peak();
        self.metrics.peak_device_bytes.set_max(peak as usize);
        Ok(found.map(|found| match found {
            None => Clustered::Nothing,
            Some(found) => {
                self.counts.clusters.add(found.count);
                let (spec, metrics) = (Arc::clone(&self.spec), self.metrics.clone());
                Clustered::OnDevice(Box::new(DeviceClusters::new(device, found, spec, metrics)))
            }
        }))
    }
}
