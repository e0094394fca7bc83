//! [`KeptRates`]: files of rates that later processes read, one for each [`Machine`].
//!
//! ```text
//! datafusion-bowtie rates 1
//! card = NVIDIA H200, compute capability 9.0, CUDA 13.0
//! host = Intel(R) Xeon(R) Processor, 16 cores
//! host.probed_key = 13300
//! …
//! card.launch = 9000000
//! …
//! end
//! ```
//!
//! Times are in picoseconds. A file that cannot be read, is of another machine, or has a line or a time that is not plausible counts as
//! none. No error leaves this module: what is not kept is measured again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use crate::device::gpu_info::GpuInfo;
use crate::device::machine_rates::{CardRates, HostRates};

/// A directory, or `off`: nothing is measured, and the reference's rates are used.
pub(crate) const VARIABLE: &str = "BOWTIE_RATES";

const TITLE: &str = "datafusion-bowtie rates 1";
/// More than any file has.
const MOST_BYTES: u64 = 4096;

/// A card with its driver, and its host: what rates depend on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Machine {
    card: String,
    host: String,
}

/// The rates that a file has.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Kept {
    pub(crate) host: Option<HostRates>,
    pub(crate) card: Option<CardRates>,
}

/// Whether rates are measured, and where they are kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum KeptRates {
    /// Nothing is measured.
    Off,
    /// They are kept in a directory, or not at all.
    In(Option<PathBuf>),
}

impl Machine {
    pub(crate) fn of(gpu: &GpuInfo) -> Self {
        static HOST: LazyLock<(String, usize)> = LazyLock::new(|| {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            (cpu(), cores)
        });
        Self::new(gpu, &HOST.0, HOST.1)
    }

    pub(crate) fn new(gpu: &GpuInfo, cpu: &str, cores: usize) -> Self {
        let GpuInfo {
            name,
            compute_capability,
            driver,
            ..
        } = gpu;
        Self {
            card: one_line(&format!(
                "{name}, compute capability {compute_capability}, CUDA {driver}"
            )),
            host: one_line(&format!("{cpu}, {cores} cores")),
        }
    }

    /// The name of its file: words of letters and digits.
    fn file_name(&self) -> String {
        let name = format!("{} {}", self.card, self.host);
        let words = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
        let words = words.map(|word| word.trim_matches('.'));
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let mut name = words.join("-");
        name.truncate(200);
        format!("{name}.rates")
    }
}

/// The processor's name, where the system tells it.
fn cpu() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "model name").then(|| value.trim().to_string())
    });
    model.unwrap_or_else(|| std::env::consts::ARCH.into())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl KeptRates {
    /// As the environment says.
    pub(crate) fn of_environment() -> Self {
        Self::of(|name| std::env::var_os(name).map(Into::into))
    }

    /// `variable`: a variable of the environment.
    fn of(variable: impl Fn(&str) -> Option<PathBuf>) -> Self {
        let set = |name| variable(name).filter(|value| !value.as_os_str().is_empty());
        match set(VARIABLE) {
            Some(off) if off.as_os_str() == "off" => return Self::Off,
            Some(directory) => return Self::In(Some(directory)),
            None => {}
        }
        // A path that is not absolute is to be ignored, by the specification of base directories.
        let caches = set("XDG_CACHE_HOME").filter(|caches| caches.is_absolute());
        let caches = caches.or_else(|| Some(set("HOME")?.join(".cache")));
        Self::In(caches.map(|caches| caches.join("datafusion-bowtie")))
    }

    fn directory(&self) -> Option<&Path> {
        match self {
            Self::Off => None,
            Self::In(directory) => directory.as_deref(),
        }
    }

    /// What is kept of a machine.
    pub(crate) fn read(&self, machine: &Machine) -> Kept {
        let text = self.directory().and_then(|directory| {
            let file = File::open(directory.join(machine.file_name())).ok()?;
            let mut text = String::new();
            file.take(MOST_BYTES).read_to_string(&mut text).ok()?;
            Some(text)
        });
        let kept = text.and_then(|text| parsed(&text, machine));
        kept.unwrap_or_default()
    }

    /// Keeps the rates of a machine beside those of its file that `rates` has not.
    pub(crate) fn write(&self, machine: &Machine, rates: Kept) {
        let Some(directory) = self.directory() else {
            return;
        };
        let before = self.read(machine);
        let rates = Kept {
            host: rates.host.or(before.host),
            card: rates.card.or(before.card),
        };
        let path = directory.join(machine.file_name());
        if let Err(error) = replace(directory, &path, &text(machine, rates)) {
            log::debug!("rates are not kept in {}: {error}", path.display());
        }
    }
}

/// Writes a file that other processes see whole or not at all.
fn replace(directory: &Path, path: &Path, text: &str) -> io::Result<()> {
    static FILES: AtomicU64 = AtomicU64::new(0);
    fs::create_dir_all(directory)?;
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let nanos = since.map_or(0, |since| since.as_nanos());
    let name = format!(".{}-{number}-{nanos}.new", std::process::id());
    let temporary = directory.join(name);
    // It is nobody else's file, nor a link to one.
    let mut file = File::create_new(&temporary)?;
    let written = file.write_all(text.as_bytes());
    drop(file);
    let written = written.and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn text(machine: &Machine, rates: Kept) -> String {
    let Machine { card, host } = machine;
    let mut lines = vec![
        TITLE.to_string(),
        format!("card = {card}"),
        format!("host = {host}"),
    ];
    let times = |part: &str, names: &[&str], times: &[f64]| -> Vec<String> {
        let times = names.iter().zip(times);
        times
            .map(|(name, time)| format!("{part}.{name} = {time}"))
            .collect()
    };
    if let Some(rates) = rates.host {
        lines.extend(times("host", &HostRates::NAMES, &rates.times()));
    }
    if let Some(rates) = rates.card {
        lines.extend(times("card", &CardRates::NAMES, &rates.times()));
    }
    lines.push("end\n".into());
    lines.join("\n")
}

/// The rates of a file's text; `None` if it is not a whole file of this machine, with plausible times alone.
fn parsed(text: &str, machine: &Machine) -> Option<Kept> {
    let text = text.strip_prefix(TITLE)?.strip_prefix('\n')?;
    let text = text.strip_suffix("\nend\n")?;
    let mut values = BTreeMap::new();
    for line in text.lines() {
        let (name, value) = line.split_once(" = ")?;
        if values.insert(name, value).is_some() {
            return None;
        }
    }
    let is_of_it = |name, value: &str| values.get(name) == Some(&value);
    if !is_of_it("card", &machine.card) || !is_of_it("host", &machine.host) {
        return None;
    }
    // All times of a part, or none.
    let has = |part: &str| values.keys().any(|name| name.starts_with(part));
    let mut kept = Kept::default();
    if has("host.") {
        let rates = HostRates::of(times("host", HostRates::NAMES, &values)?);
        kept.host = Some(rates).filter(|rates| rates.is_plausible());
        kept.host?;
    }
    if has("card.") {
        let rates = CardRates::of(times("card", CardRates::NAMES, &values)?);
        kept.card = Some(rates).filter(|rates| rates.is_plausible());
        kept.card?;
    }
    Some(kept)
}

fn times<const N: usize>(
    part: &str,
    names: [&str; N],
    values: &BTreeMap<&str, &str>,
) -> Option<[f64; N]> {
    let mut times = [0.0; N];
    for (time, name) in times.iter_mut().zip(names) {
        *time = values.get(&*format!("{part}.{name}"))?.parse().ok()?;
    }
    Some(times)
}

#[cfg(test)]
pub(crate) mod tests;
