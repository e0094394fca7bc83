//! Staging: between ordinary memory and a GPU through rings of pinned memory, filled and emptied by several threads.
//!
//! Copies from pageable memory go at a fifth of the bus's rate; pinning memory takes longer than copying it, so the rings are
//! allocated once.

use cudarc::driver::{CudaEvent, result, sys};
use rayon::prelude::*;

use super::driver::failed;
use super::gpu::Gpu;
use super::queue::{Memory, Queue};
use crate::error::{BowtieError, Result};

const SLOTS: usize = 4;
const SLOT_BYTES: usize = 32 << 20;
/// Bytes that one thread copies at a time.
const TASK_BYTES: usize = 1 << 20;
/// Below it the driver's own way is quicker.
const SMALL_BYTES: usize = 128 << 10;

/// Slots of pinned memory, used one after the other.
#[derive(Debug)]
pub(super) struct Ring {
    slots: Vec<Slot>,
    next: usize,
}

#[derive(Debug)]
struct Slot {
    pinned: Pinned,
    /// Recorded after the slot's last copy.
    copied: CudaEvent,
}

/// Pinned host memory.
#[derive(Debug)]
struct Pinned(*mut u8);

// SAFETY: the memory is owned and not tied to the thread that allocated it.
unsafe impl Send for Pinned {}

impl Pinned {
    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: SLOT_BYTES were allocated and zeroed, and are borrowed through `self` alone. No copy of the GPU touches
        // them meanwhile: the slot's event was waited for.
        unsafe { std::slice::from_raw_parts_mut(self.0, SLOT_BYTES) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: allocated by malloc_host, freed once. The rings live as long as the process: this is for a failed start.
        let _ = unsafe { result::free_host(self.0.cast()) };
    }
}

impl Ring {
    fn new(gpu: &Gpu) -> Result<Self> {
        let slots = (0..SLOTS)
            .map(|_| {
                let copied = gpu
                    .context
                    .new_event(None)
                    .map_err(|e| failed("making an event", e))?;
                // SAFETY: plain allocation in the bound context; owned by `Pinned`.
                let memory =
                    unsafe { result::malloc_host(SLOT_BYTES, sys::CU_MEMHOSTALLOC_PORTABLE) }
                        .map_err(|e| failed("pinning memory", e))?;
                // SAFETY: SLOT_BYTES were just allocated.
                unsafe { std::ptr::write_bytes(memory.cast::<u8>(), 0, SLOT_BYTES) };
                Ok(Slot {
                    pinned: Pinned(memory.cast()),
                    copied,
                })
            })
            .collect::<Result<_>>()?;
        Ok(Self { slots, next: 0 })
    }

    /// The next slot, which no copy uses any more.
    fn slot(&mut self) -> Result<&mut Slot> {
        let slot = &mut self.slots[self.next];
        self.next = (self.next + 1) % SLOTS;
        slot.copied.synchronize().map_err(|e| failed("a copy", e))?;
        Ok(slot)
    }
}

impl Queue {
    /// Copies `from` to the beginning of `to`. `from` may be reused as soon as this returns.
    pub(super) fn write(&self, to: &Memory, from: &[u8]) -> Result<()> {
        if from.len() > to.bytes() {
            return Err(BowtieError::Internal("a copy past the end".into()));
        }
        if from.is_empty() {
            return Ok(());
        }
        self.bind()?;
        let stream = self.stream.cu_stream();
        if from.len() <= SMALL_BYTES {
            // SAFETY: the target is long enough, and `from` is borrowed until the copy was waited for: it may be memory that
            // the caller has pinned, of which the driver makes no copy of its own.
            unsafe { result::memcpy_htod_async(to.pointer(), from, stream) }
                .map_err(|e| failed("a copy to the GPU", e))?;
            return self.wait();
        }
        // Whoever holds the ring waits for copies alone, not for kernels: nobody else does then.
        self.wait()?;
        let mut ring = self.gpu.up.lock();
        if ring.is_none() {
            *ring = Some(Ring::new(&self.gpu)?);
        }
        let Some(ring) = ring.as_mut() else {
            return Err(BowtieError::Internal("no staging ring".into()));
        };
        let mut at = to.pointer();
        for part in from.chunks(SLOT_BYTES) {
            let slot = ring.slot()?;
            let pinned = &mut slot.pinned.bytes()[..part.len()];
            copy(pinned, part);
            // SAFETY: the target has room for `part`; the slot stays untouched until its event is waited for.
            unsafe { result::memcpy_htod_async(at, pinned, stream) }
                .and_then(|()| slot.copied.record(&self.stream))
                .map_err(|e| failed("a copy to the GPU", e))?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Copies `to.len()` bytes of `from`, beginning at `offset`, and waits for them.
    pub(super) fn read(&self, to: &mut [u8], from: &Memory, offset: usize) -> Result<()> {
        if offset + to.len() > from.bytes() {
            return Err(BowtieError::Internal("a copy from past the end".into()));
        }
        if to.is_empty() {
            return Ok(());
        }
        self.bind()?;
        let stream = self.stream.cu_stream();
        let begin = from.pointer() + offset as u64;
        if to.len() <= SMALL_BYTES {
            // SAFETY: the source is long enough, and `to` is borrowed until the stream was waited for.
            unsafe { result::memcpy_dtoh_async(to, begin, stream) }
                .map_err(|e| failed("a copy from the GPU", e))?;
            return self.wait();
        }
        self.wait()?;
        let mut ring = self.gpu.down.lock();
        if ring.is_none() {
            *ring = Some(Ring::new(&self.gpu)?);
        }
        let Some(ring) = ring.as_mut() else {
            return Err(BowtieError::Internal("no staging ring".into()));
        };
        // All slots but one are on their way while the oldest is emptied.
        let parts = to.len().div_ceil(SLOT_BYTES);
        let len_of = |part: usize| SLOT_BYTES.min(to.len() - part * SLOT_BYTES);
        let lens: Vec<usize> = (0..parts).map(len_of).collect();
        let first = ring.next;
        let start = |ring: &mut Ring, part: usize| -> Result<()> {
            let slot = &mut ring.slots[(first + part) % SLOTS];
            // A copy that failed half-way may have left others under way.
            slot.copied
                .synchronize()
                .map_err(|e| failed("a copy from the GPU", e))?;
            let pinned = &mut slot.pinned.bytes()[..lens[part]];
            // SAFETY: the source is long enough; the slot stays untouched until its event is waited for.
            unsafe { result::memcpy_dtoh_async(pinned, begin + (part * SLOT_BYTES) as u64, stream) }
                .and_then(|()| slot.copied.record(&self.stream))
                .map_err(|e| failed("a copy from the GPU", e))
        };
        for part in 0..parts.min(SLOTS - 1) {
            start(ring, part)?;
        }
        for (part, to) in to.chunks_mut(SLOT_BYTES).enumerate() {
            if part + SLOTS - 1 < parts {
                start(ring, part + SLOTS - 1)?;
            }
            let slot = &mut ring.slots[(first + part) % SLOTS];
            slot.copied
                .synchronize()
                .map_err(|e| failed("a kernel or a copy", e))?;
            let pinned = &slot.pinned.bytes()[..to.len()];
            copy(to, pinned);
        }
        ring.next = (first + parts) % SLOTS;
        Ok(())
    }
}

/// Copies by several threads. A thread of a pool copies alone: while it waited for others it might take up work that wants the
/// ring that it holds.
fn copy(to: &mut [u8], from: &[u8]) {
    match rayon::current_thread_index() {
        Some(_) => to.copy_from_slice(from),
        None => to
            .par_chunks_mut(TASK_BYTES)
            .zip(from.par_chunks(TASK_BYTES))
            .for_each(|(to, from)| to.copy_from_slice(from)),
    }
}
