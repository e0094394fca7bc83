//! Launches of blocks in clusters, on cards that have such (compute capability 9.0).

use std::ffi::c_void;
use std::{mem, ptr};

use cudarc::driver::sys;

use crate::device::cuda::runtime::driver::failed;
use crate::device::cuda::runtime::launch::{Given, Shape};
use crate::device::cuda::runtime::stream::Stream;
use crate::error::Result;

impl Stream {
    /// Launches a kernel by clusters of so many blocks, of which there is a multiple.
    ///
    /// # Safety
    /// As [`Stream::launch_given`].
    pub(crate) unsafe fn launch_in_clusters(
        &self,
        kernel: &'static str,
        shape: Shape,
        blocks: u32,
        args: &[Given<'_>],
    ) -> Result<()> {
        self.bind()?;
        let function = self.gpu.kernel(kernel)?.cu_function();
        let mut args: Vec<*mut c_void> = args.iter().map(Given::address).collect();
        let mut clusters = clusters_of(blocks);
        let config = self.config(shape, &mut clusters);
        // SAFETY: the caller's promise; arguments, attribute and configuration are read while the call lasts.
        unsafe { sys::cuLaunchKernelEx(&config, function, args.as_mut_ptr(), ptr::null_mut()) }
            .result()
            .map_err(|e| failed(&format!("launching kernel {kernel}"), e))
    }

    /// Clusters of so many blocks of a kernel that run at once.
    pub(crate) fn clusters_at_once(
        &self,
        kernel: &'static str,
        shape: Shape,
        blocks: u32,
    ) -> Result<u32> {
        self.bind()?;
        let function = self.gpu.kernel(kernel)?.cu_function();
        let mut clusters = clusters_of(blocks);
        let config = self.config(shape, &mut clusters);
        let mut at_once = 0;
        // SAFETY: the function is of this context; attribute and configuration are read while the call lasts, the number is written.
        unsafe { sys::cuOccupancyMaxActiveClusters(&mut at_once, function, &config) }
            .result()
            .map_err(|e| failed(&format!("asking for clusters of {kernel}"), e))?;
        Ok(at_once.max(0) as u32)
    }

    /// For calls that end before the attribute does.
    fn config(&self, shape: Shape, attribute: &mut sys::CUlaunchAttribute) -> sys::CUlaunchConfig {
        sys::CUlaunchConfig {
            gridDimX: shape.blocks,
            gridDimY: shape.slices,
            gridDimZ: 1,
            blockDimX: shape.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shape.shared,
            hStream: self.stream.cu_stream(),
            attrs: attribute,
            numAttrs: 1,
        }
    }
}

/// That blocks are launched in clusters of so many.
fn clusters_of(blocks: u32) -> sys::CUlaunchAttribute {
    // SAFETY: plain words, for all of which zero is a value.
    let mut attribute: sys::CUlaunchAttribute = unsafe { mem::zeroed() };
    attribute.id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = blocks;
    attribute.value.clusterDim.y = 1;
    attribute.value.clusterDim.z = 1;
    attribute
}
