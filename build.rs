//! Embeds the kernels, which the feature `cuda` needs, and writes a typed constant for each
//! (`src/device/cuda/runtime/kernels.rs`), whose parameters it reads from the declarations in its family's pack.
//!
//! By default these are the packs of `kernels/packed`: the machine code of common architectures, and the PTX, which the driver translates for other
//! cards. No CUDA toolkit is needed, to build or to run. With `BOWTIE_CUDA_ARCHS` (such as `sm_80,sm_90`) and an nvcc (`NVCC`, or on the path) the
//! kernels are compiled for those architectures instead, and start without that translation.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ptx_entries::{PtxEntry, PtxParameter, entries};

#[path = "src/device/cuda/runtime/ptx_entries.rs"]
mod ptx_entries;

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
    println!("cargo:rerun-if-changed=src/device/cuda/runtime/ptx_entries.rs");

    let families: Vec<Family> = kernel_families(&root.join("kernels"))
        .into_iter()
        .map(|(name, source)| {
            let mut pack = unpack(&root.join("kernels/packed"), &name, &out);
            if let Some(archs) = &archs {
                pack.image = compile(&root, &out, &name, &source, archs);
                pack.machine.clear();
            }
            pack
        })
        .collect();
    let build = archs.map_or_else(
        || {
            let mut known: Vec<u32> = families
                .iter()
                .flat_map(|family| &family.machine)
                .map(|code| code.architecture)
                .collect();
            known.sort_unstable();
            known.dedup();
            let names = known.iter().map(|number| format!("sm_{number}"));
            format!("SASS for {}; PTX", names.collect::<Vec<_>>().join(", "))
        },
        |archs| format!("SASS for {archs}"),
    );
    let constants = constants(&families, &build).expect("writing to a string");
    fs::write(out.join("kernels.rs"), constants).expect("the build directory can be written");
}

/// The kernels of one source file: one image, which the driver loads as one module.
struct Family {
    name: String,
    /// The name of the image's file in OUT_DIR.
    image: String,
    machine: Vec<Packed>,
    entries: Vec<PtxEntry>,
}

/// The compressed machine code of a family for one architecture.
struct Packed {
    /// 90 for `sm_90`.
    architecture: u32,
    /// The first version of the driver's interface that takes it, such as 12030.
    first_driver: u32,
    /// The name of its file in OUT_DIR.
    file: String,
}

/// Takes what `scripts/kernel_packs.py` packs of a family apart, to files of compressed code in `out`.
fn unpack(directory: &Path, family: &str, out: &Path) -> Family {
    let path = directory.join(family);
    let data = fs::read(&path)
        .unwrap_or_else(|e| panic!("{}: {e}; scripts/ptx.sh makes it", path.display()));
    let damaged =
        |what: &str| -> ! { panic!("{}: {what}; scripts/ptx.sh makes it", path.display()) };
    // The index, the declarations of the kernels, and the code: an empty line ends each text.
    let mut from = 0;
    let mut text = || {
        let length = data[from..].windows(2).position(|two| two == b"\n\n");
        let length = length.unwrap_or_else(|| damaged("a text does not end"));
        let text = str::from_utf8(&data[from..from + length]);
        from += length + 2;
        text.unwrap_or_else(|_| damaged("a text is not ASCII"))
    };
    let (index, declarations) = (text(), text());
    let entries = entries(declarations).unwrap_or_else(|e| damaged(&e));
    assert!(!entries.is_empty(), "{} has no kernel", path.display());

    let number = |digits: &str| {
        let number = digits.parse::<u32>();
        number.unwrap_or_else(|_| damaged("the index has a word that should be a number"))
    };
    let mut unpacked = Family {
        name: family.to_owned(),
        image: String::new(),
        machine: vec![],
        entries,
    };
    for line in index.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, version, bytes] = words[..] else {
            damaged("the index has a line that is not `name version bytes`")
        };
        let to = from + number(bytes) as usize;
        let file = format!("{name}_{family}");
        let code = data.get(from..to);
        let code = code.unwrap_or_else(|| damaged("code is missing"));
        fs::write(out.join(&file), code).expect("the build directory can be written");
        from = to;
        let Some(architecture) = name.strip_prefix("sm_") else {
            unpacked.image = file;
            continue;
        };
        let Some((major, minor)) = version.split_once('.') else {
            damaged("a version of CUDA does not have two numbers")
        };
        unpacked.machine.push(Packed {
            architecture: number(architecture),
            first_driver: number(major) * 1000 + number(minor) * 10,
            file,
        });
    }
    if from != data.len() {
        damaged("there are bytes behind the last code");
    }
    assert!(!unpacked.image.is_empty(), "{} has no PTX", path.display());
    unpacked
}

/// The generated part of `kernels.rs`: the families with their images, and a constant for each entry. Constants that are
/// not used are dead code, which the compiler names.
fn constants(families: &[Family], build: &str) -> Result<String, std::fmt::Error> {
    let mut variants = String::new();
    let mut names = String::new();
    let mut images = String::new();
    let mut kernels = String::new();
    let mut all = String::new();
    let mut index = 0;
    for Family {
        name,
        image,
        machine: _,
        entries,
    } in families
    {
        let variant = camel_case(name);
        writeln!(variants, "    {variant},")?;
        writeln!(names, "            Self::{variant} => {name:?},")?;
        // By way of OUT_DIR: a checkout may move and keep what was built.
        writeln!(
            images,
            "            Self::{variant} => include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{image}\")),"
        )?;
        for PtxEntry {
            name: kernel,
            parameters,
        } in entries
        {
            let constant = kernel.to_uppercase();
            let arguments: Vec<String> = parameters.iter().map(argument).collect();
            let arguments = arguments.join(", ");
            writeln!(
                kernels,
                "\n/// `{kernel}` of `{name}.cu`.\npub(crate) const {constant}: Kernel<({arguments},)> =\n    Kernel::new(Family::{variant}, {index}, {kernel:?});"
            )?;
            writeln!(all, "    ({constant}.entry, arguments_of({constant})),")?;
            index += 1;
        }
    }
    let count = families.len();
    let mut code = String::new();
    for family in families {
        let variant = camel_case(&family.name);
        for packed in &family.machine {
            let (major, minor) = (packed.architecture / 10, packed.architecture % 10);
            writeln!(
                code,
                "    MachineCode {{ family: Family::{variant}, capability: ({major}, {minor}), first_driver: {}, \
                 code: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{}\")) }},",
                packed.first_driver, packed.file
            )?;
        }
    }
    Ok(format!(
        "/// A family of kernels: one source file, which the driver loads as one module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {{
{variants}}}

/// The number of families.
pub(crate) const FAMILIES: usize = {count};

/// The number of kernels of all families.
pub(crate) const ENTRIES: usize = {index};

/// What the kernels were built as.
pub(crate) const KERNEL_BUILD: &str = {build:?};

impl Family {{
    /// The name of its source file.
    pub(crate) fn name(self) -> &'static str {{
        match self {{
{names}        }}
    }}

    /// PTX text compressed by xz, or machine code for some architectures.
    pub(crate) fn image(self) -> &'static [u8] {{
        match self {{
{images}        }}
    }}
}}
/// Machine code of families, by family and compute capability.
pub(crate) static MACHINE_CODE: &[MachineCode] = &[
{code}];
{kernels}
/// All kernels, with bytes and alignment of each parameter.
#[cfg(test)]
static ALL: [(Entry, &[(usize, usize)]); ENTRIES] = [
{all}];
"
    ))
}

/// A parameter as an element of the tuple of a kernel's arguments.
fn argument(parameter: &PtxParameter) -> String {
    match parameter {
        PtxParameter::U32 => "U32".into(),
        PtxParameter::U64 => "U64".into(),
        PtxParameter::ByValue { bytes, align } => format!("ByValue<'static, {bytes}, {align}>"),
    }
}

/// `group_part` as `GroupPart`.
fn camel_case(name: &str) -> String {
    let word = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_uppercase() + rest
    };
    name.split('_').map(word).collect()
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
