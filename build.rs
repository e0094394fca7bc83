//! Embeds the kernels, which the feature `cuda` needs.
//!
//! By default the PTX in `kernels/ptx`, which the driver translates for the card at hand: no CUDA toolkit is needed, to
//! build or to run. With `BOWTIE_CUDA_ARCHS` (such as `sm_80,sm_90`) and an nvcc (`NVCC`, or on the path) the kernels are
//! compiled for those architectures instead, and start without that translation.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What PTX is made for, but where a family's source names a newer one: Turing, and every later architecture.
const LEAST_ARCH: &str = "compute_75";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return;
    }
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    let archs = env::var("BOWTIE_CUDA_ARCHS")
        .ok()
        .filter(|archs| !archs.is_empty());
    println!("cargo:rerun-if-env-changed=BOWTIE_CUDA_ARCHS");
    println!("cargo:rerun-if-env-changed=NVCC");
    println!("cargo:rerun-if-changed=kernels");

    let mut families = String::from(
        "/// The kernel families: PTX text, or machine code for some architectures.\n",
    );
    families.push_str("static FAMILIES: &[(&str, &[u8])] = &[\n");
    for (family, source) in kernel_families(&root.join("kernels")) {
        let image = match &archs {
            Some(archs) => compile(&root, &out, &family, &source, archs),
            None => copy(&root, &out, &family),
        };
        // By way of OUT_DIR: a checkout may move and keep what was built.
        writeln!(
            families,
            "    ({family:?}, include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{image}\"))),"
        )
        .expect("writing to a string");
    }
    families.push_str("];\n\n/// What the kernels were built as.\n");
    let build = archs.map_or("PTX".into(), |archs| format!("SASS for {archs}"));
    writeln!(families, "pub(crate) const KERNEL_BUILD: &str = {build:?};")
        .expect("writing to a string");
    fs::write(out.join("kernel_families.rs"), families)
        .expect("the build directory can be written");
}

/// The kernel families: the name of each file `*.cu` in the folders below `directory`, and its path; sorted by name.
fn kernel_families(directory: &Path) -> BTreeMap<String, PathBuf> {
    let mut families = BTreeMap::new();
    let entries = fs::read_dir(directory).expect("the repository has a directory kernels");
    for path in entries.map(|entry| entry.expect("it can be read").path()) {
        if path.is_dir() {
            families.append(&mut kernel_families(&path));
        } else if path.extension().is_some_and(|extension| extension == "cu") {
            let name = path.file_stem().and_then(|name| name.to_str());
            families.insert(name.expect("its name is ASCII").to_owned(), path);
        }
    }
    families
}

/// The repository's PTX of a family; returns the name of the file in `out`.
fn copy(root: &Path, out: &Path, family: &str) -> String {
    let name = format!("{family}.ptx");
    fs::copy(root.join("kernels/ptx").join(&name), out.join(&name)).unwrap_or_else(|e| {
        panic!("kernels/ptx/{name} cannot be copied ({e}): scripts/ptx.sh makes it")
    });
    name
}

/// Machine code of a family for the architectures, and PTX for cards that are newer; returns the name of the file in `out`.
fn compile(root: &Path, out: &Path, family: &str, source: &Path, archs: &str) -> String {
    let nvcc = env::var("NVCC").unwrap_or_else(|_| "nvcc".into());
    let name = format!("{family}.fatbin");
    let mut command = Command::new(&nvcc);
    command.args(["-std=c++17", "-O3", "-fatbin", "-I"]);
    command.arg(root.join("kernels"));
    command.arg("-o").arg(out.join(&name)).arg(source);
    let least = least_arch(source);
    for arch in archs.split(',') {
        let number = arch.trim().trim_start_matches("sm_");
        // A family that older cards do not know is never loaded there.
        if generation(number) >= generation(&least) {
            command.arg(format!("-gencode=arch=compute_{number},code=sm_{number}"));
        }
    }
    command.arg(format!("-gencode=arch={least},code={least}"));
    let status = command.status().unwrap_or_else(|e| {
        panic!("BOWTIE_CUDA_ARCHS is set, but {nvcc} does not start ({e}): set NVCC to its path")
    });
    assert!(
        status.success(),
        "{nvcc} could not compile {}",
        source.display()
    );
    name
}

/// What a family's PTX is made for: its source may say `// For compute_80.`
fn least_arch(source: &Path) -> String {
    let text = fs::read_to_string(source).unwrap_or_else(|e| panic!("{}: {e}", source.display()));
    text.lines()
        .find_map(|line| line.strip_prefix("// For compute_")?.strip_suffix('.'))
        .map_or(LEAST_ARCH.into(), |number| format!("compute_{number}"))
}

/// The number of an architecture such as `compute_90` or `100f`.
fn generation(arch: &str) -> u32 {
    let digits = arch.trim_start_matches("compute_");
    let end = digits.find(|c: char| !c.is_ascii_digit());
    let number = digits[..end.unwrap_or(digits.len())].parse();
    number.unwrap_or_else(|_| {
        panic!("BOWTIE_CUDA_ARCHS names {arch:?}: it is a list such as `80,90` or `sm_90`")
    })
}
