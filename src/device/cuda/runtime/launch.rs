//! Arguments and shapes of kernel launches.

use std::ffi::c_void;

use cudarc::driver::{CudaFunction, DeviceRepr, LaunchConfig, PushKernelArg};

use crate::device::cuda::runtime::driver::failed;
use crate::device::cuda::runtime::stream::Stream;
use crate::error::Result;

/// What a kernel is given: a word, or an address.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Arg(pub(crate) u64);

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

/// Two words of 32 bits, the first in the lower half.
impl From<(u32, u32)> for Arg {
    fn from((low, high): (u32, u32)) -> Self {
        Self(u64::from(low) | u64::from(high) << 32)
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

impl Stream {
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
