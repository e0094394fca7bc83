//! [`Memory`]: device memory of one stream, charged to a budget; [`Part`]s of it.

use std::sync::Arc;

use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaStream, DriverError, result};
use parking_lot::Mutex;

use crate::device::budget::Lease;
use crate::device::cuda::runtime::arguments::U64;
use crate::device::cuda::runtime::driver::is_out_of_memory;
use crate::device::cuda::runtime::event::Event;
use crate::device::cuda::runtime::kernels::Widening;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::faults::Fault;
use crate::error::{BowtieError, Result};

/// Bytes of device memory, with their reservation. Only kernels of one stream use them, so they are freed in the order of
/// that stream; or others that this stream is ordered after before it frees them (`columns/borrowed.rs`). An upload is ordered before the kernels (`arriving`); the caller of a download waits for it.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) pointer: u64,
    pub(crate) bytes: usize,
    pub(crate) stream: Arc<Stream>,
    /// The upload into it, until the stream is ordered after that.
    arriving: Mutex<Option<Box<UploadState>>>,
    _lease: Lease,
}

/// An upload that is under way.
#[derive(Debug)]
enum UploadState {
    /// A copy, with the event behind it.
    Copied(Event),
    /// Narrower values, which are uploaded themselves, and the kernel that widens them.
    Widened {
        narrow: Memory,
        kernel: Widening,
        rows: usize,
    },
}

impl Memory {
    pub(crate) fn pointer(&self) -> u64 {
        self.pointer
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Notes a copy into it; `copied` is the event behind the copy.
    pub(crate) fn sent(&self, copied: Event) {
        *self.arriving.lock() = Some(Box::new(UploadState::Copied(copied)));
    }

    /// Notes `rows` values in `narrow`, which `kernel` is to widen into this memory.
    ///
    /// # Safety
    /// `narrow` holds `rows` values of the width that the kernel reads, and this memory holds as many of the width that it
    /// writes.
    pub(crate) unsafe fn sent_as(&self, narrow: Memory, kernel: Widening, rows: usize) {
        *self.arriving.lock() = Some(Box::new(UploadState::Widened {
            narrow,
            kernel,
            rows,
        }));
    }

    /// Orders the stream after the upload into it, if there is one. After an error it is still to be received.
    pub(crate) fn receive(&self) -> Result<()> {
        let mut arriving = self.arriving.lock();
        match arriving.as_deref() {
            None => return Ok(()),
            Some(UploadState::Copied(copied)) => self.stream.after(copied)?,
            Some(UploadState::Widened {
                narrow,
                kernel,
                rows,
            }) => {
                narrow.receive()?;
                let args = (narrow.into(), self.into(), (*rows as u32).into());
                // SAFETY: the promise of `sent_as`.
                unsafe { self.stream.launch(*kernel, Shape::rows(*rows), &args)? }
            }
        }
        *arriving = None;
        Ok(())
    }

    /// The same for memory that is about to be freed: nothing is widened any more.
    fn abandon(&self) -> Result<()> {
        match self.arriving.lock().take().as_deref() {
            None | Some(UploadState::Widened { .. }) => Ok(()),
            Some(UploadState::Copied(copied)) => self.stream.after(copied),
        }
    }

    /// As [`Part::copy_to`], from its beginning.
    pub(crate) fn copy_to(&self, bytes: usize, to: &Memory, at: usize) -> Result<()> {
        Part::from(self).copy_to(bytes, to, at)
    }

    /// The part from word `at` of 32 bits on, which has at least that word.
    ///
    /// # Errors
    /// As of [`Memory::part`].
    pub(crate) fn word(&self, at: usize) -> Result<Part<'_>> {
        let part = self.part(at.saturating_mul(4))?;
        match part.bytes() >= 4 {
            true => Ok(part),
            false => Err(past_the_end(part.from, self.bytes)),
        }
    }

    /// The part from byte `from` on.
    ///
    /// # Errors
    /// [`BowtieError::Internal`] where that is behind the end.
    pub(crate) fn part(&self, from: usize) -> Result<Part<'_>> {
        Part::from(self).after(from)
    }
}

/// The bytes of a memory from some byte on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    memory: &'a Memory,
    /// At most the memory's bytes.
    from: usize,
}

impl Part<'_> {
    /// The part that begins `bytes` bytes later.
    ///
    /// # Errors
    /// [`BowtieError::Internal`] where that is behind the end.
    pub(crate) fn after(self, bytes: usize) -> Result<Self> {
        match bytes <= self.bytes() {
            true => Ok(Self {
                from: self.from + bytes,
                ..self
            }),
            false => {
                let at = self.from.saturating_add(bytes);
                Err(past_the_end(at, self.memory.bytes))
            }
        }
    }

    /// Copies its first `bytes` to byte `at` of `to`, in the order of the stream of `to`.
    ///
    /// # Errors
    /// [`BowtieError::Internal`] where either is too short.
    pub(crate) fn copy_to(self, bytes: usize, to: &Memory, at: usize) -> Result<()> {
        if bytes > self.bytes() || at + bytes > to.bytes {
            return Err(BowtieError::Internal("a copy past the end".into()));
        }
        if bytes == 0 {
            return Ok(());
        }
        to.stream.budget.faults().check(Fault::Copy)?;
        to.stream.bind()?;
        let (target, stream) = (to.pointer + at as u64, &to.stream.cuda_stream);
        // SAFETY: both have `bytes` bytes there, as was just checked.
        unsafe { result::memcpy_dtod_async(target, self.pointer(), bytes, stream.cu_stream()) }
            .map_err(|e| to.stream.failed("a copy on the GPU", e))
    }

    /// Its address.
    pub(crate) fn pointer(self) -> u64 {
        self.memory.pointer + self.from as u64
    }

    /// Bytes up to the memory's end.
    fn bytes(self) -> usize {
        self.memory.bytes - self.from
    }
}

fn past_the_end(at: usize, bytes: usize) -> BowtieError {
    BowtieError::Internal(format!("byte {at} of {bytes} bytes of device memory"))
}

impl<'a> From<&'a Memory> for Part<'a> {
    fn from(memory: &'a Memory) -> Self {
        Self { memory, from: 0 }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let stream = self.stream.cuda_stream.cu_stream();
        let context = &self.stream.gpu.context;
        // The first call may report the error of an earlier launch instead of binding.
        if context.bind_to_thread().is_err() {
            let _ = context.bind_to_thread();
        }
        if self.abandon().is_err() {
            // Without an order by events the card is waited for.
            let _ = context.synchronize();
        }
        // SAFETY: the pointer came from the pool and is freed once; copies into it and kernels that use it are done before.
        let _ = unsafe { result::free_async(self.pointer, stream) };
    }
}

impl Memory {
    /// Clears what is behind its bytes in `padded` ones, in the order of `stream`.
    fn clear_padding(&self, stream: &CudaStream, padded: usize) -> Result<()> {
        let padding = padded - self.bytes;
        if padding == 0 {
            return Ok(());
        }
        let first = self.pointer + self.bytes as u64;
        // SAFETY: `padded` bytes were allocated.
        unsafe { result::memset_d8_async(first, 0, padding, stream.cu_stream()) }
            .map_err(|e| self.stream.failed("clearing memory", e))
    }
}

impl Stream {
    /// `bytes` of memory for `what`, not initialised.
    pub(crate) fn alloc(self: &Arc<Self>, bytes: usize, what: &'static str) -> Result<Memory> {
        self.alloc_on(&self.cuda_stream, bytes, what)
    }

    /// The same in the order of another stream. This stream must be ordered after that one before it uses or frees the
    /// memory: see [`Memory::sent`].
    pub(crate) fn alloc_on(
        self: &Arc<Self>,
        stream: &CudaStream,
        bytes: usize,
        what: &'static str,
    ) -> Result<Memory> {
        // Kernels may read whole vectors at the end, and an allocation of nothing is refused.
        let padded = bytes.max(1).next_multiple_of(32);
        let lease = self.budget.lease(padded as u64, what)?;
        self.bind()?;
        let allocate = || match self.budget.faults().strikes(Fault::Allocation) {
            true => Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)),
            false => self.gpu.allocate(stream, padded),
        };
        let allocated = match allocate() {
            // The card may have less than the budget allows, and memory that others have freed may still wait for their kernels.
            Err(e) if is_out_of_memory(e) => {
                self.budget.reclaim_of_card(padded as u64);
                let freed = self.gpu.context.synchronize();
                freed.and_then(|()| allocate())
            }
            allocated => allocated,
        };
        match allocated {
            Ok(pointer) => {
                let memory = Memory {
                    pointer,
                    bytes,
                    stream: Arc::clone(self),
                    arriving: Mutex::new(None),
                    _lease: lease,
                };
                // So that compute-sanitizer reports reads of bytes that nobody wrote, but not of whole vectors.
                if cfg!(test) {
                    memory.clear_padding(stream, padded)?;
                }
                Ok(memory)
            }
            // The card has less than the budget allows: the caller retries with half of the work.
            Err(e) if is_out_of_memory(e) => Err(self.budget.refused_by_driver(bytes as u64, what)),
            Err(e) => Err(self.failed("allocating memory", e)),
        }
    }

    /// The same, all zero.
    pub(crate) fn zeroed(self: &Arc<Self>, bytes: usize, what: &'static str) -> Result<Memory> {
        self.filled(bytes, 0, what)
    }

    /// The same, every byte set to `byte`.
    pub(crate) fn filled(
        self: &Arc<Self>,
        bytes: usize,
        byte: u8,
        what: &'static str,
    ) -> Result<Memory> {
        let memory = self.alloc(bytes, what)?;
        self.budget.faults().check(Fault::Copy)?;
        let padded = bytes.max(1).next_multiple_of(32);
        // SAFETY: `padded` bytes were allocated.
        unsafe {
            result::memset_d8_async(memory.pointer, byte, padded, self.cuda_stream.cu_stream())
        }
        .map_err(|e| self.failed("clearing memory", e))?;
        Ok(memory)
    }

    /// A copy of the first `bytes` of a part.
    pub(crate) fn copy_of(
        self: &Arc<Self>,
        from: Part<'_>,
        bytes: usize,
        what: &'static str,
    ) -> Result<Memory> {
        let memory = self.alloc(bytes, what)?;
        from.copy_to(bytes, &memory, 0)?;
        Ok(memory)
    }
}

/// Its address.
impl From<Part<'_>> for U64 {
    fn from(part: Part<'_>) -> Self {
        part.pointer().into()
    }
}

/// Its address.
impl From<&Memory> for U64 {
    fn from(memory: &Memory) -> Self {
        memory.pointer.into()
    }
}

/// Its address, or a null pointer.
impl From<Option<&Memory>> for U64 {
    fn from(memory: Option<&Memory>) -> Self {
        memory.map_or(0, Memory::pointer).into()
    }
}
