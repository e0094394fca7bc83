//! [`Ring`]: slots of pinned memory for copies in one direction.

use std::mem::MaybeUninit;
use std::slice::ChunksMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use cudarc::driver::{CudaStream, DriverError, result, sys};
use parking_lot::Mutex;

use crate::device::counters::Counted;
use crate::device::cuda::runtime::driver::failed;
use crate::device::cuda::runtime::event::{Event, wait_for};
use crate::device::cuda::runtime::spans::{from_device, submitted_for, to_device};
use crate::device::cuda::runtime::staging::copy_pool::{CopyPool, Pieces};
use crate::device::cuda::runtime::staging::narrow::Narrowing;
use crate::device::faults::{Fault, Faults};
use crate::device::trace::{self, Lane, Scope};
use crate::device::tracing_spans::Current;
use crate::error::{BowtieError, Result};

const SLOTS: usize = 32;
/// The most bytes that a thread copies in one piece; and the least, for short copies.
const SLOT_BYTES: usize = 2 << 20;
const LEAST_BYTES: usize = 256 << 10;
/// The most copy threads: they saturate the bus with a margin. Twelve threads of sixteen cores copy 80 GB/s, and the
/// bus carries 55.
const MOST_COPIERS: usize = 12;

/// Slots of pinned memory, used round robin, on a stream of their own, so that copies and kernels overlap. A thread
/// fills or empties one slot at a time and holds no other one, so that several copies can run concurrently.
#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) stream: Arc<CudaStream>,
    slots: Vec<Mutex<Slot>>,
    next: AtomicUsize,
    copiers: CopyPool,
}

/// The ring of one direction of a card, made at its first use.
#[derive(Debug, Default)]
pub(crate) struct LazyRing(Mutex<Made>);

#[derive(Debug, Default)]
struct Made {
    ring: Option<Arc<Ring>>,
    /// When the driver last refused it.
    refused: Option<Instant>,
}

/// After it was refused a ring is tried again, but not more often.
const RETRY: Duration = Duration::from_secs(5);

impl LazyRing {
    /// The ring, on a stream of its own, with copy threads of this name. `None` where it cannot be made, as in a container that may pin little
    /// memory: copies are the driver's own then.
    pub(crate) fn get(
        &self,
        stream: impl FnOnce() -> Result<Arc<CudaStream>>,
        name: &str,
    ) -> Option<Arc<Ring>> {
        let mut made = self.0.lock();
        if made.ring.is_none() && made.refused.is_none_or(|at| at.elapsed() >= RETRY) {
            match stream().and_then(|stream| Ring::new(stream, name)) {
                Ok(ring) => made.ring = Some(Arc::new(ring)),
                Err(error) => {
                    log::warn!("copies do without pinned memory, and are slower: {error}");
                    made.refused = Some(Instant::now());
                }
            }
        }
        made.ring.clone()
    }
}

#[derive(Debug)]
struct Slot {
    pinned: Pinned,
    /// Recorded after the last copy of the slot.
    copied: Event,
}

impl Slot {
    /// The slot's memory, once no copy uses it any more. A wait for one is that of `scope`.
    fn free(&mut self, scope: Option<&Scope>) -> Result<&mut [u8]> {
        let wait = || self.copied.wait();
        let done = self.copied.is_done().and_then(|is_done| match is_done {
            true => Ok(()),
            false => trace::timed_for(
                scope,
                Counted::WaitTime,
                Lane::Wait,
                "wait for a copy",
                wait,
            ),
        });
        done.map_err(|e| failed(self.copied.context(), "a copy", e))?;
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
        // SAFETY: SLOT_BYTES were allocated and zeroed, and are borrowed through `self` alone. No copy of the GPU
        // touches them meanwhile: the slot's event was waited for.
        unsafe { std::slice::from_raw_parts_mut(self.0, SLOT_BYTES) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: allocated by malloc_host, freed once. The rings live as long as the process: this is for one that could
        // not be made.
        let _ = unsafe { result::free_host(self.0.cast()) };
    }
}

impl Ring {
    fn new(stream: Arc<CudaStream>, name: &str) -> Result<Self> {
        let slots = (0..SLOTS)
            .map(|_| {
                let context = stream.context();
                let copied =
                    Event::new(context).map_err(|e| failed(context, "making an event", e))?;
                // SAFETY: plain allocation in the bound context; owned by `Pinned`.
                let memory =
                    unsafe { result::malloc_host(SLOT_BYTES, sys::CU_MEMHOSTALLOC_PORTABLE) }
                        .map_err(|e| failed(context, "pinning memory", e))?;
                // SAFETY: SLOT_BYTES were just allocated.
                unsafe { std::ptr::write_bytes(memory.cast::<u8>(), 0, SLOT_BYTES) };
                Ok(Mutex::new(Slot {
                    pinned: Pinned(memory.cast()),
                    copied,
                }))
            })
            .collect::<Result<_>>()?;
        let cores = available_parallelism().map_or(1, usize::from);
        Ok(Self {
            stream,
            slots,
            next: AtomicUsize::new(0),
            copiers: CopyPool::new(name, (cores * 3 / 4).clamp(1, MOST_COPIERS)),
        })
    }

    /// The bytes of a piece of a copy of `bytes` bytes, small enough that each thread gets some.
    fn piece_bytes(&self, bytes: usize) -> usize {
        (bytes / (2 * SLOTS))
            .next_multiple_of(LEAST_BYTES)
            .clamp(LEAST_BYTES, SLOT_BYTES)
    }

    /// The next slot, round robin.
    fn next_slot(&self) -> &Mutex<Slot> {
        &self.slots[self.next.fetch_add(1, Ordering::Relaxed) % SLOTS]
    }

    fn bind(&self) -> Result<()> {
        let context = self.stream.context();
        context
            .bind_to_thread()
            .map_err(|e| failed(context, "binding the context", e))
    }

    /// After an error, waits for the copies in flight, before their slots or targets are freed.
    fn settled(&self, copied: Result<()>) -> Result<()> {
        if copied.is_err() {
            self.settle();
        }
        copied
    }

    /// Starts a copy of `parts`, in narrow form, to address `to`; the copy is in flight when this returns. False if a
    /// value does not fit; the rest is not copied then.
    pub(crate) fn fill(
        &self,
        parts: &[&[u8]],
        narrowing: Narrowing,
        to: u64,
        faults: &Faults,
    ) -> Result<bool> {
        let times = narrowing.times();
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
        let piece = self.piece_bytes(bytes / times) * times;
        trace::count(Counted::SentBytes, (bytes / times) as u64);
        let rest = Rest {
            parts,
            begin: 0,
            to,
            piece,
            times,
        };
        let up = UploadPieces {
            ring: self,
            rest: Mutex::new(rest),
            narrowing,
            fits: AtomicBool::new(true),
            faults,
            scope: trace::current(),
            span: Current::of_thread(),
        };
        self.settled(self.copiers.copy(&up, bytes > piece))?;
        Ok(up.fits.into_inner())
    }

    /// Copies from address `from`, and waits.
    pub(crate) fn empty(
        &self,
        to: &mut [MaybeUninit<u8>],
        from: u64,
        faults: &Faults,
    ) -> Result<()> {
        let piece = self.piece_bytes(to.len());
        trace::count(Counted::ReceivedBytes, to.len() as u64);
        let several = to.len() > piece;
        let down = DownloadPieces {
            ring: self,
            rest: Mutex::new((to.chunks_mut(piece), from)),
            faults,
            scope: trace::current(),
            span: Current::of_thread(),
        };
        self.settled(self.copiers.copy(&down, several))
    }
}

/// A copy from the concatenation of `parts`.
struct UploadPieces<'a> {
    ring: &'a Ring,
    rest: Mutex<Rest<'a>>,
    narrowing: Narrowing,
    /// Whether no value was too wide so far.
    fits: AtomicBool,
    faults: &'a Faults,
    /// Of the thread whose copy it is.
    scope: Option<Scope>,
    span: Current,
}

/// The part of a copy that has not begun.
struct Rest<'a> {
    parts: &'a [&'a [u8]],
    /// The offset in the first part.
    begin: usize,
    to: u64,
    /// The bytes of a piece, which fit into a slot.
    piece: usize,
    /// The number of bytes that become one.
    times: usize,
}

impl<'a> Rest<'a> {
    /// The next piece, its length, and its target address.
    fn next(&mut self) -> (Vec<&'a [u8]>, usize, u64) {
        let (mut pieces, mut len, to) = (vec![], 0, self.to);
        while let Some(part) = self.parts.first()
            && len < self.piece
        {
            let end = part.len().min(self.begin + self.piece - len);
            pieces.push(&part[self.begin..end]);
            len += end - self.begin;
            self.begin = end;
            if end == part.len() {
                self.parts = &self.parts[1..];
                self.begin = 0;
            }
        }
        self.to += (len / self.times) as u64;
        (pieces, len, to)
    }
}

impl Pieces for UploadPieces<'_> {
    fn copy_next(&self) -> Result<bool> {
        self.span.run(|| self.copy_piece())
    }
}

impl UploadPieces<'_> {
    fn copy_piece(&self) -> Result<bool> {
        let (pieces, len, to) = self.rest.lock().next();
        if len == 0 || !self.fits.load(Ordering::Relaxed) {
            return Ok(false);
        }
        self.faults.check(Fault::Upload)?;
        self.ring.bind()?;
        let times = self.narrowing.times();
        let mut slot = self.ring.next_slot().lock();
        let pinned = &mut slot.free(self.scope.as_ref())?[..len / times];
        let mut rest = &mut *pinned;
        for piece in pieces {
            let (target, behind) = rest.split_at_mut(piece.len() / times);
            if !self.narrowing.narrow(piece, target) {
                self.fits.store(false, Ordering::Relaxed);
                return Ok(false);
            }
            rest = behind;
        }
        let stream = &self.ring.stream;
        // SAFETY: the target holds all parts; the slot is not touched until its event was waited for.
        let copied = submitted_for(
            self.scope.as_ref(),
            stream,
            &to_device(pinned.len()),
            || unsafe { result::memcpy_htod_async(to, pinned, stream.cu_stream()) },
        );
        copied
            .and_then(|()| slot.copied.record(stream))
            .map_err(|e| self.ring.abandon("a copy to the GPU", e))?;
        Ok(true)
    }
}

/// A copy from an address to pieces of host memory.
struct DownloadPieces<'a> {
    ring: &'a Ring,
    rest: Mutex<(ChunksMut<'a, MaybeUninit<u8>>, u64)>,
    faults: &'a Faults,
    /// Of the thread whose copy it is.
    scope: Option<Scope>,
    span: Current,
}

impl Pieces for DownloadPieces<'_> {
    fn copy_next(&self) -> Result<bool> {
        self.span.run(|| self.copy_piece())
    }
}

impl DownloadPieces<'_> {
    fn copy_piece(&self) -> Result<bool> {
        let (to, from) = {
            let mut rest = self.rest.lock();
            let Some(to) = rest.0.next() else {
                return Ok(false);
            };
            let from = rest.1;
            rest.1 += to.len() as u64;
            (to, from)
        };
        self.faults.check(Fault::Download)?;
        self.ring.bind()?;
        let mut slot = self.ring.next_slot().lock();
        let pinned = &mut slot.free(self.scope.as_ref())?[..to.len()];
        let stream = &self.ring.stream;
        // SAFETY: the source is long enough; the slot is not touched until its event was waited for.
        let copied = submitted_for(
            self.scope.as_ref(),
            stream,
            &from_device(pinned.len()),
            || unsafe { result::memcpy_dtoh_async(pinned, from, stream.cu_stream()) },
        );
        copied
            .and_then(|()| slot.copied.record(stream))
            .map_err(|e| self.ring.abandon("a copy from the GPU", e))?;
        to.write_copy_of_slice(&slot.free(self.scope.as_ref())?[..to.len()]);
        Ok(true)
    }
}

impl Ring {
    /// Waits for all copies of the ring.
    pub(crate) fn settle(&self) {
        // The first call may return the error of an earlier call instead of waiting.
        if wait_for(&self.stream).is_err() {
            let _ = wait_for(&self.stream);
        }
    }

    /// After a failure: waits for all copies of the ring, so that the slot can be reused.
    fn abandon(&self, what: &str, error: DriverError) -> BowtieError {
        self.settle();
        failed(self.stream.context(), what, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_that_is_refused_is_not_tried_again_at_once() {
        let lazy = LazyRing::default();
        let tried = AtomicUsize::new(0);
        let refuse = || {
            tried.fetch_add(1, Ordering::Relaxed);
            Err(BowtieError::Device("no memory".into()))
        };
        assert!(lazy.get(refuse, "test").is_none() && lazy.get(refuse, "test").is_none());
        assert_eq!(tried.load(Ordering::Relaxed), 1);
        lazy.0.lock().refused = Instant::now().checked_sub(RETRY);
        assert!(lazy.get(refuse, "test").is_none());
        assert_eq!(tried.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn pieces_are_all_parts_in_order() {
        let bytes: Vec<u8> = (0..1000u32).map(|i| i as u8).collect();
        for lengths in [
            vec![0, 1000],
            vec![1; 1000],
            vec![7, 0, 0, 93, 900, 0],
            vec![],
        ] {
            let mut at = 0;
            let parts: Vec<&[u8]> = lengths
                .iter()
                .map(|len| {
                    at += len;
                    &bytes[at - len..at]
                })
                .collect();
            let mut rest = Rest {
                parts: &parts,
                begin: 0,
                to: 5,
                piece: 64,
                times: 1,
            };
            let mut seen: Vec<u8> = vec![];
            loop {
                let (pieces, len, to) = rest.next();
                if len == 0 {
                    break;
                }
                assert_eq!(to, 5 + seen.len() as u64);
                assert_eq!(len, pieces.concat().len());
                seen.extend(pieces.concat());
                assert!(len == 64 || seen.len() == at);
            }
            assert_eq!(seen, &bytes[..at]);
        }
    }
}
