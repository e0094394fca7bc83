//! Embeds the kernels, which the feature `cuda` needs, and writes a typed constant for each
//! (`src/device/cuda/runtime/kernels.rs`), whose parameters it reads from the PTX.
//!
//! By default the machine code of common architectures in `kernels/machine`, and there the PTX, which the driver
//! translates for other cards: no CUDA toolkit is needed, to build or to run. With `BOWTIE_CUDA_ARCHS` (such as `sm_80,sm_90`) and an nvcc (`NVCC`, or on the path) the kernels are
//! compiled for those architectures instead, and start without that translation.

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

    let mut packed = packed(&root.join("kernels/machine"), &out);
    let ptx = packed.iter().position(|packed| packed.name == "ptx");
    let ptx = packed.remove(ptx.expect("kernels/machine has the PTX: scripts/ptx.sh makes it"));
    let families: Vec<Family> = kernel_families(&root.join("kernels"))
        .into_iter()
        .map(|(name, source)| Family {
            image: match &archs {
                Some(archs) => compile(&root, &out, &name, &source, archs),
                None => ptx.file(&name),
            },
            // Machine code has the parameters of the PTX, which is of the same sources.
            entries: ptx_of(&root, &name),
            name,
        })
        .collect();
    let machine = match &archs {
        Some(_) => vec![],
        None => packed,
    };
    let build = archs.map_or_else(
        || {
            let architectures = machine.iter().map(|machine| machine.name.as_str());
            format!(
                "SASS for {}; PTX",
                architectures.collect::<Vec<_>>().join(", ")
            )
        },
        |archs| format!("SASS for {archs}"),
    );
    let constants = constants(&families, &machine, &build).expect("writing to a string");
    fs::write(out.join("kernels.rs"), constants).expect("the build directory can be written");
}

/// The kernels of one source file: one image, which the driver loads as one module.
struct Family {
    name: String,
    /// The name of the image's file in OUT_DIR.
    image: String,
    entries: Vec<PtxEntry>,
}

/// The compressed code of one architecture, or the PTX.
struct Packed {
    /// Such as `sm_90`, or `ptx`.
    name: String,
    /// The first version of the driver's interface that takes it, such as 12030.
    first_driver: u32,
    /// Families that are there; each is a file in OUT_DIR.
    families: Vec<String>,
}

impl Packed {
    /// The name of a family's file in OUT_DIR.
    fn file(&self, family: &str) -> String {
        assert!(
            self.families.iter().any(|known| known == family),
            "kernels/machine/{} lacks {family}: scripts/ptx.sh makes it",
            self.name
        );
        format!("{}_{family}", self.name)
    }
}

/// Unpacks what `scripts/machine_code.py` packs, to files of compressed code in `out`.
fn packed(directory: &Path, out: &Path) -> Vec<Packed> {
    let files = fs::read_dir(directory).expect("the repository has a directory kernels/machine");
    let mut files: Vec<PathBuf> = files
        .map(|file| file.expect("it can be read").path())
        .collect();
    files.sort();
    let unpack = |path: PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.expect("its name is ASCII").to_owned();
        let data = fs::read(&path).expect("it can be read");
        let end = data.windows(2).position(|two| two == b"\n\n");
        let end = end.unwrap_or_else(|| panic!("{} has no index", path.display()));
        let index = str::from_utf8(&data[..end]).expect("the index is ASCII");
        let mut lines = index.lines();
        let version = lines.next().and_then(|version| version.split_once('.'));
        let (major, minor) = version.expect("the index begins with a version of CUDA");
        let number = |digits: &str| digits.parse::<u32>().expect("a number");
        let mut from = end + 2;
        let families = lines.map(|line| {
            let (family, bytes) = line.split_once(' ').expect("`family bytes`");
            let to = from + bytes.parse::<usize>().expect("a number of bytes");
            let file = out.join(format!("{name}_{family}"));
            fs::write(file, &data[from..to]).expect("the build directory can be written");
            from = to;
            family.to_owned()
        });
        Packed {
            families: families.collect(),
            first_driver: number(major) * 1000 + number(minor) * 10,
            name,
        }
    };
    files.into_iter().map(unpack).collect()
}

/// The entries of a family's PTX in the repository.
fn ptx_of(root: &Path, family: &str) -> Vec<PtxEntry> {
    let path = root.join(format!("kernels/ptx/{family}.ptx"));
    let text = fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("{}: {e}; scripts/ptx.sh makes it", path.display()));
    let entries = entries(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert!(!entries.is_empty(), "{} has no kernel", path.display());
    entries
}

/// The generated part of `kernels.rs`: the families with their images, and a constant for each entry. Constants that are
/// not used are dead code, which the compiler names.
fn constants(
    families: &[Family],
    machine: &[Packed],
    build: &str,
) -> Result<String, std::fmt::Error> {
    let mut variants = String::new();
    let mut names = String::new();
    let mut images = String::new();
    let mut kernels = String::new();
    let mut all = String::new();
    let mut index = 0;
    for Family {
        name,
        image,
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
    for packed in machine {
        let architecture = packed.name.trim_start_matches("sm_");
        let (major, minor) = architecture.split_at(architecture.len() - 1);
        for family in &packed.families {
            let (variant, file) = (camel_case(family), packed.file(family));
            writeln!(
                code,
                "    MachineCode {{ family: Family::{variant}, capability: ({major}, {minor}), first_driver: {}, \
                 code: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{file}\")) }},",
                packed.first_driver
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
