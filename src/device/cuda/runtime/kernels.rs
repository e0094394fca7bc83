//! The kernels of `kernels/`, by name: `build.rs` reads the declarations of `kernels/packed` and writes a constant for each, such as
//! `ROWS_GATHER32: Kernel<(U64, U64, U64, U32)>` for `rows_gather32` of `kernels/columns/rows.cu`. The type says the
//! parameters. A name without a kernel does not compile, and a kernel without a caller is dead code.
//!
//! Machine code has the same parameters: `scripts/ptx.sh --check` compares the packs with what the sources compile to.

#![allow(
    clippy::type_complexity,
    reason = "the type of a kernel lists all of its parameters"
)]

use std::fmt::{self, Debug, Formatter};
use std::marker::PhantomData;

use cudarc::driver::CudaFunction;
use cudarc::nvrtc::Ptx;

use crate::device::cuda::runtime::arguments::{ByValue, U32, U64};
use crate::error::{BowtieError, Result};

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// A kernel with arguments `A`, a tuple (`arguments.rs`).
pub(crate) struct Kernel<A> {
    pub(crate) entry: Entry,
    /// Covariant, so that a constant's structures are of any lifetime.
    arguments: PhantomData<fn() -> A>,
}

/// An entry of the PTX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) family: Family,
    /// Its number among the entries of all families: below [`ENTRIES`].
    pub(crate) index: usize,
    pub(crate) name: &'static str,
}

/// The code of a family for one architecture, compressed by xz.
#[derive(Debug)]
pub(crate) struct MachineCode {
    family: Family,
    /// The compute capability, major and minor.
    capability: (i32, i32),
    /// The first version of the driver's interface that loads it: that of the assembler which made it.
    first_driver: i32,
    code: &'static [u8],
}

/// Integrated processors of a generation, which do not run the code of its other cards.
const INTEGRATED: [(i32, i32); 2] = [(8, 7), (10, 1)];

/// The code of a family that a card of this `capability` runs under a driver of this version; `None` where the driver has to translate PTX.
pub(crate) fn machine_code(
    family: Family,
    (major, minor): (i32, i32),
    driver: i32,
) -> Option<Vec<u8>> {
    if INTEGRATED.contains(&(major, minor)) {
        return None;
    }
    let runs = |code: &&MachineCode| {
        let is_of_generation = code.capability.0 == major && code.capability.1 <= minor;
        code.family == family && is_of_generation && code.first_driver <= driver
    };
    let best = MACHINE_CODE.iter().filter(runs);
    let best = best.max_by_key(|code| code.capability.1)?;
    let name = family.name();
    let code = unpacked(best.code);
    code.inspect_err(|why| log::warn!("the machine code of {name} is damaged: {why}"))
        .ok()
}

/// What the driver can load for any card: PTX, or the machine code of a build with `BOWTIE_CUDA_ARCHS`.
///
/// # Errors
/// [`BowtieError::Internal`] where the library is damaged.
pub(crate) fn image(family: Family) -> Result<Ptx> {
    let image = family.image();
    if !image.starts_with(XZ) {
        return Ok(Ptx::from_binary(image.to_vec()));
    }
    let text = unpacked(image).and_then(|text| String::from_utf8(text).map_err(|e| e.to_string()));
    let name = family.name();
    text.map(Ptx::from_src)
        .map_err(|why| BowtieError::Internal(format!("the PTX of {name} is damaged: {why}")))
}

/// What a file compressed by xz begins with.
const XZ: &[u8] = b"\xfd7zXZ\0";

/// Decompresses code, or says why it cannot be.
fn unpacked(code: &[u8]) -> Result<Vec<u8>, String> {
    let mut unpacked = vec![];
    let done = lzma_rs::xz_decompress(&mut &*code, &mut unpacked);
    done.map_err(|error| error.to_string())?;
    Ok(unpacked)
}

/// A kernel that was made at run time (`codegen`). All of its parameters have 64 bits.
#[derive(Debug)]
pub(crate) struct GeneratedKernel {
    pub(crate) function: CudaFunction,
    /// The number of parameters that its PTX declares.
    pub(crate) parameters: usize,
}

/// A kernel of family `widen`: narrow values, wide values, and their number.
pub(crate) type Widening = Kernel<(U64, U64, U32)>;

impl<A> Kernel<A> {
    const fn new(family: Family, index: usize, name: &'static str) -> Self {
        Self {
            entry: Entry {
                family,
                index,
                name,
            },
            arguments: PhantomData,
        }
    }
}

impl<A> Clone for Kernel<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Kernel<A> {}

impl<A> Debug for Kernel<A> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.entry.name)
    }
}

/// Bytes and alignment of each parameter of a kernel.
#[cfg(test)]
const fn arguments_of<A: super::arguments::Arguments>(_: Kernel<A>) -> &'static [(usize, usize)] {
    A::LAYOUTS
}

#[cfg(test)]
mod tests;
