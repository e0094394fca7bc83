//! The functions of the driver's library that can be reached, with the CUDA version that brought each.
//!
//! cudarc looks a function up when it is first called, and panics where the library lacks it. So all of them are looked up when the driver is first
//! asked (`driver.rs`), and one that is missing is an error. The tests hold the list against the sources and against the
//! emulator (`tests/emulator`), which exports these functions and no others: a call of another one fails in every run on it.

use cudarc::driver::{DriverError, sys};

/// Each function, and the version of the driver's interface that brought it, as the toolkit's `cudaTypedefs.h` has it.
pub(crate) const SYMBOLS: [(&str, i32); 46] = [
    ("cuCtxGetCurrent", 4000),
    ("cuCtxSetCurrent", 4000),
    ("cuCtxSynchronize", 2000),
    ("cuDeviceGet", 2000),
    ("cuDeviceGetAttribute", 2000),
    ("cuDeviceGetCount", 2000),
    ("cuDeviceGetName", 2000),
    ("cuDevicePrimaryCtxRelease_v2", 11000),
    ("cuDevicePrimaryCtxRetain", 7000),
    ("cuDeviceTotalMem_v2", 3020),
    ("cuDriverGetVersion", 2020),
    ("cuEventCreate", 2000),
    ("cuEventDestroy_v2", 4000),
    ("cuEventElapsedTime", 2000),
    ("cuEventQuery", 2000),
    ("cuEventRecord", 2000),
    ("cuEventSynchronize", 2000),
    ("cuFuncGetAttribute", 2020),
    ("cuFuncSetAttribute", 9000),
    ("cuGetErrorName", 6000),
    ("cuGetErrorString", 6000),
    ("cuInit", 2000),
    ("cuLaunchKernel", 4000),
    ("cuLaunchKernelEx", 11060),
    ("cuMemAllocFromPoolAsync", 11020),
    ("cuMemFreeAsync", 11020),
    ("cuMemFreeHost", 2000),
    ("cuMemGetInfo_v2", 3020),
    ("cuMemHostAlloc", 2020),
    ("cuMemPoolCreate", 11020),
    ("cuMemPoolSetAttribute", 11020),
    ("cuMemPoolTrimTo", 11020),
    ("cuMemcpyDtoDAsync_v2", 3020),
    ("cuMemcpyDtoHAsync_v2", 3020),
    ("cuMemcpyHtoDAsync_v2", 3020),
    ("cuMemsetD8Async", 3020),
    ("cuModuleGetFunction", 2000),
    ("cuModuleLoadData", 2000),
    ("cuModuleUnload", 2000),
    ("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", 7000),
    ("cuOccupancyMaxActiveClusters", 11070),
    ("cuStreamCreate", 2000),
    ("cuStreamDestroy_v2", 4000),
    ("cuStreamQuery", 2000),
    ("cuStreamSynchronize", 2000),
    ("cuStreamWaitEvent", 3020),
];

/// The functions that the driver's library lacks, with their versions. The library must be there.
pub(crate) fn missing() -> Vec<(&'static str, i32)> {
    let lacks = |(name, _): &(&str, i32)| {
        // SAFETY: the library was loaded before, and the address that is looked up is not called.
        unsafe { sys::culib().get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_err()
    };
    SYMBOLS.into_iter().filter(lacks).collect()
}

/// Milliseconds between two events. cudarc's own call is `cuEventElapsedTime_v2`, which CUDA 12.8 brought, and its bindings of CUDA 13 lack the
/// function that all drivers have.
///
/// # Safety
/// The events live, were recorded, and tell the time.
pub(crate) unsafe fn elapsed(begin: sys::CUevent, end: sys::CUevent) -> Result<f32, DriverError> {
    type Elapsed = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> sys::CUresult;
    // SAFETY: the function has this type in every version of the driver.
    let elapsed = unsafe { sys::culib().get::<Elapsed>("cuEventElapsedTime".as_bytes()) };
    let elapsed = elapsed.map_err(|_| DriverError(sys::CUresult::CUDA_ERROR_NOT_FOUND))?;
    let mut milliseconds = 0.0;
    // SAFETY: the caller's promise; the number is written during the call.
    unsafe { elapsed(&mut milliseconds, begin, end) }.result()?;
    Ok(milliseconds)
}

#[cfg(test)]
mod tests;
