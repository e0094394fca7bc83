//! Arguments of kernels: a tuple with a [`U32`], a [`U64`] or a [`ByValue`] for each parameter. The tuple type is part of
//! a kernel's constant (`kernels.rs`), so a launch with another number of arguments, or with one of another width, does
//! not compile. `.into()` makes each element: of numbers, of memory (its address), and of references to structures.

use std::ffi::c_void;
use std::marker::PhantomData;

use cudarc::driver::DeviceRepr;

/// A parameter of 32 bits (`.u32` in PTX).
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct U32(u32);

/// A parameter of 64 bits (`.u64` in PTX): a number, or an address in device memory.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct U64(u64);

/// A structure that is passed by value (`.align ALIGN .b8 [BYTES]` in PTX).
#[derive(Debug, Clone, Copy)]
pub(crate) struct ByValue<'a, const BYTES: usize, const ALIGN: usize> {
    at: *const c_void,
    structure: PhantomData<&'a ()>,
}

/// A structure of `WORDS` words of 64 bits, by value or in device memory.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Structure<const WORDS: usize>(pub(crate) [U64; WORDS]);

// SAFETY: words without padding.
unsafe impl<const WORDS: usize> DeviceRepr for Structure<WORDS> {}

impl U64 {
    /// Zero, or no address.
    pub(crate) const ZERO: Self = Self(0);
}

impl From<u32> for U32 {
    fn from(word: u32) -> Self {
        Self(word)
    }
}

impl From<u64> for U64 {
    fn from(word: u64) -> Self {
        Self(word)
    }
}

/// Two words of 32 bits, the first in the lower half.
impl From<(u32, u32)> for U64 {
    fn from((low, high): (u32, u32)) -> Self {
        Self(u64::from(low) | u64::from(high) << 32)
    }
}

impl<'a, T: DeviceRepr, const BYTES: usize, const ALIGN: usize> From<&'a T>
    for ByValue<'a, BYTES, ALIGN>
{
    fn from(structure: &'a T) -> Self {
        const {
            assert!(
                size_of::<T>() == BYTES && align_of::<T>() == ALIGN,
                "the structure has not the size and the alignment of the kernel's parameter"
            );
        }
        Self {
            at: (&raw const *structure).cast(),
            structure: PhantomData,
        }
    }
}

/// An argument of one parameter.
pub(crate) trait Argument {
    /// Bytes and alignment of the parameter.
    #[cfg(test)]
    const LAYOUT: (usize, usize);

    /// The address from which a launch copies the argument.
    fn address(&self) -> *mut c_void;
}

impl Argument for U32 {
    #[cfg(test)]
    const LAYOUT: (usize, usize) = (4, 4);

    fn address(&self) -> *mut c_void {
        (&raw const self.0).cast_mut().cast()
    }
}

impl Argument for U64 {
    #[cfg(test)]
    const LAYOUT: (usize, usize) = (8, 8);

    fn address(&self) -> *mut c_void {
        (&raw const self.0).cast_mut().cast()
    }
}

impl<const BYTES: usize, const ALIGN: usize> Argument for ByValue<'_, BYTES, ALIGN> {
    #[cfg(test)]
    const LAYOUT: (usize, usize) = (BYTES, ALIGN);

    fn address(&self) -> *mut c_void {
        self.at.cast_mut()
    }
}

/// A number as a parameter of either width, of kernels that exist for both.
pub(crate) trait EitherWidth: Argument {
    /// The lower bits of `number`: all that a kernel of this width uses.
    fn of(number: u64) -> Self;
}

impl EitherWidth for U32 {
    fn of(number: u64) -> Self {
        Self(number as u32)
    }
}

impl EitherWidth for U64 {
    fn of(number: u64) -> Self {
        Self(number)
    }
}

/// The arguments of a launch: a tuple of [`Argument`]s.
pub(crate) trait Arguments {
    /// Bytes and alignment of each parameter.
    #[cfg(test)]
    const LAYOUTS: &'static [(usize, usize)];

    /// Calls `with` with the address of each argument.
    fn with_addresses<T>(&self, with: impl FnOnce(&mut [*mut c_void]) -> T) -> T;
}

macro_rules! arguments {
    ($($argument:ident)+) => {
        impl<$($argument: Argument),+> Arguments for ($($argument,)+) {
            #[cfg(test)]
            const LAYOUTS: &'static [(usize, usize)] = &[$($argument::LAYOUT),+];

            #[allow(non_snake_case)]
            fn with_addresses<T>(&self, with: impl FnOnce(&mut [*mut c_void]) -> T) -> T {
                let ($($argument,)+) = self;
                with(&mut [$($argument.address()),+])
            }
        }
    };
}

arguments!(A B);
arguments!(A B C);
arguments!(A B C D);
arguments!(A B C D E);
arguments!(A B C D E F);
arguments!(A B C D E F G);
arguments!(A B C D E F G H);
arguments!(A B C D E F G H I);
arguments!(A B C D E F G H I J);
arguments!(A B C D E F G H I J K);
arguments!(A B C D E F G H I J K L);
arguments!(A B C D E F G H I J K L M);
arguments!(A B C D E F G H I J K L M N);
arguments!(A B C D E F G H I J K L M N O);
