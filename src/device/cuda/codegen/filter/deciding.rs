//! [`FilterTest`]: what a filter keeps rows by, with its arguments.

use crate::device::cuda::columns::minmax::Number;
use crate::device::cuda::runtime::arguments::U64;
use crate::device::cuda::runtime::kernel_cache::form::KeyTest;
use crate::device::cuda::runtime::kernel_cache::generated::Parameter;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::data::key_bitmap::Digits;

/// The arguments of a test by a bitmap of keys.
pub(crate) struct KeyTestArguments<'a> {
    pub test: KeyTest,
    pub(crate) bits: &'a Memory,
    pub(crate) numbers: &'a [Number<'a>],
    pub(crate) digits: &'a [Digits],
}

impl KeyTestArguments<'_> {
    /// The argument of a parameter of the test.
    pub(crate) fn arg(&self, parameter: Parameter) -> U64 {
        let of = |at: usize| &self.digits[at];
        match parameter {
            Parameter::Least(at) => {
                // As a value: words are order keys, whose sign bit is flipped.
                let sign = self.numbers[at].sign.unwrap_or_default();
                of(at).least.wrapping_sub(sign).into()
            }
            Parameter::Digits(at) => u64::from(of(at).values).into(),
            Parameter::NullDigit(at) => u64::from(of(at).null.unwrap_or_default()).into(),
            Parameter::Stride(at) => u64::from(of(at).stride).into(),
            _ => self.bits.into(),
        }
    }
}

/// What decides whether a row passes.
#[derive(Clone, Copy, Default)]
pub(crate) enum FilterTest<'a> {
    #[default]
    Program,
    Bits(&'a KeyTestArguments<'a>),
    Run,
}
