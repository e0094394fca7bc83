//! The driver: is there one, which GPUs does it know, and what its errors say.

use std::sync::OnceLock;

use cudarc::driver::{CudaContext, DriverError, result, sys};

use crate::device::cuda::runtime::sticky_error;
use crate::device::gpu_info::GpuInfo;
use crate::error::{BowtieError, Result};

/// The oldest architecture that the kernels' PTX can be translated for: Turing.
pub(crate) const LEAST_CAPABILITY: (i32, i32) = (7, 5);

/// The oldest driver API that takes the kernels' PTX, whose label is 8.3.
const LEAST_DRIVER: i32 = 12030;

/// Starts the driver, and counts its GPUs; or says why none can be used.
fn count() -> Result<u32> {
    // SAFETY: only tries to load the driver's library, whose initialisers are NVIDIA's.
    if !unsafe { sys::is_culib_present() } {
        return Err(BowtieError::Device(
            "no NVIDIA driver is installed: the library libcuda was not found; in a container, start it with --gpus all".into(),
        ));
    }
    result::init().map_err(|e| {
        BowtieError::Device(format!("the NVIDIA driver does not start: {}", text(e)))
    })?;
    let version = driver_version()?;
    if version < LEAST_DRIVER {
        return Err(BowtieError::Device(format!(
            "the NVIDIA driver is too old: it supports CUDA {}, and bowtie needs {}, which driver R545 or newer has",
            dotted(version),
            dotted(LEAST_DRIVER)
        )));
    }
    let count = CudaContext::device_count()
        .map_err(|e| BowtieError::Device(format!("the NVIDIA driver finds no GPU: {}", text(e))))?;
    match u32::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(BowtieError::Device("the NVIDIA driver finds no GPU".into())),
    }
}

/// Each GPU, or why it cannot be described; or why there is none. The driver is asked once in the process.
fn described() -> Result<&'static [Result<GpuInfo>]> {
    static GPUS: OnceLock<Result<Vec<Result<GpuInfo>>>> = OnceLock::new();
    match GPUS.get_or_init(describe_all) {
        Ok(gpus) => Ok(gpus),
        Err(error) => Err(error.clone()),
    }
}

/// All GPUs that the driver describes.
///
/// # Errors
/// Why there is none.
pub(crate) fn gpus() -> Result<Vec<&'static GpuInfo>> {
    let all = described()?;
    let gpus: Vec<&GpuInfo> = all.iter().filter_map(|gpu| gpu.as_ref().ok()).collect();
    match (gpus.is_empty(), all.first()) {
        (true, Some(Err(error))) => Err(error.clone()),
        _ => Ok(gpus),
    }
}

/// The GPU `ordinal`.
///
/// # Errors
/// When there is no driver, when it is too old, when it knows no such GPU, or when it cannot describe it.
pub(crate) fn gpu(ordinal: u32) -> Result<&'static GpuInfo> {
    let all = described()?;
    match all.get(ordinal as usize) {
        Some(Ok(gpu)) => Ok(gpu),
        Some(Err(error)) => Err(error.clone()),
        None => Err(BowtieError::Device(format!(
            "there is no GPU cuda:{ordinal}: the driver finds {}, counted from cuda:0; SELECT * FROM bowtie_devices() lists them",
            all.len()
        ))),
    }
}

fn describe_all() -> Result<Vec<Result<GpuInfo>>> {
    // First: to ask for the version where no library is panics.
    let count = count()?;
    let driver = dotted_version();
    let gpus = (0..count).map(|ordinal| {
        let describe = || -> Result<GpuInfo, DriverError> {
            let device = result::device::get(ordinal as i32)?;
            // SAFETY: `device` was just given out by the driver.
            let (total, major, minor) = unsafe {
                (
                    result::device::total_mem(device)?,
                    result::device::get_attribute(
                        device,
                        sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                    )?,
                    result::device::get_attribute(
                        device,
                        sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                    )?,
                )
            };
            Ok(GpuInfo {
                ordinal,
                name: result::device::get_name(device)?,
                total_bytes: total as u64,
                compute_capability: format!("{major}.{minor}"),
                takes_kernels: (major, minor) >= LEAST_CAPABILITY,
                driver: driver.clone(),
            })
        };
        describe().map_err(|e| failed("asking for a GPU's properties", e))
    });
    Ok(gpus.collect())
}

/// The version of the driver's interface, such as 13000.
pub(crate) fn driver_version() -> Result<i32> {
    let mut version = 0;
    // SAFETY: the driver writes one integer to the address of `version`.
    unsafe { sys::cuDriverGetVersion(&mut version) }
        .result()
        .map_err(|e| failed("asking for the driver's version", e))?;
    Ok(version)
}

fn dotted_version() -> String {
    driver_version().map_or_else(|_| "unknown".into(), dotted)
}

fn dotted(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// The error of a call that should not fail.
pub(crate) fn failed(what: &str, error: DriverError) -> BowtieError {
    let failed = format!("{what} failed on the GPU: {}", text(error));
    BowtieError::Device(match sticky_error::record(error, &failed) {
        true => format!(
            "{failed}. This process stops using this GPU: restart the process, and please report this"
        ),
        false => failed,
    })
}

pub(crate) fn text(error: DriverError) -> String {
    let name = error.error_name().map(|s| s.to_string_lossy().into_owned());
    let meaning = error
        .error_string()
        .map(|s| s.to_string_lossy().into_owned());
    match (name, meaning) {
        (Ok(name), Ok(meaning)) => format!("{name} ({meaning})"),
        _ => format!("{error:?}"),
    }
}

pub(crate) fn is_out_of_memory(error: DriverError) -> bool {
    error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY
}
