//! Launches: a kernel's constant (`kernels.rs`), a [`Shape`], and arguments of the types that the constant demands.

use std::ffi::c_void;

use cudarc::driver::{CudaFunction, result};

use crate::device::counters::Counted;
use crate::device::cuda::runtime::arguments::{Argument, Arguments, U64};
use crate::device::cuda::runtime::kernels::{GeneratedKernel, Kernel};
use crate::device::cuda::runtime::spans::{Work, submitted};
use crate::device::cuda::runtime::stream::Stream;
use crate::device::faults::Fault;
use crate::device::trace::{self, Lane};
use crate::error::{BowtieError, Result};

/// The grid, the blocks and the dynamic shared memory of a launch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) blocks: u32,
    /// The grid's second dimension.
    pub(crate) slices: u32,
    /// Threads of a block.
    pub(crate) threads: u32,
    /// Bytes of dynamic shared memory of a block.
    pub(crate) shared: u32,
}

impl Shape {
    /// Four items per thread, in blocks of 256: the shape of most kernels over rows.
    pub(crate) fn rows(items: usize) -> Self {
        Self::blocks_of(items, 1024, 256)
    }

    /// One item per thread, in blocks of 256.
    pub(crate) fn each(items: usize) -> Self {
        Self::blocks_of(items, 256, 256)
    }

    /// `per_block` items per block of `threads` threads.
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
    /// Launches a kernel; a grid without blocks launches nothing.
    ///
    /// # Safety
    /// The arguments have the meaning of the kernel's parameters; structures are laid out as the kernel's; each address is
    /// that of as many bytes as the kernel reads or writes for these arguments, in memory of this stream.
    pub(crate) unsafe fn launch<A: Arguments>(
        &self,
        kernel: Kernel<A>,
        shape: Shape,
        args: &A,
    ) -> Result<()> {
        if shape.blocks == 0 {
            return Ok(());
        }
        self.budget.faults().check(Fault::Launch)?;
        self.bind()?;
        let function = self.loaded_kernel(kernel.entry)?;
        #[cfg(test)]
        self.launched.lock().insert(kernel.entry.name);
        // SAFETY: the caller's promise; the number of arguments and their widths are those of the kernel's PTX.
        args.with_addresses(|args| unsafe {
            self.launch_function(function, shape, &|| kernel.entry.name.into(), args)
        })
        .map_err(|e| self.failed(&format!("launching kernel {kernel:?}"), e))
    }

    /// Launches a kernel that was made at run time.
    ///
    /// # Errors
    /// [`BowtieError::Internal`] for another number of arguments than the kernel has parameters.
    ///
    /// # Safety
    /// As [`Stream::launch`].
    pub(crate) unsafe fn launch_generated(
        &self,
        kernel: &GeneratedKernel,
        shape: Shape,
        args: &[U64],
    ) -> Result<()> {
        check_count(kernel.parameters, args.len())?;
        self.budget.faults().check(Fault::Launch)?;
        self.bind()?;
        let mut args: Vec<*mut c_void> = args.iter().map(Argument::address).collect();
        let name = || "compiled expression".into();
        // SAFETY: the caller's promise; there is an argument of 64 bits for each parameter.
        let launched = unsafe { self.launch_function(&kernel.function, shape, &name, &mut args) };
        // Behind the launch: until here the caller keeps it.
        self.keep_loaded(&kernel.function);
        launched.map_err(|e| self.failed("launching a compiled expression", e))
    }

    /// # Safety
    /// As [`Stream::launch`]; `args` are the addresses of arguments of the kernel's number and widths.
    unsafe fn launch_function(
        &self,
        function: &CudaFunction,
        shape: Shape,
        name: &dyn Fn() -> String,
        args: &mut [*mut c_void],
    ) -> std::result::Result<(), cudarc::driver::DriverError> {
        let Shape {
            blocks,
            slices,
            threads,
            shared,
        } = shape;
        trace::count(Counted::Launches, 1);
        let work = Work {
            lane: Lane::Kernels,
            name,
            bytes: None,
        };
        submitted(&self.cuda_stream, &work, || {
            // SAFETY: the caller's promise; the driver copies the arguments before it returns.
            unsafe {
                result::launch_kernel(
                    function.cu_function(),
                    (blocks, slices, 1),
                    (threads, 1, 1),
                    shared,
                    self.cuda_stream.cu_stream(),
                    args,
                )
            }
        })
    }

    /// At most eight blocks of 256 threads per multiprocessor, with at least 256 items each: for kernels that take a grid
    /// of any size.
    pub(crate) fn strips(&self, items: usize) -> Shape {
        let mut shape = Shape::each(items);
        shape.blocks = shape.blocks.min(8 * self.gpu.multiprocessors);
        shape
    }

    /// As many blocks of 256 threads of a kernel as run at once, with at least `per_block` items each: for kernels that
    /// take a grid of any size, and have so many loads in flight that further blocks would only wait.
    pub(crate) fn at_once<A>(
        &self,
        kernel: Kernel<A>,
        items: usize,
        per_block: usize,
    ) -> Result<Shape> {
        let mut shape = Shape::blocks_of(items, per_block, 256);
        self.bind()?;
        let function = self.loaded_kernel(kernel.entry)?;
        let blocks = function
            .occupancy_max_active_blocks_per_multiprocessor(shape.threads, 0, None)
            .map_err(|e| self.failed(&format!("asking for blocks of {kernel:?}"), e))?;
        shape.blocks = shape.blocks.min(blocks.max(1) * self.gpu.multiprocessors);
        Ok(shape)
    }
}

fn check_count(parameters: usize, arguments: usize) -> Result<()> {
    match parameters == arguments {
        true => Ok(()),
        false => Err(BowtieError::Internal(format!(
            "a compiled expression has {parameters} parameters, and {arguments} arguments were given"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::check_count;

    #[test]
    fn another_number_of_arguments_is_an_error() {
        assert!(check_count(3, 3).is_ok());
        let error = check_count(3, 2).unwrap_err().to_string();
        assert!(
            error.contains("3 parameters") && error.contains("2 arguments"),
            "{error}"
        );
    }
}
