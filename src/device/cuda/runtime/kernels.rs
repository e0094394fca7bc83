//! The kernels of `kernels/`, by name: `build.rs` reads the PTX and writes a constant for each of its entries, such as
//! `ROWS_GATHER32: Kernel<(U64, U64, U64, U32)>` for `rows_gather32` of `kernels/columns/rows.cu`. The type says the
//! parameters. A name without a kernel does not compile, and a kernel without a caller is dead code.
//!
//! Machine code has the same parameters: `scripts/ptx.sh --check` compares the PTX with the sources, and `kernels/machine` with the PTX.

#![allow(
    clippy::type_complexity,
    reason = "the type of a kernel lists all of its parameters"
)]

use std::fmt::{self, Debug, Formatter};
use std::marker::PhantomData;

use cudarc::driver::CudaFunction;

use crate::device::cuda::runtime::arguments::{ByValue, U32, U64};

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
    code: &'static [u8],
}

/// The first version of the driver's interface that loads the code in [`MACHINE_CODE`]: that of the compiler which made it.
const FIRST_DRIVER: i32 = 13_000;

/// Integrated processors of a generation, which do not run the code of its other cards.
const INTEGRATED: [(i32, i32); 2] = [(8, 7), (10, 1)];

/// The code of a family that a card of this `capability` runs under a driver of this version; `None` where the driver has to translate PTX.
pub(crate) fn machine_code(
    family: Family,
    (major, minor): (i32, i32),
    driver: i32,
) -> Option<Vec<u8>> {
    if driver < FIRST_DRIVER || INTEGRATED.contains(&(major, minor)) {
        return None;
    }
    let runs = |code: &&MachineCode| {
        code.family == family && code.capability.0 == major && code.capability.1 <= minor
    };
    let best = MACHINE_CODE.iter().filter(runs);
    let best = best.max_by_key(|code| code.capability.1)?;
    let mut unpacked = vec![];
    match lzma_rs::xz_decompress(&mut &*best.code, &mut unpacked) {
        Ok(()) => Some(unpacked),
        Err(error) => {
            log::warn!("the machine code of {} is damaged: {error}", family.name());
            None
        }
    }
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
