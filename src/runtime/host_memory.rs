//! The size of the host's memory.

/// Half of the machine's memory, or 4 GiB if it cannot be read.
pub(crate) fn default_host_budget() -> u64 {
    const FALLBACK: u64 = 8 << 30;
    host_memory().unwrap_or(FALLBACK) / 2
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
