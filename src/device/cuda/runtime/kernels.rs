//! The kernels of `kernels/`, by name: `build.rs` reads the PTX and writes a constant for each of its entries, such as
//! `ROWS_GATHER32: Kernel<(U64, U64, U64, U32)>` for `rows_gather32` of `kernels/columns/rows.cu`. The type says the
//! parameters. A name without a kernel does not compile, and a kernel without a caller is dead code.
//!
//! The machine code of a build with `BOWTIE_CUDA_ARCHS` has the same parameters: `scripts/ptx.sh --check` compares the
//! PTX with the sources.

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
