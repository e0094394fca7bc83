//! Staging: between ordinary memory and a GPU through rings of pinned memory, filled and emptied by several threads.
//!
//! Copies from pageable memory go at a fifth of the bus's rate; pinning memory takes longer than copying it, so the rings are
//! allocated once.

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cudarc::driver::{CudaEvent, CudaStream, DriverError, result, sys};
use parking_lot::{Mutex, MutexGuard};
use rayon::prelude::*;

use super::driver::failed;
use super::gpu::Gpu;
use super::queue::{Memory, Queue};
use crate::error::{BowtieError, Result};

const SLOTS: usize = 8;
const SLOT_BYTES: usize = 8 << 20;
/// Bytes that one thread copies at a time.
const TASK_BYTES: usize = 256 << 10;
/// Below it the driver's own way is quicker.
const SMALL_BYTES: usize = 128 << 10;

/// Slots of pinned memory, used in turn, on a stream of their own, so that copies and kernels overlap. Several copies may go on
/// at the same time, each in slots that it holds for a while.
#[derive(Debug)]
pub(super) struct Ring {
    stream: Arc<CudaStream>,
    slots: Vec<Mutex<Slot>>,
    next: AtomicUsize,
}

#[derive(Debug)]
struct Slot {
    pinned: Pinned,
    /// Recorded after the slot's last copy.
    copied: CudaEvent,
}

impl Slot {
    /// Its memory, once no copy uses it any more.
    fn free(&mut self) -> Result<&mut [u8]> {
        self.copied.synchronize().map_err(|e| failed("a copy", e))?;
        Ok(self.pinned.bytes())
    }
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
                Ok(Mutex::new(Slot {
                    pinned: Pinned(memory.cast()),
                    copied,
                }))
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            stream: gpu.stream()?,
            slots,
            next: AtomicUsize::new(0),
        })
    }

    /// The ring in `place`, made at its first use.
    fn of(place: &Mutex<Option<Arc<Self>>>, gpu: &Gpu) -> Result<Arc<Self>> {
        let mut place = place.lock();
        if let Some(ring) = place.as_ref() {
            return Ok(Arc::clone(ring));
        }
        Ok(Arc::clone(place.insert(Arc::new(Self::new(gpu)?))))
    }

    /// The next slot in turn.
    fn next_slot(&self) -> &Mutex<Slot> {
        &self.slots[self.next.fetch_add(1, Ordering::Relaxed) % SLOTS]
    }
}

impl Queue {
    /// Copies `bytes` into memory of their own. They may be reused as soon as this returns.
    pub(super) fn send(self: &Arc<Self>, bytes: &[u8], what: &'static str) -> Result<Memory> {
        if bytes.len() <= SMALL_BYTES {
            return self.send_small(bytes, what);
        }
        let memory = self.send_ahead(&[bytes], what)?;
        memory.receive()?;
        Ok(memory)
    }

    /// Copies `parts`, one after the other, into memory of their own, which must be received before it is used. They may be
    /// reused as soon as this returns.
    pub(super) fn send_ahead(
        self: &Arc<Self>,
        parts: &[&[u8]],
        what: &'static str,
    ) -> Result<Memory> {
        let bytes = parts.iter().map(|part| part.len()).sum();
        let ring = Ring::of(&self.gpu.up, &self.gpu)?;
        // Allocated in the order of the copies, which so wait for no kernel.
        let memory = self.alloc_on(&ring.stream, bytes, what)?;
        let sent = ring
            .fill(parts, memory.pointer())
            .and_then(|()| self.gpu.mark(&ring.stream));
        match sent {
            Ok(copied) => {
                memory.sent(copied);
                Ok(memory)
            }
            Err(error) => {
                // Before the memory is dropped.
                let _ = ring.stream.synchronize();
                Err(error)
            }
        }
    }

    fn send_small(self: &Arc<Self>, from: &[u8], what: &'static str) -> Result<Memory> {
        let memory = self.alloc(from.len(), what)?;
        if !from.is_empty() {
            // SAFETY: the target is long enough, and `from` is borrowed until the copy was waited for: it may be memory that
            // the caller has pinned, of which the driver makes no copy of its own.
            unsafe { result::memcpy_htod_async(memory.pointer(), from, self.stream.cu_stream()) }
                .map_err(|e| failed("a copy to the GPU", e))?;
            self.wait()?;
        }
        Ok(memory)
    }

    /// Copies a few bytes of `from`, beginning at `offset`, and waits for them.
    pub(super) fn read_few(&self, to: &mut [u8], from: &Memory, offset: usize) -> Result<()> {
        if offset + to.len() > from.bytes() {
            return Err(BowtieError::Internal("a copy from past the end".into()));
        }
        self.bind()?;
        let begin = from.pointer() + offset as u64;
        // SAFETY: the source is long enough, and `to` is borrowed until the stream was waited for.
        unsafe { result::memcpy_dtoh_async(to, begin, self.stream.cu_stream()) }
            .map_err(|e| failed("a copy from the GPU", e))?;
        self.wait()
    }

    /// Copies the first `to.len()` bytes of `from`, and waits for them. `made` was marked when they were there;
    /// without it all work of the queue is waited for.
    pub(super) fn read(
        &self,
        to: &mut [MaybeUninit<u8>],
        from: &Memory,
        made: Option<&CudaEvent>,
    ) -> Result<()> {
        if to.len() > from.bytes() {
            return Err(BowtieError::Internal("a copy from past the end".into()));
        }
        if to.is_empty() {
            return Ok(());
        }
        self.bind()?;
        let begin = from.pointer();
        if to.len() <= SMALL_BYTES && made.is_none() {
            // SAFETY: the source is long enough, and `to`, of which nothing is read, is borrowed until the stream was waited for.
            unsafe { result::memcpy_dtoh_async(to, begin, self.stream.cu_stream()) }
                .map_err(|e| failed("a copy from the GPU", e))?;
            return self.wait();
        }
        // Whoever holds a slot waits for copies alone, not for kernels.
        match made {
            Some(made) => made.synchronize().map_err(|e| failed("a kernel", e))?,
            None => self.wait()?,
        }
        Ring::of(&self.gpu.down, &self.gpu)?.empty(to, begin)
    }
}

impl Ring {
    /// After a failure: nothing of the ring is under way any more when its slots are given back.
    fn abandon(&self, what: &str, error: DriverError) -> BowtieError {
        let _ = self.stream.synchronize();
        failed(what, error)
    }

    /// Copies `parts` to address `to` and on; they are on their way when this returns.
    fn fill(&self, parts: &[&[u8]], to: u64) -> Result<()> {
        let mut rest = parts.iter().copied();
        let mut part: &[u8] = &[];
        let mut to = to;
        loop {
            // What fits the next slot.
            let (mut pieces, mut len) = (vec![], 0);
            while len < SLOT_BYTES {
                if part.is_empty() {
                    match rest.next() {
                        Some(next) => part = next,
                        None => break,
                    }
                }
                let (piece, left) = part.split_at(part.len().min(SLOT_BYTES - len));
                pieces.push(piece);
                len += piece.len();
                part = left;
            }
            if len == 0 {
                return Ok(());
            }
            let mut slot = self.next_slot().lock();
            let pinned = &mut slot.free()?[..len];
            gather(pinned, &pieces);
            // SAFETY: the target has room for all parts; the slot stays untouched until its event is waited for.
            unsafe { result::memcpy_htod_async(to, pinned, self.stream.cu_stream()) }
                .and_then(|()| slot.copied.record(&self.stream))
                .map_err(|e| self.abandon("a copy to the GPU", e))?;
            to += len as u64;
        }
    }

    /// Copies from address `from` and on, and waits.
    fn empty(&self, to: &mut [MaybeUninit<u8>], from: u64) -> Result<()> {
        let mut coming = VecDeque::new();
        let copied = self.empty_through(&mut coming, to, from);
        if copied.is_err() {
            // Before the slots are given back, and the source is freed.
            let _ = self.stream.synchronize();
        }
        copied
    }

    /// The same; `coming` holds the copies that are on their way, the oldest first, which is emptied while the others are on
    /// the bus.
    fn empty_through<'a>(
        &'a self,
        coming: &mut VecDeque<Coming<'a>>,
        to: &'a mut [MaybeUninit<u8>],
        from: u64,
    ) -> Result<()> {
        let mut at = from;
        for part in to.chunks_mut(SLOT_BYTES) {
            // Who holds slots does not wait for another one, which might belong to somebody who waits for these.
            let mut slot = loop {
                let next = self.next_slot();
                match coming.pop_front() {
                    None => break next.lock(),
                    Some(oldest) => match next.try_lock().filter(|_| coming.len() + 2 < SLOTS) {
                        Some(slot) => {
                            coming.push_front(oldest);
                            break slot;
                        }
                        None => land(oldest)?,
                    },
                }
            };
            let pinned = &mut slot.free()?[..part.len()];
            // SAFETY: the source is long enough; the slot stays untouched until its event is waited for.
            unsafe { result::memcpy_dtoh_async(pinned, at, self.stream.cu_stream()) }
                .and_then(|()| slot.copied.record(&self.stream))
                .map_err(|e| failed("a copy from the GPU", e))?;
            at += part.len() as u64;
            coming.push_back((slot, part));
        }
        while let Some(oldest) = coming.pop_front() {
            land(oldest)?;
        }
        Ok(())
    }
}

/// A slot that is being copied into, and where its bytes go.
type Coming<'a> = (MutexGuard<'a, Slot>, &'a mut [MaybeUninit<u8>]);

/// Empties a slot whose copy is on its way.
fn land((mut slot, to): Coming<'_>) -> Result<()> {
    let pinned = &slot.free()?[..to.len()];
    match rayon::current_thread_index() {
        Some(_) => {
            to.write_copy_of_slice(pinned);
        }
        None => to
            .par_chunks_mut(TASK_BYTES)
            .zip(pinned.par_chunks(TASK_BYTES))
            .for_each(|(to, from)| {
                to.write_copy_of_slice(from);
            }),
    }
    Ok(())
}

/// Copies `pieces`, one after the other, by several threads. A thread of a pool copies alone: while it waited for others it might
/// take up work that wants the slot that it holds.
fn gather(mut to: &mut [u8], pieces: &[&[u8]]) {
    let mut copies = Vec::with_capacity(pieces.len());
    for task in pieces.iter().flat_map(|piece| piece.chunks(TASK_BYTES)) {
        let (target, rest) = to.split_at_mut(task.len());
        copies.push((target, task));
        to = rest;
    }
    match rayon::current_thread_index() {
        None if copies.len() > 1 => copies
            .into_par_iter()
            .for_each(|(to, from)| to.copy_from_slice(from)),
        _ => copies
            .into_iter()
            .for_each(|(to, from)| to.copy_from_slice(from)),
    }
}
