//! Staged transfers between pageable memory and a GPU: several threads fill and empty rings of pinned memory.
//!
//! Copies from pageable memory reach a fifth of the bus's rate. Pinning memory takes longer than copying it, so the
//! rings are allocated once. Where no memory can be pinned, copies are pageable. Each thread fills a slot and starts its transfer independently (`ring.rs`): threads that
//! synchronise after each slot would wait for one another longer than they copy.
//!
//! ```text
//!  parts ─► thread 0: slot ─┐
//!           thread 1: slot ─┼─► one stream ─► memory on the GPU          and the same in the other direction
//!           thread 2: slot ─┘
//! ```

use std::mem::MaybeUninit;
use std::sync::Arc;

use cudarc::driver::result;

use crate::device::counters::Counted;
use crate::device::cuda::runtime::arguments::{Structure, U64};
use crate::device::cuda::runtime::event::Event;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::spans::{from_device, submitted, to_device};
use crate::device::cuda::runtime::staging::narrow::Narrowing;
use crate::device::cuda::runtime::staging::ring::{LazyRing, Ring};
use crate::device::cuda::runtime::stream::Stream;
use crate::device::faults::Fault;
use crate::device::trace::{self, Lane};
use crate::error::{BowtieError, Result};

/// Words that `rows_given` takes by value, at most.
const ARGUMENT_WORDS: usize = 64;

/// Below this size the driver's own copy is faster.
const SMALL_BYTES: usize = 128 << 10;

/// The bytes that are narrowed and copied together where no memory can be pinned.
const PAGEABLE_BYTES: usize = 8 << 20;

impl Stream {
    /// Copies `bytes` into new device memory. The bytes may be reused when this returns.
    pub(crate) fn send(self: &Arc<Self>, bytes: &[u8], what: &'static str) -> Result<Memory> {
        if bytes.len() <= SMALL_BYTES {
            return self.send_small(bytes, what);
        }
        let memory = self.send_async(&[bytes], what)?;
        memory.receive()?;
        Ok(memory)
    }

    /// Starts a copy of the concatenation of `parts` into new device memory, which must be received before use. The
    /// parts may be reused when this returns.
    pub(crate) fn send_async(
        self: &Arc<Self>,
        parts: &[&[u8]],
        what: &'static str,
    ) -> Result<Memory> {
        let sent = self.send_narrowed(parts, Narrowing::None, what)?;
        sent.ok_or_else(|| BowtieError::Internal("whole values did not fit".into()))
    }

    /// The same with values in narrow form; `None` if one does not fit.
    pub(crate) fn send_narrowed(
        self: &Arc<Self>,
        parts: &[&[u8]],
        narrowing: Narrowing,
        what: &'static str,
    ) -> Result<Option<Memory>> {
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>() / narrowing.times();
        let Some(ring) = self.ring(&self.gpu.upload_ring, "bowtie-upload") else {
            return self.send_pageable(parts, narrowing, what);
        };
        // Allocated on the stream of the copies, which then wait for no kernel.
        let memory = self.alloc_on(&ring.stream, bytes, what)?;
        // After a failure no copy is in flight when the memory is dropped.
        let fits = ring.fill(parts, narrowing, memory.pointer(), self.budget.faults())?;
        match self.mark_on(&ring.stream) {
            Ok(copied) => {
                memory.sent(copied);
                Ok(fits.then_some(memory))
            }
            Err(error) => {
                ring.settle();
                Err(error)
            }
        }
    }

    /// A ring of the card; `None` where no memory can be pinned.
    fn ring(&self, ring: &LazyRing, name: &str) -> Option<Arc<Ring>> {
        match self.budget.faults().strikes(Fault::Pin) {
            true => None,
            false => ring.get(|| self.gpu.stream(), name),
        }
    }

    /// As [`Stream::send_narrowed`], from pageable memory. All is copied when this returns.
    fn send_pageable(
        self: &Arc<Self>,
        parts: &[&[u8]],
        narrowing: Narrowing,
        what: &'static str,
    ) -> Result<Option<Memory>> {
        let times = narrowing.times();
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>() / times;
        let memory = self.alloc(bytes, what)?;
        let mut to = memory.pointer();
        for piece in parts.iter().flat_map(|part| part.chunks(PAGEABLE_BYTES)) {
            if narrowing == Narrowing::None {
                self.copy_to_gpu(to, piece)?;
            } else {
                let mut narrow = vec![0; piece.len() / times];
                if !narrowing.narrow(piece, &mut narrow) {
                    return Ok(None);
                }
                self.copy_to_gpu(to, &narrow)?;
            }
            to += (piece.len() / times) as u64;
        }
        Ok(Some(memory))
    }

    /// Copies words into new device memory, for kernels of this stream alone. A few words are passed as a kernel
    /// argument, without the wait that a copy from pageable memory needs.
    pub(crate) fn upload_words(
        self: &Arc<Self>,
        words: &[u64],
        what: &'static str,
    ) -> Result<Memory> {
        let mut given = [U64::ZERO; ARGUMENT_WORDS];
        if words.is_empty() || words.len() > given.len() {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            return self.send(&bytes, what);
        }
        for (given, word) in given.iter_mut().zip(words) {
            *given = (*word).into();
        }
        let given = Structure(given);
        let memory = self.alloc(words.len() * 8, what)?;
        let args = (
            (&given).into(),
            (&memory).into(),
            (words.len() as u32).into(),
        );
        let shape = Shape::blocks_of(1, 1, ARGUMENT_WORDS as u32);
        // SAFETY: the argument has `words.len()` words, and the memory holds them.
        unsafe { self.launch(kernels::ROWS_GIVEN, shape, &args)? };
        Ok(memory)
    }

    fn send_small(self: &Arc<Self>, from: &[u8], what: &'static str) -> Result<Memory> {
        let memory = self.alloc(from.len(), what)?;
        if !from.is_empty() {
            self.copy_to_gpu(memory.pointer(), from)?;
        }
        Ok(memory)
    }

    /// Copies to an address of this stream's memory, which has as many bytes there, and waits.
    fn copy_to_gpu(&self, to: u64, from: &[u8]) -> Result<()> {
        self.budget.faults().check(Fault::Upload)?;
        self.bind()?;
        trace::count(Counted::SentBytes, from.len() as u64);
        let work = to_device(from.len());
        submitted(&self.cuda_stream, &work, || {
            // SAFETY: the target is long enough, and `from` is borrowed until the copy was waited for: it may be
            // memory that the caller has pinned, of which the driver makes no copy of its own.
            unsafe { result::memcpy_htod_async(to, from, self.cuda_stream.cu_stream()) }
        })
        .map_err(|e| self.failed("a copy to the GPU", e))?;
        self.wait()
    }

    /// Copies from an address of this stream's memory, which has as many bytes there, and waits.
    fn copy_from_gpu(&self, to: &mut [MaybeUninit<u8>], from: u64) -> Result<()> {
        self.budget.faults().check(Fault::Download)?;
        self.bind()?;
        trace::count(Counted::ReceivedBytes, to.len() as u64);
        let work = from_device(to.len());
        submitted(&self.cuda_stream, &work, || {
            // SAFETY: the source is long enough, and `to`, which is never read, is borrowed until the stream was waited for.
            unsafe { result::memcpy_dtoh_async(to, from, self.cuda_stream.cu_stream()) }
        })
        .map_err(|e| self.failed("a copy from the GPU", e))?;
        self.wait()
    }

    /// Reads word `at` of `words`, of 64 bits.
    pub(crate) fn read_word(&self, words: &Memory, at: usize) -> Result<u64> {
        let mut bytes = [0; 8];
        self.read_few(&mut bytes, words, at * 8)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads word `at` of `words`, of 32 bits.
    pub(crate) fn read_word32(&self, words: &Memory, at: usize) -> Result<u32> {
        let mut bytes = [0; 4];
        self.read_few(&mut bytes, words, at * 4)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Copies a few bytes of `from`, from `offset` on, and waits.
    pub(crate) fn read_few(&self, to: &mut [u8], from: &Memory, offset: usize) -> Result<()> {
        if offset + to.len() > from.bytes() {
            return Err(BowtieError::Internal("a copy from past the end".into()));
        }
        self.budget.faults().check(Fault::Download)?;
        self.bind()?;
        let begin = from.pointer() + offset as u64;
        trace::count(Counted::ReceivedBytes, to.len() as u64);
        let work = from_device(to.len());
        submitted(&self.cuda_stream, &work, || {
            // SAFETY: the source is long enough, and `to` is borrowed until the stream was waited for.
            unsafe { result::memcpy_dtoh_async(to, begin, self.cuda_stream.cu_stream()) }
        })
        .map_err(|e| self.failed("a copy from the GPU", e))?;
        self.wait()
    }

    /// Copies the first `to.len()` bytes of `from`, and waits. `made`: the event after the work that wrote them;
    /// without it, all work of the stream is waited for.
    pub(crate) fn read(
        &self,
        to: &mut [MaybeUninit<u8>],
        from: &Memory,
        made: Option<&Event>,
    ) -> Result<()> {
        if to.len() > from.bytes() {
            return Err(BowtieError::Internal("a copy from past the end".into()));
        }
        if to.is_empty() {
            return Ok(());
        }
        let begin = from.pointer();
        if to.len() <= SMALL_BYTES && made.is_none() {
            return self.copy_from_gpu(to, begin);
        }
        self.bind()?;
        // Wait for kernels here, so that the holder of a slot waits only for copies.
        match made {
            Some(made) => trace::timed(Counted::WaitTime, Lane::Wait, "wait", || made.wait())
                .map_err(|e| self.failed("a kernel", e))?,
            None => self.wait()?,
        }
        match self.ring(&self.gpu.download_ring, "bowtie-download") {
            Some(ring) => ring.empty(to, begin, self.budget.faults()),
            None => self.copy_from_gpu(to, begin),
        }
    }
}
