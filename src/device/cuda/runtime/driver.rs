//! The driver: is there one, which GPUs does it know, and what its errors say.

use std::process;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use cudarc::driver::{CudaContext, DriverError, result, sys};
use parking_lot::Mutex;

use crate::device::cuda::runtime::{sticky_error, symbols};
use crate::device::gpu_info::GpuInfo;
use crate::error::{BowtieError, LimitOf, Result};

/// The oldest architecture that the kernels' PTX can be translated for: Turing.
pub(crate) const LEAST_CAPABILITY: (i32, i32) = (7, 5);

/// The oldest driver API that takes the kernels' PTX, whose label is 8.3.
pub(crate) const LEAST_DRIVER: i32 = 12030;

/// After a failure the driver is asked again, but not more often: a server may start before the driver is ready, and each query asks.
const RETRY: Duration = Duration::from_secs(5);

/// Starts the driver, and counts its GPUs; or says why none can be used.
fn count() -> Result<u32> {
    // SAFETY: only tries to load the driver's library, whose initialisers are NVIDIA's.
    if !unsafe { sys::is_culib_present() } {
        return Err(BowtieError::Device(
            "no NVIDIA driver is installed: the library libcuda was not found; in a container, start it with --gpus all".into(),
        ));
    }
    let missing = symbols::missing();
    let knows_its_version = missing
        .iter()
        .all(|(name, _)| *name != "cuDriverGetVersion");
    let version = match knows_its_version {
        true => driver_version()?,
        false => 0,
    };
    check_version(version, &missing)?;
    result::init().map_err(|e| {
        BowtieError::Device(format!("the NVIDIA driver does not start: {}", text(e)))
    })?;
    STARTED_BY.get_or_init(process::id);
    let count = CudaContext::device_count()
        .map_err(|e| BowtieError::Device(format!("the NVIDIA driver finds no GPU: {}", text(e))))?;
    match u32::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(BowtieError::Device("the NVIDIA driver finds no GPU".into())),
    }
}

/// # Errors
/// For a driver that is too old, by its version or as it lacks a function.
fn check_version(version: i32, missing: &[(&str, i32)]) -> Result<()> {
    let (has, least) = (dotted(version), dotted(LEAST_DRIVER));
    let problem = match (missing.first(), version < LEAST_DRIVER) {
        (_, true) if version > 0 => {
            format!(
                "the NVIDIA driver is too old: it supports CUDA {has}, and bowtie needs {least}, which driver R545 or newer has"
            )
        }
        (Some((name, since)), _) => format!(
            "the NVIDIA driver (CUDA {has}) lacks the function {name}, which CUDA {} brought: install driver R545 or newer",
            dotted(*since)
        ),
        (None, _) => return Ok(()),
    };
    Err(BowtieError::Device(problem))
}

/// The process that started the driver.
static STARTED_BY: OnceLock<u32> = OnceLock::new();

/// # Errors
/// In a process that was forked after the driver had started: CUDA does not work there.
pub(crate) fn check_not_forked() -> Result<()> {
    check_process(STARTED_BY.get().copied(), process::id())
}

fn check_process(started_by: Option<u32>, own: u32) -> Result<()> {
    match started_by {
        Some(parent) if parent != own => Err(BowtieError::Device(format!(
            "this process ({own}) was forked from one that had used a GPU ({parent}), and CUDA does not work in such a process: fork before the \
             first query on a GPU, start a new program instead, or SET bowtie.device = 'host'"
        ))),
        _ => Ok(()),
    }
}

/// Each GPU, or why it cannot be described.
type Described = Vec<Result<&'static GpuInfo>>;

/// What the driver said last, and when.
type Known = Option<(Instant, Result<Described>)>;

/// Each GPU, or why it cannot be described; or why there is none. Successes are kept. What failed is asked again, after [`RETRY`] at the earliest.
fn described() -> Result<Described> {
    static KNOWN: Mutex<Known> = Mutex::new(None);
    check_not_forked()?;
    known(&mut KNOWN.lock(), Instant::now(), describe_all)
}

fn known(
    known: &mut Known,
    now: Instant,
    describe: impl FnOnce(&[Result<&'static GpuInfo>]) -> Result<Described>,
) -> Result<Described> {
    let before = match &*known {
        Some((at, said)) => {
            let is_whole = said
                .as_ref()
                .is_ok_and(|gpus| gpus.iter().all(Result::is_ok));
            if is_whole || now.duration_since(*at) < RETRY {
                return said.clone();
            }
            said.as_deref().unwrap_or_default()
        }
        None => &[],
    };
    let said = describe(before);
    known.insert((now, said)).1.clone()
}

/// All GPUs that the driver describes.
///
/// # Errors
/// Why there is none.
pub(crate) fn gpus() -> Result<Vec<&'static GpuInfo>> {
    let all = described()?;
    let described = all.iter().filter_map(|gpu| gpu.as_ref().ok().copied());
    let gpus: Vec<&'static GpuInfo> = described.collect();
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
        Some(gpu) => gpu.clone(),
        None => Err(BowtieError::Device(format!(
            "there is no GPU cuda:{ordinal}: the driver finds {}, counted from cuda:0; SELECT * FROM bowtie_devices() lists them",
            all.len()
        ))),
    }
}

/// Describes all GPUs but those that were described before.
fn describe_all(before: &[Result<&'static GpuInfo>]) -> Result<Described> {
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
        if let Some(Ok(known)) = before.get(ordinal as usize) {
            return Ok(*known);
        }
        // Each GPU once in a process.
        let leaked = describe().map(|gpu| &*Box::leak(Box::new(gpu)));
        leaked.map_err(|e| {
            let what = "asking for a GPU's properties failed";
            BowtieError::Device(format!("{what}: {}", text(e)))
        })
    });
    Ok(gpus.collect())
}

/// The version of the driver's interface, such as 13000.
pub(crate) fn driver_version() -> Result<i32> {
    let mut version = 0;
    // SAFETY: the driver writes one integer to the address of `version`.
    unsafe { sys::cuDriverGetVersion(&mut version) }
        .result()
        .map_err(|e| {
            let what = "asking for the driver's version failed";
            BowtieError::Device(format!("{what}: {:?}", e.0))
        })?;
    Ok(version)
}

fn dotted_version() -> String {
    driver_version().map_or_else(|_| "unknown".into(), dotted)
}

fn dotted(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// The error of a call on the card of `context` that should not fail. Without memory it is a refusal, which the caller's step answers.
pub(crate) fn failed(context: &CudaContext, what: &str, error: DriverError) -> BowtieError {
    if is_out_of_memory(error) {
        return refused();
    }
    let failed = format!("{what} failed on the GPU: {}", text(error));
    BowtieError::Device(
        match sticky_error::record(context.ordinal() as u32, error, &failed) {
            true => format!(
                "{failed}. This process stops using this GPU: restart the process, and please report this"
            ),
            false => failed,
        },
    )
}

/// The refusal of memory that no budget counts: of kernels, streams and events, and of pinned memory. It has no figures, as the driver tells none.
pub(crate) fn refused() -> BowtieError {
    BowtieError::OutOfDeviceMemory {
        what: "the driver's part",
        operator: None,
        requested: 0,
        in_use: 0,
        limit: 0,
        limit_of: LimitOf::Driver,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(ordinal: u32) -> &'static GpuInfo {
        Box::leak(Box::new(GpuInfo {
            ordinal,
            name: "a GPU".into(),
            total_bytes: 1 << 30,
            compute_capability: "9.0".into(),
            takes_kernels: true,
            driver: "13.0".into(),
        }))
    }

    fn failure() -> BowtieError {
        BowtieError::Device("not ready".into())
    }

    #[test]
    fn what_failed_is_asked_again_after_a_while_and_what_did_not_is_kept() {
        let (mut state, begun) = (None, Instant::now());
        let asked = std::cell::Cell::new(0);
        let mut ask = |after: Duration, said: Result<Described>| {
            known(&mut state, begun + after, |_| {
                asked.set(asked.get() + 1);
                said
            })
        };
        let soon = Duration::from_millis(1);
        assert!(ask(Duration::ZERO, Err(failure())).is_err());
        assert!(ask(soon, Ok(vec![Ok(gpu(0))])).is_err());
        assert_eq!(asked.get(), 1);
        // One of two GPUs is not ready.
        let found = ask(RETRY, Ok(vec![Ok(gpu(0)), Err(failure())])).unwrap();
        assert!(found[0].is_ok() && found[1].is_err());
        assert!(ask(RETRY + soon, Err(failure())).unwrap()[1].is_err());
        assert_eq!(asked.get(), 2);
        assert!(ask(2 * RETRY, Ok(vec![Ok(gpu(0)), Ok(gpu(1))])).is_ok());
        assert!(ask(9 * RETRY, Err(failure())).is_ok());
        assert_eq!(asked.get(), 3);
    }

    #[test]
    fn gpus_that_were_described_are_not_described_again() {
        let mut state = None;
        let begun = Instant::now();
        known(&mut state, begun, |before| {
            assert!(before.is_empty());
            Ok(vec![Ok(gpu(0)), Err(failure())])
        })
        .unwrap();
        known(&mut state, begun + RETRY, |before| {
            assert!(before[0].is_ok() && before[1].is_err());
            Ok(before.to_vec())
        })
        .unwrap();
    }

    #[test]
    fn an_old_driver_says_so() {
        let says = |version, missing: &[(&str, i32)]| {
            let checked = check_version(version, missing);
            checked.map_err(|error| error.to_string())
        };
        assert_eq!(says(LEAST_DRIVER, &[]), Ok(()));
        let old = says(12020, &[]).unwrap_err();
        assert!(old.contains("too old: it supports CUDA 12.2"), "{old}");
        let old = says(11000, &[("cuMemPoolCreate", 11020)]).unwrap_err();
        assert!(old.contains("too old: it supports CUDA 11.0"), "{old}");
        let lacks = says(12030, &[("cuMemPoolCreate", 11020)]).unwrap_err();
        assert!(
            lacks.contains(
                "(CUDA 12.3) lacks the function cuMemPoolCreate, which CUDA 11.2 brought"
            ),
            "{lacks}"
        );
        let unknown = says(0, &[("cuDriverGetVersion", 2020)]).unwrap_err();
        assert!(
            unknown.contains("lacks the function cuDriverGetVersion"),
            "{unknown}"
        );
    }

    #[test]
    fn a_forked_process_says_so() {
        assert!(check_process(None, 2).is_ok() && check_process(Some(2), 2).is_ok());
        let forked = check_process(Some(1), 2).unwrap_err().to_string();
        assert!(forked.contains("this process (2) was forked"), "{forked}");
    }

    #[test]
    fn no_memory_is_a_refusal_that_may_pass() {
        let refused = refused();
        assert!(refused.is_transient() && refused.is_divisible());
        assert!(refused.splits_that_fit().is_none());
    }
}
