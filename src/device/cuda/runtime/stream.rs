//! [`Stream`]: one stream of work on a GPU, and the memory that is used on it.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cudarc::driver::{
    CudaEvent, CudaFunction, CudaStream, DeviceRepr, LaunchConfig, PushKernelArg, result,
};
use parking_lot::Mutex;

use crate::device::budget::{Budget, Lease};
use crate::device::cuda::runtime::driver::{failed, is_out_of_memory};
use crate::device::cuda::runtime::gpu::Gpu;
use crate::error::{BowtieError, Result};

/// A stream and the budget that its memory is leased from. Work of one queue is done in the order in which it was given.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) stream: Arc<CudaStream>,
    pub(crate) budget: Arc<Budget>,
    /// Whether keys lay beyond a range that was guessed: those of later chunks are likely to, too.
    pub(crate) guess_missed: AtomicBool,
}

/// Bytes on a GPU, leased. Kernels use them on their queue alone, so they can be freed in its order as soon as nothing more will be
/// launched on them; a copy up is ordered before (`arriving`), a copy down is waited for by who asked for it.
#[derive(Debug)]
pub(crate) struct Memory {
    pointer: u64,
    bytes: usize,
    pub(crate) queue: Arc<Stream>,
    /// What is on its way into it, until the queue is ordered after it.
    arriving: Mutex<Option<Box<Arriving>>>,
    _lease: Lease,
}

/// What makes the content of a memory that was sent.
#[derive(Debug)]
enum Arriving {
    /// A copy into it, which the event marks.
    Copied(CudaEvent),
    /// A kernel that reads narrower values, which are on their way themselves.
    Widened {
        narrow: Memory,
        kernel: &'static str,
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

    /// A copy into it is under way, which `copied` marks.
    pub(crate) fn sent(&self, copied: CudaEvent) {
        *self.arriving.lock() = Some(Box::new(Arriving::Copied(copied)));
    }

    /// So many rows of `narrow`, which was sent, will be in it as `kernel` (family `widen`) makes them.
    ///
    /// # Safety
    /// `narrow` holds `rows` values of the width that the kernel reads, and this has room for as many as wide as it writes.
    pub(crate) unsafe fn sent_as(&self, narrow: Memory, kernel: &'static str, rows: usize) {
        *self.arriving.lock() = Some(Box::new(Arriving::Widened {
            narrow,
            kernel,
            rows,
        }));
    }

    /// Orders the queue after what is on its way into it, if anything is.
    pub(crate) fn receive(&self) -> Result<()> {
        let Some(arriving) = self.arriving.lock().take() else {
            return Ok(());
        };
        match *arriving {
            Arriving::Copied(copied) => self.queue.after(&copied),
            Arriving::Widened {
                narrow,
                kernel,
                rows,
            } => {
                narrow.receive()?;
                let args = [(&narrow).into(), self.into(), (rows as u32).into()];
                // SAFETY: the promise of `sent_as`.
                unsafe { self.queue.launch(kernel, Shape::rows(rows), &args) }
            }
        }
    }

    /// The same for memory whose content nobody wants any more.
    fn abandon(&self) -> Result<()> {
        match self.arriving.lock().take().as_deref() {
            None | Some(Arriving::Widened { .. }) => Ok(()),
            Some(Arriving::Copied(copied)) => self.queue.after(copied),
        }
    }

    /// Copies its first `bytes` to where `to` has room for them, in the order of its queue.
    pub(crate) fn copy_to(&self, bytes: usize, to: &Memory, at: usize) -> Result<()> {
        if bytes > self.bytes || at + bytes > to.bytes {
            return Err(BowtieError::Internal("a copy past the end".into()));
        }
        if bytes == 0 {
            return Ok(());
        }
        to.queue.bind()?;
        let (from, to, stream) = (self.pointer, to.pointer + at as u64, &to.queue.stream);
        // SAFETY: both have so many bytes there, as was just checked.
        unsafe { result::memcpy_dtod_async(to, from, bytes, stream.cu_stream()) }
            .map_err(|e| failed("copying on the GPU", e))
    }

    /// The address of a word of 32 bits inside of it.
    pub(crate) fn word(&self, at: usize) -> Arg {
        debug_assert!((at + 1) * 4 <= self.bytes);
        Arg(self.pointer + at as u64 * 4)
    }
}

/// What lies in a memory from some byte on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    memory: &'a Memory,
    from: usize,
}

impl Part<'_> {
    /// What begins so many bytes later.
    pub(crate) fn after(self, bytes: usize) -> Self {
        debug_assert!(self.from + bytes <= self.memory.bytes);
        Self {
            from: self.from + bytes,
            ..self
        }
    }
}

impl<'a> From<&'a Memory> for Part<'a> {
    fn from(memory: &'a Memory) -> Self {
        Self { memory, from: 0 }
    }
}

impl Memory {
    pub(crate) fn part(&self, from: usize) -> Part<'_> {
        debug_assert!(from <= self.bytes);
        Part { memory: self, from }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let stream = self.queue.stream.cu_stream();
        let context = &self.queue.gpu.context;
        // The first call may report the error of an earlier launch instead of binding.
        if context.bind_to_thread().is_err() {
            let _ = context.bind_to_thread();
        }
        if self.abandon().is_err() {
            // What cannot be ordered is waited for.
            let _ = context.synchronize();
        }
        // SAFETY: the pointer came from the pool and is freed once; copies into it and what was launched on it are done before.
        let _ = unsafe { result::free_async(self.pointer, stream) };
    }
}

/// What a kernel is given: a word, or an address.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Arg(u64);

impl Arg {
    /// As structures in device memory hold it.
    pub(crate) fn word(self) -> u64 {
        self.0
    }
}

impl From<u32> for Arg {
    fn from(word: u32) -> Self {
        Self(u64::from(word))
    }
}

impl From<u64> for Arg {
    fn from(word: u64) -> Self {
        Self(word)
    }
}

impl From<Part<'_>> for Arg {
    fn from(part: Part<'_>) -> Self {
        Self(part.memory.pointer + part.from as u64)
    }
}

impl From<&Memory> for Arg {
    fn from(memory: &Memory) -> Self {
        Self(memory.pointer)
    }
}

/// Two words of 32 bits, the first in the lower half.
impl From<(u32, u32)> for Arg {
    fn from((low, high): (u32, u32)) -> Self {
        Self(u64::from(low) | u64::from(high) << 32)
    }
}

/// Nothing: a null pointer.
impl From<Option<&Memory>> for Arg {
    fn from(memory: Option<&Memory>) -> Self {
        Self(memory.map_or(0, Memory::pointer))
    }
}

/// A structure of so many words.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Structure<const WORDS: usize>(pub [Arg; WORDS]);

// SAFETY: words alone, without padding.
unsafe impl<const WORDS: usize> DeviceRepr for Structure<WORDS> {}

/// Words of memory that comes as an argument (`rows_given`).
pub(crate) const GIVEN_WORDS: usize = 64;

/// An argument: a word, or a structure of so many words, a join of `kernels/sets/set_verify.cuh`, accumulators of
/// `kernels/aggregate/block/group_codes.cuh`, or words that a kernel copies.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Given<'a> {
    Word(Arg),
    Two(&'a Structure<2>),
    Three(&'a Structure<3>),
    Four(&'a Structure<4>),
    Join(&'a Structure<17>),
    Words(&'a Structure<GIVEN_WORDS>),
    Accumulators(&'a Structure<98>),
}

impl<T: Into<Arg>> From<T> for Given<'_> {
    fn from(word: T) -> Self {
        Self::Word(word.into())
    }
}

impl Given<'_> {
    /// Where it lies.
    pub(crate) fn address(&self) -> *mut c_void {
        let at: *const c_void = match self {
            // A kernel that takes 32 bits reads the lower half: all hosts with NVIDIA GPUs are little-endian.
            Given::Word(word) => (&raw const word.0).cast(),
            Given::Two(words) => (&raw const **words).cast(),
            Given::Three(words) => (&raw const **words).cast(),
            Given::Four(words) => (&raw const **words).cast(),
            Given::Join(words) => (&raw const **words).cast(),
            Given::Words(words) => (&raw const **words).cast(),
            Given::Accumulators(words) => (&raw const **words).cast(),
        };
        at.cast_mut()
    }
}

/// How a kernel is spread over the card.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub blocks: u32,
    /// The grid's second dimension.
    pub slices: u32,
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
}

impl Shape {
    /// Four items a thread, in blocks of 256: how most kernels take rows.
    pub(crate) fn rows(items: usize) -> Self {
        Self::blocks_of(items, 1024, 256)
    }

    /// One item a thread, in blocks of 256.
    pub(crate) fn each(items: usize) -> Self {
        Self::blocks_of(items, 256, 256)
    }

    /// So many items a block of so many threads.
    pub(crate) fn blocks_of(items: usize, per_block: usize, threads: u32) -> Self {
        Self {
            blocks: items.div_ceil(per_block) as u32,
            slices: 1,
            threads,
            shared: 0,
        }
    }
}

impl From<Shape> for LaunchConfig {
    fn from(shape: Shape) -> Self {
        Self {
            grid_dim: (shape.blocks, shape.slices, 1),
            block_dim: (shape.threads, 1, 1),
            shared_mem_bytes: shape.shared,
        }
    }
}

impl Stream {
    pub(crate) fn new(gpu: Arc<Gpu>, budget: Arc<Budget>) -> Result<Arc<Self>> {
        let stream = gpu.stream()?;
        Ok(Arc::new(Self {
            gpu,
            stream,
            budget,
            guess_missed: AtomicBool::new(false),
        }))
    }

    /// `bytes` of memory for `what`, not initialised.
    pub(crate) fn alloc(self: &Arc<Self>, bytes: usize, what: &'static str) -> Result<Memory> {
        self.alloc_on(&self.stream, bytes, what)
    }

    /// The same in the order of another stream, after which this queue must be ordered before it uses the memory, and before
    /// that is dropped: see [`Memory::sent`].
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
        let allocated = match self.gpu.allocate(stream, padded) {
            // What others have freed may still stand behind their kernels.
            Err(e) if is_out_of_memory(e) => self
                .gpu
                .context
                .synchronize()
                .and_then(|()| self.gpu.allocate(stream, padded)),
            allocated => allocated,
        };
        match allocated {
            Ok(pointer) => Ok(Memory {
                pointer,
                bytes,
                queue: Arc::clone(self),
                arriving: Mutex::new(None),
                _lease: lease,
            }),
            // The card has less than the budget allows: the caller goes on with half of it.
            Err(e) if is_out_of_memory(e) => Err(BowtieError::OutOfDeviceMemory {
                what,
                requested: bytes as u64,
                in_use: self.budget.in_use(),
                limit: self.budget.limit(),
            }),
            Err(e) => Err(failed("allocating memory", e)),
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
        let padded = bytes.max(1).next_multiple_of(32);
        // SAFETY: `padded` bytes were allocated.
        unsafe { result::memset_d8_async(memory.pointer, byte, padded, self.stream.cu_stream()) }
            .map_err(|e| failed("clearing memory", e))?;
        Ok(memory)
    }

    /// So many bytes of a part, in memory of their own.
    pub(crate) fn copy_of(
        self: &Arc<Self>,
        from: Part<'_>,
        bytes: usize,
        what: &'static str,
    ) -> Result<Memory> {
        let memory = self.alloc(bytes, what)?;
        self.copy_into(from, &memory, bytes)?;
        Ok(memory)
    }

    /// Copies so many bytes to the beginning of a memory.
    pub(crate) fn copy_into(&self, from: Part<'_>, to: &Memory, bytes: usize) -> Result<()> {
        if from.from + bytes > from.memory.bytes || bytes > to.bytes {
            return Err(BowtieError::Internal("a copy past the end".into()));
        }
        if bytes == 0 {
            return Ok(());
        }
        self.bind()?;
        let begin = Arg::from(from).0;
        // SAFETY: both are long enough, as was just checked, and of this queue.
        unsafe { result::memcpy_dtod_async(to.pointer, begin, bytes, self.stream.cu_stream()) }
            .map_err(|e| failed("a copy on the GPU", e))
    }

    /// Launches a kernel.
    ///
    /// # Safety
    /// The arguments are those of the kernel's signature, in order; every address is that of as many bytes as the kernel
    /// reads or writes for these arguments, of memory of this queue.
    pub(crate) unsafe fn launch(
        &self,
        kernel: &'static str,
        shape: Shape,
        args: &[Arg],
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.launch_with::<u64>(kernel, shape, None, args) }
    }

    /// Launches a kernel whose first argument is a structure.
    ///
    /// # Safety
    /// As [`Stream::launch`]; and `first` is laid out as the kernel's structure.
    pub(crate) unsafe fn launch_with<T: DeviceRepr>(
        &self,
        kernel: &'static str,
        shape: Shape,
        first: Option<&T>,
        args: &[Arg],
    ) -> Result<()> {
        let given: Vec<Given<'_>> = args.iter().map(|word| Given::Word(*word)).collect();
        // SAFETY: the caller's promise.
        unsafe { self.launch_all(kernel, shape, first, &given) }
    }

    /// Launches a kernel of which some arguments are structures.
    ///
    /// # Safety
    /// As [`Stream::launch`]; and structures are laid out as the kernel's.
    pub(crate) unsafe fn launch_given(
        &self,
        kernel: &'static str,
        shape: Shape,
        args: &[Given<'_>],
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.launch_all::<u64>(kernel, shape, None, args) }
    }

    /// Launches a kernel with arguments of all kinds.
    ///
    /// # Safety
    /// As [`Stream::launch`]; and structures are laid out as the kernel's.
    unsafe fn launch_all<T: DeviceRepr>(
        &self,
        kernel: &'static str,
        shape: Shape,
        first: Option<&T>,
        args: &[Given<'_>],
    ) -> Result<()> {
        if shape.blocks == 0 {
            return Ok(());
        }
        self.bind()?;
        let function = self.gpu.kernel(kernel)?;
        let mut launch = self.stream.launch_builder(&function);
        if let Some(first) = first {
            launch.arg(first);
        }
        for given in args {
            match given {
                // A kernel that takes 32 bits reads the lower half: all hosts with NVIDIA GPUs are little-endian.
                Given::Word(word) => launch.arg(&word.0),
                Given::Two(words) => launch.arg(*words),
                Given::Three(words) => launch.arg(*words),
                Given::Four(words) => launch.arg(*words),
                Given::Join(words) => launch.arg(*words),
                Given::Words(words) => launch.arg(*words),
                Given::Accumulators(words) => launch.arg(*words),
            };
        }
        // SAFETY: the caller's promise.
        unsafe { launch.launch(shape.into()) }
            .map(|_| ())
            .map_err(|e| failed(&format!("launching kernel {kernel}"), e))
    }

    /// Launches a kernel that was made at run time, all of whose parameters have 64 bits.
    ///
    /// # Safety
    /// As [`Stream::launch`].
    pub(crate) unsafe fn launch_function(
        &self,
        function: &CudaFunction,
        shape: Shape,
        args: &[Arg],
    ) -> Result<()> {
        self.bind()?;
        let mut launch = self.stream.launch_builder(function);
        for word in args {
            launch.arg(&word.0);
        }
        // SAFETY: the caller's promise.
        unsafe { launch.launch(shape.into()) }
            .map(|_| ())
            .map_err(|e| failed("launching a program", e))
    }

    /// At most eight blocks of 256 threads a multiprocessor, at least 256 items each: for kernels that take a grid of any size.
    pub(crate) fn strips(&self, items: usize) -> Shape {
        let mut shape = Shape::each(items);
        shape.blocks = shape.blocks.min(8 * self.gpu.multiprocessors);
        shape
    }

    /// As many blocks of 256 threads of a kernel as run at once, at least so many items each: for kernels that take a grid of any
    /// size, and have so much on their way that more would only queue behind.
    pub(crate) fn at_once(
        &self,
        kernel: &'static str,
        items: usize,
        per_block: usize,
    ) -> Result<Shape> {
        let mut shape = Shape::blocks_of(items, per_block, 256);
        self.bind()?;
        let function = self.gpu.kernel(kernel)?;
        let blocks = function
            .occupancy_max_active_blocks_per_multiprocessor(shape.threads, 0, None)
            .map_err(|e| failed(&format!("asking for blocks of {kernel}"), e))?;
        shape.blocks = shape.blocks.min(blocks.max(1) * self.gpu.multiprocessors);
        Ok(shape)
    }

    /// What is launched from now on is done after what `event` marks.
    pub(crate) fn after(&self, event: &CudaEvent) -> Result<()> {
        self.stream
            .wait(event)
            .map_err(|e| failed("ordering two streams", e))
    }

    /// Marks all work launched so far.
    pub(crate) fn mark(&self) -> Result<CudaEvent> {
        self.gpu.mark(&self.stream)
    }

    /// Waits until all work is done.
    pub(crate) fn wait(&self) -> Result<()> {
        self.stream.synchronize().map_err(|e| failed("a kernel", e))
    }

    pub(crate) fn bind(&self) -> Result<()> {
        self.gpu
            .context
            .bind_to_thread()
            .map_err(|e| failed("binding the context", e))
    }
}
