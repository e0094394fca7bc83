//! The list against the sources of the CUDA backend and against the emulator.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::device::cuda::runtime::driver::LEAST_DRIVER;

/// What the sources call of cudarc, but its bindings themselves (`sys::cu…`), and the functions of the driver that each calls, also when what it
/// makes is dropped.
const CALLS: [(&str, &[&str]); 33] = [
    (
        "CudaContext::new(",
        &[
            "cuInit",
            "cuDeviceGet",
            "cuDeviceGetAttribute",
            "cuDevicePrimaryCtxRetain",
            "cuDevicePrimaryCtxRelease_v2",
            "cuCtxGetCurrent",
            "cuCtxSetCurrent",
        ],
    ),
    (
        "CudaContext::device_count(",
        &["cuInit", "cuDeviceGetCount"],
    ),
    (".compute_capability()", &["cuDeviceGetAttribute"]),
    (".attribute(", &["cuDeviceGetAttribute"]),
    (".bind_to_thread()", &["cuCtxGetCurrent", "cuCtxSetCurrent"]),
    (
        ".synchronize()",
        &["cuCtxSynchronize", "cuStreamSynchronize"],
    ),
    (
        ".new_stream()",
        &["cuStreamCreate", "cuStreamDestroy_v2", "cuCtxSynchronize"],
    ),
    (".load_module(", &["cuModuleLoadData", "cuModuleUnload"]),
    (".load_function(", &["cuModuleGetFunction"]),
    (".get_attribute(", &["cuFuncGetAttribute"]),
    (".set_attribute(", &["cuFuncSetAttribute"]),
    (
        ".occupancy_max_active_blocks_per_multiprocessor(",
        &["cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags"],
    ),
    (".error_name()", &["cuGetErrorName"]),
    (".error_string()", &["cuGetErrorString"]),
    ("symbols::elapsed(", &["cuEventElapsedTime"]),
    ("result::init(", &["cuInit"]),
    ("result::device::get(", &["cuDeviceGet"]),
    ("result::device::get_attribute(", &["cuDeviceGetAttribute"]),
    ("result::device::get_name(", &["cuDeviceGetName"]),
    ("result::device::total_mem(", &["cuDeviceTotalMem_v2"]),
    ("result::event::destroy(", &["cuEventDestroy_v2"]),
    ("result::event::query(", &["cuEventQuery"]),
    ("result::event::record(", &["cuEventRecord"]),
    ("result::event::synchronize(", &["cuEventSynchronize"]),
    ("result::free_async(", &["cuMemFreeAsync"]),
    ("result::free_host(", &["cuMemFreeHost"]),
    ("result::launch_kernel(", &["cuLaunchKernel"]),
    ("result::malloc_host(", &["cuMemHostAlloc"]),
    ("result::mem_get_info(", &["cuMemGetInfo_v2"]),
    ("result::memcpy_dtod_async(", &["cuMemcpyDtoDAsync_v2"]),
    ("result::memcpy_dtoh_async(", &["cuMemcpyDtoHAsync_v2"]),
    ("result::memcpy_htod_async(", &["cuMemcpyHtoDAsync_v2"]),
    ("result::memset_d8_async(", &["cuMemsetD8Async"]),
];

/// What the sources import of cudarc.
const IMPORTS: [&str; 8] = [
    "CudaContext",
    "CudaFunction",
    "CudaModule",
    "CudaStream",
    "DeviceRepr",
    "DriverError",
    "result",
    "sys",
];

fn names() -> BTreeSet<String> {
    let names = SYMBOLS.iter().map(|(name, _)| name.to_string());
    names.collect()
}

#[test]
fn all_functions_are_of_the_oldest_driver() {
    for (name, version) in SYMBOLS {
        assert!(version <= LEAST_DRIVER, "{name} is of CUDA {version}");
    }
    let are_sorted = SYMBOLS.is_sorted_by(|a, b| a.0 < b.0);
    assert!(are_sorted, "by name, each once");
}

#[test]
fn the_emulator_exports_these_functions_alone() {
    let source = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/emulator/driver.cpp"
    ));
    let exported = source.lines().filter_map(|line| {
        let (name, _) = line.strip_prefix("int cu")?.split_once('(')?;
        Some(format!("cu{name}"))
    });
    let exported: BTreeSet<String> = exported.collect();
    assert_eq!(exported, names());
}

/// The words behind `prefix` in a text, with the characters of a path.
fn words<'a>(text: &'a str, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(prefix).filter_map(move |(at, _)| {
        let is_path = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        if text[..at].ends_with(is_path) {
            return None;
        }
        let end = text[at..].find(|c: char| !is_path(c))?;
        Some(&text[at..at + end])
    })
}

fn sources(directory: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, into),
            false => into.push(path),
        }
    }
}

/// A build that was copied to a machine without the sources has nothing to compare.
#[test]
fn the_sources_call_these_functions_alone() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/device/cuda"));
    if !root.exists() {
        println!("skipped: {} is not there", root.display());
        return;
    }
    let mut paths = vec![];
    sources(root, &mut paths);
    paths.retain(|path| !path.ends_with("runtime/symbols/tests.rs"));
    let (mut reached, mut used) = (BTreeSet::new(), BTreeSet::new());
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let file = path.display();
        for (call, functions) in CALLS.iter().filter(|(call, _)| text.contains(call)) {
            used.insert(*call);
            reached.extend(functions.iter().map(ToString::to_string));
        }
        for name in words(&text, "sys::cu").filter(|name| !name.starts_with("sys::culib")) {
            reached.insert(name["sys::".len()..].to_owned());
        }
        // Functions of `std::result` begin with an upper case letter.
        let functions = words(&text, "result::").filter(|name| !name.contains(char::is_uppercase));
        for name in functions {
            let known = CALLS.iter().any(|(call, _)| *call == format!("{name}("));
            assert!(known, "{file} calls {name}: add its functions to CALLS");
        }
        for (at, import) in text.match_indices("use cudarc::driver::") {
            let names = text[at + import.len()..].split(';').next().unwrap();
            if names.starts_with("sys::") {
                continue;
            }
            let names = names.split(['{', ',', '}']).map(str::trim);
            for name in names.filter(|name| !name.is_empty()) {
                assert!(IMPORTS.contains(&name), "{file} imports {name} of cudarc");
            }
        }
    }
    let unused = CALLS.iter().find(|(call, _)| !used.contains(call));
    assert!(unused.is_none(), "nobody calls {unused:?}");
    assert_eq!(reached, names());
}
