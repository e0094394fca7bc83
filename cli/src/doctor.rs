//! `bowtie-sql doctor`: what this machine has, what `auto` takes of it, and what is missing.

use std::process::ExitCode;

use datafusion::common::human_readable_size;
use datafusion::error::Result;
use datafusion_bowtie::{BowtieOptions, DeviceChoice, DeviceInfo, devices};

use crate::arguments::Arguments;

/// Of the exit code: there is no GPU that can be used.
const NO_GPU: u8 = 3;
/// Of the exit code: the device that was asked for cannot be used.
const NOT_USABLE: u8 = 1;

/// Prints what there is. The exit code is 0 if the device of the options can be used and is a GPU or was asked for, 3 if there is no
/// GPU, and 1 if the device that was asked for cannot be used.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut options = BowtieOptions::from_env()?;
    if let Some(device) = &arguments.session.device {
        options = options.with_device(device.parse()?);
    }
    println!(
        "bowtie-sql {}, DataFusion {}",
        env!("CARGO_PKG_VERSION"),
        datafusion::DATAFUSION_VERSION
    );
    let all = devices();
    for device in &all {
        println!("\n{}", described(device));
    }
    let asked = options.device;
    let chosen = all.iter().find(|device| match asked {
        DeviceChoice::Auto => device.is_default,
        other => device.device == other.to_string(),
    });
    println!();
    let has_gpu = all
        .iter()
        .any(|device| device.device != "host" && device.usable);
    let code = match chosen {
        Some(device) if device.usable => {
            println!(
                "bowtie.device = '{asked}' runs queries on {}.",
                device.device
            );
            if device.device == "host" && asked == DeviceChoice::Auto {
                println!("{}", without_gpu(&all));
            }
            match has_gpu || asked == DeviceChoice::Host {
                true => 0,
                false => NO_GPU,
            }
        }
        _ => {
            println!(
                "bowtie.device = '{asked}' cannot be used: a query that would be offloaded fails."
            );
            match chosen.and_then(|device| device.reason.as_deref()) {
                Some(reason) => println!("{reason}"),
                None if has_gpu => {
                    println!("There is no such device: the list above has all of them.")
                }
                None => println!("{}", without_gpu(&all)),
            }
            NOT_USABLE
        }
    };
    Ok(ExitCode::from(code))
}

fn described(device: &DeviceInfo) -> String {
    let size = |bytes: Option<u64>| {
        bytes.map_or("unknown".into(), |bytes| {
            human_readable_size(usize::try_from(bytes).unwrap_or(usize::MAX))
        })
    };
    let state = match (device.usable, device.is_default) {
        (true, true) => "usable, and taken by bowtie.device = 'auto'",
        (true, false) => "usable",
        (false, _) => "not usable",
    };
    let mut lines = vec![format!("{}: {} ({state})", device.device, device.name)];
    if let Some(reason) = &device.reason {
        lines.push(format!("  why not         {reason}"));
    }
    if device.memory_bytes.is_some() {
        lines.push(format!("  memory          {}", size(device.memory_bytes)));
        lines.push(format!("  free now        {}", size(device.free_bytes)));
        lines.push(format!("  for queries     {}", size(device.budget_bytes)));
    }
    if let Some(capability) = &device.compute_capability {
        lines.push(format!(
            "  capability      {capability} (7.5 or newer is needed)"
        ));
    }
    if let Some(driver) = &device.driver {
        lines.push(format!(
            "  driver          supports CUDA {driver} (12.3 or newer is needed)"
        ));
    }
    if device.device != "host" {
        lines.push(format!("  kernels         {}", device.kernels));
    }
    lines.join("\n")
}

/// Whether this is a container.
fn is_container() -> bool {
    let inside = ["/.dockerenv", "/run/.containerenv"];
    inside
        .iter()
        .any(|file| std::path::Path::new(file).exists())
}

/// A part of a reason for which no GPU can be used, and what to do; in a container, if that is something else.
const ADVICE: [(&str, &str, Option<&str>); 5] = [
    (
        "no NVIDIA driver is installed",
        "If this machine has an NVIDIA GPU, install the NVIDIA driver (nvidia-smi then lists the GPU). The CUDA toolkit is not needed.",
        Some(
            "This is a container: start it with --gpus all, on a host with the NVIDIA driver and the NVIDIA container toolkit.",
        ),
    ),
    (
        "too old: it supports CUDA",
        "Install driver R545 or newer; the CUDA toolkit is not needed.",
        None,
    ),
    (
        "compute capability",
        "The GPU is older than Turing (2018), and cannot run the kernels.",
        None,
    ),
    (
        "feature 'cuda'",
        "Build with the feature 'cuda', which is on by default.",
        None,
    ),
    (
        "finds no GPU",
        "The driver is there and finds no GPU: nvidia-smi says more. In a container, start it with --gpus all.",
        None,
    ),
];

fn advice(why: &str, in_container: bool) -> &'static str {
    let of_reason = ADVICE.iter().find(|(reason, ..)| why.contains(reason));
    match of_reason {
        Some((_, _, Some(advice))) if in_container => advice,
        Some((_, advice, _)) => advice,
        None => "",
    }
}

/// What to do where no GPU can be used.
fn without_gpu(devices: &[DeviceInfo]) -> String {
    let why = devices.iter().find_map(|device| device.reason.as_deref());
    let advice = advice(why.unwrap_or_default(), is_container());
    format!(
        "Without a GPU, range, interval and set joins run on the CPU backend; equi-joins and aggregations stay DataFusion's.\n{advice}"
    )
    .trim_end()
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page that quotes the errors of the library, each of which a test of the workspace looks for in the sources.
    const MESSAGES: &str = include_str!("../../docs/reference/errors.md");

    #[test]
    fn each_reason_has_its_advice() {
        for (reason, told, in_container) in ADVICE {
            assert!(MESSAGES.contains(reason), "{reason}");
            let why = format!("before: {reason} … behind");
            assert_eq!(advice(&why, false), told);
            assert_eq!(advice(&why, true), in_container.unwrap_or(told));
        }
        assert_eq!(advice("something else", true), "");
    }
}
