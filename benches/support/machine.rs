//! The line that states where and when figures were measured. Absolute times mean nothing without it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Cores, CPU model if the system reports it, DataFusion's version and the date (UTC).
pub fn describe() -> String {
    format!(
        "{} cores, {}, DataFusion {}, {}",
        cores(),
        cpu_model().unwrap_or_else(|| std::env::consts::ARCH.to_string()),
        datafusion::DATAFUSION_VERSION,
        today()
    )
}

/// Cores that this process may use; DataFusion uses the same number of partitions.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}

fn cpu_model() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

fn today() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    format!("{year}-{month:02}-{day:02}")
}

/// Days since 1970-01-01 to year, month, day, in years that begin on 1 March so that a leap day ends one.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}
