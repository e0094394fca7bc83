//! The size of the host's memory.

use std::sync::LazyLock;

use datafusion::execution::memory_pool::MemoryLimit;

use crate::options::{BowtieOptions, CacheSize};
use crate::runtime::gpus;

/// Half of the machine's memory, or 4 GiB if it cannot be read.
pub(crate) fn default_host_budget() -> u64 {
    const FALLBACK: u64 = 8 << 30;
    host_memory().unwrap_or(FALLBACK) / 2
}

/// Of a bounded memory pool, the part that columns in host memory may take: other operators need the rest.
const SHARE_OF_POOL: u64 = 4;

/// The most bytes of columns that stay in host memory for a device that is a GPU or not. `pool`: the limit of DataFusion's memory pool.
pub(crate) fn host_cache_bytes(options: &BowtieOptions, is_gpu: bool, pool: MemoryLimit) -> u64 {
    static OF_A_CARD: LazyLock<u64> = LazyLock::new(|| {
        let cards = gpus::gpus().map_or(1, |cards| cards.len().max(1));
        default_host_budget() / 2 / cards as u64
    });
    match (options.cache, options.host_cache, pool) {
        (CacheSize::Off, _, _) | (_, CacheSize::Off, _) => 0,
        (_, CacheSize::Bytes(bytes), MemoryLimit::Finite(limit)) => {
            bytes.min(limit as u64 / SHARE_OF_POOL)
        }
        (_, CacheSize::Bytes(bytes), _) => bytes,
        (_, CacheSize::Auto, MemoryLimit::Infinite) if is_gpu => *OF_A_CARD,
        (_, CacheSize::Auto, _) => 0,
    }
}

/// The machine's memory, or the container's limit if that is lower; `None` if it cannot be read.
pub(crate) fn host_memory() -> Option<u64> {
    // Without a limit the file holds a word, which is no number.
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|limit| limit.trim().parse::<u64>().ok());
    Some(meminfo("MemTotal:")?.min(limit.unwrap_or(u64::MAX)))
}

/// The memory that programs can still take of the machine's; `None` if it cannot be read.
pub(crate) fn free_host_memory() -> Option<u64> {
    meminfo("MemAvailable:")
}

/// A line of the kernel's account of memory, in bytes.
fn meminfo(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    let kib = line.split_whitespace().nth(1)?.parse::<u64>().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_take_a_quarter_of_a_bounded_pool() {
        let bytes = |cache, host_cache, is_gpu, pool: Option<usize>| {
            let pool = pool.map_or(MemoryLimit::Infinite, MemoryLimit::Finite);
            let options = BowtieOptions {
                cache,
                host_cache,
                ..BowtieOptions::default()
            };
            host_cache_bytes(&options, is_gpu, pool)
        };
        let (auto, off, many) = (CacheSize::Auto, CacheSize::Off, CacheSize::Bytes(500));
        let (bounded, open) = (Some(1_000), None);
        assert_eq!(bytes(auto, many, false, bounded), 250);
        assert_eq!(bytes(auto, CacheSize::Bytes(200), true, bounded), 200);
        assert_eq!(bytes(auto, many, false, open), 500);
        for (cache, host_cache) in [(off, many), (auto, off)] {
            assert_eq!(bytes(cache, host_cache, true, open), 0);
        }
        // Of a pool without a limit alone, and for a GPU.
        assert_eq!(bytes(auto, auto, true, bounded), 0);
        assert_eq!(bytes(auto, auto, false, open), 0);
        assert!(bytes(auto, auto, true, open) > 0);
    }
}
