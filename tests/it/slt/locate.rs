//! Where the test files are.

use std::path::PathBuf;
use std::process::Command;

const CRATE: &str = "datafusion-sqllogictest";

/// The source directory of the crate: `BOWTIE_SLT_DIR`, or where cargo keeps it.
pub(super) fn crate_directory() -> Result<PathBuf, String> {
    if let Some(directory) = std::env::var_os("BOWTIE_SLT_DIR") {
        return with_test_files(PathBuf::from(directory));
    }
    let metadata = cargo(&[
        "metadata",
        "--format-version=1",
        "--offline",
        // Without it cargo wants the packages of all platforms.
        &format!("--filter-platform={}", host()?),
    ])?;
    // One field of a long JSON text is wanted.
    let manifest = metadata
        .split(r#""manifest_path":""#)
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .map(|path| PathBuf::from(path.replace(r"\\", r"\")))
        .find(|path| {
            path.parent()
                .and_then(|directory| directory.file_name())
                .is_some_and(|name| name.to_string_lossy().starts_with(CRATE))
        })
        .ok_or_else(|| format!("cargo metadata knows no {CRATE}"))?;
    with_test_files(manifest.parent().unwrap().to_path_buf())
}

fn with_test_files(directory: PathBuf) -> Result<PathBuf, String> {
    match directory.join("test_files").is_dir() {
        true => Ok(directory),
        false => Err(format!("{} has no folder test_files", directory.display())),
    }
}

fn host() -> Result<String, String> {
    cargo(&["-vV"])?
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(ToString::to_string)
        .ok_or_else(|| "cargo -vV names no host".into())
}

fn cargo(arguments: &[&str]) -> Result<String, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(&cargo)
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .map_err(|e| format!("{cargo}: {e}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!(
            "{cargo} {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}
