//! An NVIDIA GPU as a device, through the driver alone.
//!
//! ```text
//! runtime/driver.rs    is there a driver, which GPUs does it know
//! runtime/gpu.rs       one card: context, kernels by family, staging rings; opened once in the process
//! runtime/stream.rs     one stream of work, its leased memory, launching kernels
//! staging/transfer.rs   copies through pinned memory
//! columns/fixed_width.rs    columns of fixed width, and all columns across the border; columns/storage.rs columns/var_width.rs columns/indirect.rs those of other types
//! columns/cast_on_upload.rs     narrow columns sent as they are, and cast there
//! columns/concat.rs    pieces put together
//! generated/   programs over rows as kernels of their own, made at run time; filters in one pass
//! columns/lazy.rs      payload columns that are uploaded when that pays
//! keys/order_keys.rs columns/rows.rs keys/sort.rs columns/scan.rs theta/range.rs theta/zone_map.rs theta/wavelet_tree.rs theta/brute_force.rs theta/pair_program.rs theta/range_fold.rs    one for each family of kernels
//! expr/string_predicate.rs tests of text, and characters of it
//! theta/choose_count.rs     which way counts tested matches soonest: a walk, an index, or tiles
//! theta/cross_product.rs   columns of a product of two inputs
//! runtime/cancellable.rs  candidates tested in launches that a cancelled query ends after
//! keys/tuples.rs    rows as tuples of words, sorted and found: keys/key_column.rs, keys/pack.rs keys/group_ids.rs by equality, keys/ranks.rs by order
//! equi/key_words.rs equi/index.rs equi/tables.rs equi/partition.rs equi/single_pass.rs equi/materialize.rs equi/sample.rs equi/choose.rs    equi-joins: keys, indexes, partitions, pairs put together
//! semi/key_bitmap.rs  a bit for each key, where only existence is asked
//! sets/        set joins: lists as sets of numbers, techniques, lists of matches
//! aggregate/fold.rs aggregate/strategies.rs    aggregates over groups: columns to accumulators and back; each strategy, of which aggregate/choose.rs
//!                               chooses by a sample (aggregate/sample.rs)
//! aggregate/dense_ids.rs aggregate/directory.rs aggregate/partition.rs    ids by direct address, by hashing; rows in parts, or sorted
//! aggregate/accumulators.rs aggregate/shared_layout.rs    the kernels that add rows to groups, and their shared memory
//! fallback.rs      what has no kernel, or no type here: the host's primitive, with its arguments brought down
//! ```
//!
//! Work of one [`CudaDevice`] handle is done in order on one stream, so primitives need not wait for one another; they wait
//! only where the host needs a number. Errors of a kernel are seen at the next such place.

#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::device::budget::Budget;
use crate::device::cuda::runtime::gpu::Gpu;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::host::device::HostDevice;
use crate::device::primitives::device::Device;
use crate::device::profile::DeviceProfile;
use crate::error::{BowtieError, Result};

/// A GPU, as one operator uses it.
#[derive(Debug)]
pub(crate) struct CudaDevice {
    pub(crate) name: String,
    pub(crate) queue: Arc<Stream>,
    /// The host's primitives, for what has no kernel. Its memory is the host's, so it is not counted.
    pub(crate) twin: HostDevice,
    pub(crate) cancelled: Arc<AtomicBool>,
    pub(crate) profile: Arc<DeviceProfile>,
    /// Of programs over rows.
    pub(crate) rows_before_compiling: u64,
    /// Of both sides of a join, where it is worth looking whether they ascend.
    pub(crate) least_merged_rows: usize,
}

impl CudaDevice {
    /// GPU `ordinal` under a budget of its own of `limit` bytes (`None`: as the card's), so that tests beside each other share none.
    #[cfg(test)]
    pub(crate) fn open(ordinal: u32, limit: Option<u64>) -> Result<Self> {
        let gpu = Gpu::open(ordinal)?;
        let budget = Budget::new(limit.unwrap_or(gpu.budget.limit()));
        Self::under(gpu, ordinal, budget)
    }

    /// An opened GPU under `budget`, which is the card's, or below it.
    ///
    /// # Errors
    /// When the driver makes no stream.
    pub(crate) fn under(gpu: Arc<Gpu>, ordinal: u32, budget: Arc<Budget>) -> Result<Self> {
        Ok(Self {
            name: format!("cuda:{ordinal}"),
            queue: Stream::new(gpu, budget)?,
            twin: HostDevice::new(Budget::new(u64::MAX))?,
            cancelled: Arc::default(),
            profile: Arc::new(DeviceProfile::of_gpu()),
            rows_before_compiling: ROWS_BEFORE_COMPILING,
            least_merged_rows: LEAST_MERGED_ROWS,
        })
    }
}

impl Device for CudaDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn budget(&self) -> &Arc<Budget> {
        &self.queue.budget
    }

    fn attach(&self, budget: Arc<Budget>, cancelled: Arc<AtomicBool>) -> Result<Arc<dyn Device>> {
        Ok(Arc::new(Self {
            name: self.name.clone(),
            queue: Stream::new(Arc::clone(&self.queue.gpu), budget)?,
            twin: self.twin.cancelled_by(Arc::clone(&cancelled)),
            cancelled,
            profile: Arc::clone(&self.profile),
            rows_before_compiling: self.rows_before_compiling,
            least_merged_rows: self.least_merged_rows,
        }))
    }

    fn go_on(&self) -> Result<()> {
        match self.cancelled.load(Ordering::Relaxed) {
            true => Err(BowtieError::Cancelled),
            false => Ok(()),
        }
    }

    fn for_each_piece(
        &self,
        pieces: usize,
        each: &(dyn Fn(usize) -> Result<()> + Sync),
    ) -> Result<()> {
        for piece in 0..pieces {
            each(piece)?;
            self.go_on()?;
        }
        Ok(())
    }

    fn profile(&self) -> &DeviceProfile {
        &self.profile
    }
}

/// Rows that a program must have been asked for, in all, before it is compiled. The driver takes some 5 to 30 ms, once a program
/// and process, and less where it finds it on disk; the interpreter loses some 5 to 50 ms a thousand million rows, more the longer the
/// program is. A program that is asked for so many rows is likely asked again.
pub(crate) const ROWS_BEFORE_COMPILING: u64 = 1 << 22;

/// Rows of both sides from which it is worth looking whether they ascend: fewer are joined as soon by other strategies.
pub(crate) const LEAST_MERGED_ROWS: usize = 1 << 17;
