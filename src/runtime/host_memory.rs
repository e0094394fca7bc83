//! The size of the host's memory.

use std::sync::LazyLock;

use crate::options::{BowtieOptions, CacheSize};

/// Half of the machine's memory, or 4 GiB if it cannot be read.
pub(crate) fn default_host_budget() -> u64 {
    const FALLBACK: u64 = 8 << 30;
    host_memory().unwrap_or(FALLBACK) / 2
}

/// The most bytes of columns that stay in host memory for a device that is a GPU or not. `in_bounds`: whether DataFusion's memory pool is
/// bounded.
pub(crate) fn host_cache_bytes(options: &BowtieOptions, is_gpu: bool, in_bounds: bool) -> u64 {
    static QUARTER: LazyLock<u64> = LazyLock::new(|| default_host_budget() / 2);
    match (options.cache, options.host_cache) {
        (CacheSize::Off, _) | (_, CacheSize::Off) => 0,
        (_, CacheSize::Bytes(bytes)) => bytes,
        (_, CacheSize::Auto) if is_gpu && !in_bounds => *QUARTER,
        (_, CacheSize::Auto) => 0,
    }
}

/// The machine's memory, or the container's limit if that is lower; `None` if it cannot be read.
pub(crate) fn host_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib = line.split_whitespace().nth(1)?.parse::<u64>().ok()?;
    // Without a limit the file holds a word, which is no number.
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|limit| limit.trim().parse::<u64>().ok());
    Some((kib * 1024).min(limit.unwrap_or(u64::MAX)))
}
