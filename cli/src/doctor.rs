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
                None => println!("There is no such device: the list above has all of them."),
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

/// What to do where no GPU can be used.
fn without_gpu(devices: &[DeviceInfo]) -> String {
    let why = devices.iter().find_map(|device| device.reason.as_deref());
    let why = why.unwrap_or_default();
    let advice = if why.contains("no NVIDIA driver is installed") {
        let inside = ["/.dockerenv", "/run/.containerenv"];
        match inside
            .iter()
            .any(|file| std::path::Path::new(file).exists())
        {
            true => {
                "This is a container: start it with --gpus all, on a host with the NVIDIA driver and the NVIDIA container toolkit."
            }
            false => {
                "If this machine has an NVIDIA GPU, install the NVIDIA driver (nvidia-smi then lists the GPU). The CUDA toolkit is not needed."
            }
        }
    } else if why.contains("too old: it supports CUDA") {
        "Install driver R545 or newer; the CUDA toolkit is not needed."
    } else if why.contains("compute capability") {
        "The GPU is older than Turing (2018), and cannot run the kernels."
    } else if why.contains("feature 'cuda'") {
        "Build with the feature 'cuda', which is on by default."
    } else if why.contains("finds no GPU") {
        "The driver is there and finds no GPU: nvidia-smi says more. In a container, start it with --gpus all."
    } else {
        ""
    };
    format!(
        "Without a GPU, range, interval and set joins run on the CPU backend; equi-joins and aggregations stay DataFusion's.\n{advice}"
    )
    .trim_end()
    .to_string()
}
