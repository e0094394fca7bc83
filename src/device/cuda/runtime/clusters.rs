//! Launches of blocks in clusters, on cards that have such (compute capability 9.0).

use std::{mem, ptr};

use cudarc::driver::sys;

use crate::device::counters::Counted;
use crate::device::cuda::runtime::arguments::Arguments;
use crate::device::cuda::runtime::kernels::Kernel;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::spans::{Work, submitted};
use crate::device::cuda::runtime::stream::Stream;
use crate::device::faults::Fault;
use crate::device::trace::{self, Lane};
use crate::error::Result;

impl Stream {
    /// Launches a kernel in clusters of `blocks` blocks. The grid's blocks are a multiple of that.
    ///
    /// # Safety
    /// As [`Stream::launch`].
    pub(crate) unsafe fn launch_in_clusters<A: Arguments>(
        &self,
        kernel: Kernel<A>,
        shape: Shape,
        blocks: u32,
        args: &A,
    ) -> Result<()> {
        self.budget.faults().check(Fault::Launch)?;
        self.bind()?;
        let function = self.loaded_kernel(kernel.entry)?.cu_function();
        let mut clusters = clusters_of(blocks);
        let config = self.config(shape, &mut clusters);
        trace::count(Counted::Launches, 1);
        let work = Work {
            lane: Lane::Kernels,
            name: &|| kernel.entry.name.into(),
            bytes: None,
        };
        let launched = args.with_addresses(|args| {
            submitted(&self.cuda_stream, &work, || {
                // SAFETY: the caller's promise; the number of arguments and their widths are those of the kernel's PTX;
                // arguments, attribute and configuration are read during the call.
                unsafe {
                    sys::cuLaunchKernelEx(&config, function, args.as_mut_ptr(), ptr::null_mut())
                }
                .result()
            })
        });
        launched.map_err(|e| self.failed(&format!("launching kernel {kernel:?}"), e))
    }

    /// The number of clusters of `blocks` blocks of a kernel that run at once.
    pub(crate) fn clusters_at_once<A>(
        &self,
        kernel: Kernel<A>,
        shape: Shape,
        blocks: u32,
    ) -> Result<u32> {
        self.bind()?;
        let function = self.loaded_kernel(kernel.entry)?.cu_function();
        let mut clusters = clusters_of(blocks);
        let config = self.config(shape, &mut clusters);
        let mut at_once = 0;
        // SAFETY: the function is of this context; attribute and configuration are read during the call, the number is
        // written.
        unsafe { sys::cuOccupancyMaxActiveClusters(&mut at_once, function, &config) }
            .result()
            .map_err(|e| self.failed(&format!("asking for clusters of {kernel:?}"), e))?;
        Ok(at_once.max(0) as u32)
    }

    /// A configuration with a pointer to `attribute`, for calls during which the attribute exists.
    fn config(&self, shape: Shape, attribute: &mut sys::CUlaunchAttribute) -> sys::CUlaunchConfig {
        sys::CUlaunchConfig {
            gridDimX: shape.blocks,
            gridDimY: shape.slices,
            gridDimZ: 1,
            blockDimX: shape.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shape.shared,
            hStream: self.cuda_stream.cu_stream(),
            attrs: attribute,
            numAttrs: 1,
        }
    }
}

/// The launch attribute for clusters of `blocks` blocks.
fn clusters_of(blocks: u32) -> sys::CUlaunchAttribute {
    // SAFETY: plain words, for all of which zero is a value.
    let mut attribute: sys::CUlaunchAttribute = unsafe { mem::zeroed() };
    attribute.id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = blocks;
    attribute.value.clusterDim.y = 1;
    attribute.value.clusterDim.z = 1;
    attribute
}
