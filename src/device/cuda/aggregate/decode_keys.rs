//! Decodes the keys of groups from their ids by direct address, or from the words of packed keys: digits become values
//! again (`kernels/aggregate/group_range.cu`).

use std::sync::Arc;

use crate::device::cuda::aggregate::direct_keys::{Digits, DirectKeys};
use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::layout::{bitmap_bytes, width};
use crate::device::cuda::columns::minmax::Number;
use crate::device::cuda::equi::materialize;
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::runtime::arguments::{EitherWidth, U32, U64};
use crate::device::cuda::runtime::kernels::{self, Kernel};
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::column::Column;
use crate::error::Result;

/// The key columns of the groups with these numbers, or with 0, 1, … where there are none.
pub(crate) fn direct_keys(
    stream: &Arc<Stream>,
    keys: &DirectKeys<'_>,
    numbers: Option<&(Memory, Width)>,
    groups: usize,
) -> Result<Vec<Column>> {
    let mut stride = 1u64;
    let of_column = |(number, digits): &(Number<'_>, Digits)| {
        let at = stride;
        stride *= digits.digits();
        of_digits(stream, *number, *digits, at, numbers, groups)
    };
    keys.0.iter().map(of_column).collect()
}

/// The key column of the values that a directory found.
pub(crate) fn found_keys(
    stream: &Arc<Stream>,
    of: Number<'_>,
    values: Memory,
    groups: usize,
) -> Result<Column> {
    // The allocation was for the directory's capacity, not for the groups found.
    let bytes = width(&of.values.data_type).unwrap_or_default() * groups;
    let values = materialize::shrunk(stream, values, bytes)?;
    made_column(stream, of, values, None, groups)
}

fn made_column(
    stream: &Arc<Stream>,
    of: Number<'_>,
    values: Memory,
    valid: Option<Memory>,
    groups: usize,
) -> Result<Column> {
    let values = Values {
        data_type: of.values.data_type.clone(),
        values,
        valid,
        original: None,
        made: Some(stream.mark()?),
    };
    Ok(Column::cuda(values, groups))
}

/// The values of a column from its digits in the numbers of groups.
fn of_digits(
    stream: &Arc<Stream>,
    number: Number<'_>,
    digits: Digits,
    stride: u64,
    numbers: Option<&(Memory, Width)>,
    groups: usize,
) -> Result<Column> {
    let digit = Digit {
        stride,
        digits,
        groups,
    };
    let (values, valid) = match numbers {
        Some((numbers, Width::Eight)) => digit.decode(stream, number, Some(numbers), &LONG)?,
        Some((numbers, Width::Four)) => digit.decode(stream, number, Some(numbers), &SHORT)?,
        None => digit.decode(stream, number, None, &SHORT)?,
    };
    made_column(stream, number, values, valid, groups)
}

/// The kernels for numbers of groups of width `N`: [`U32`] or [`U64`].
struct Decoders<N> {
    /// Numbers and how many, a digit, the digit's stride and how many digits there are, whether to invert, and a bitmap.
    bits: Kernel<(U64, U32, N, N, N, U32, U64)>,
    /// For values of 8, 16, 32 and 64 bits.
    keys: [KeyDecoder<N>; 4],
}

/// Numbers and how many, sign and least value, the digit of a NULL, the digit's stride and how many digits there are, and
/// values.
type KeyDecoder<N> = Kernel<(U64, U32, U64, U64, N, N, N, U64)>;

const SHORT: Decoders<U32> = Decoders {
    bits: kernels::GROUP_RANGE_BITS,
    keys: [
        kernels::GROUP_RANGE_KEYS8,
        kernels::GROUP_RANGE_KEYS16,
        kernels::GROUP_RANGE_KEYS32,
        kernels::GROUP_RANGE_KEYS64,
    ],
};

const LONG: Decoders<U64> = Decoders {
    bits: kernels::GROUP_RANGE_LONG_BITS,
    keys: [
        kernels::GROUP_RANGE_LONG_KEYS8,
        kernels::GROUP_RANGE_LONG_KEYS16,
        kernels::GROUP_RANGE_LONG_KEYS32,
        kernels::GROUP_RANGE_LONG_KEYS64,
    ],
};

/// A column's digit in the numbers of `groups` groups.
struct Digit {
    stride: u64,
    digits: Digits,
    groups: usize,
}

impl Digit {
    /// The values, and their validity.
    fn decode<N: EitherWidth>(
        &self,
        stream: &Arc<Stream>,
        number: Number<'_>,
        numbers: Option<&Memory>,
        decoders: &Decoders<N>,
    ) -> Result<(Memory, Option<Memory>)> {
        let null = self.digits.values;
        let values = match number.sign {
            None => self.bits(stream, numbers, decoders, (1, false))?,
            Some(sign) => {
                let kernel = number.kernel(decoders.keys)?;
                let bytes = width(&number.values.data_type).unwrap_or_default() * self.groups;
                let values = stream.alloc(bytes, "group keys")?;
                let args = (
                    numbers.into(),
                    (self.groups as u32).into(),
                    sign.into(),
                    self.digits.least.into(),
                    N::of(null),
                    N::of(self.stride),
                    N::of(self.digits.digits()),
                    (&values).into(),
                );
                // SAFETY: `numbers`, if there are any, holds a number of the kernel's width for each group, and
                // `values` a value of the kernel's width for each.
                unsafe { stream.launch(kernel, Shape::rows(self.groups), &args)? };
                values
            }
        };
        let valid = match self.digits.nullable {
            true => Some(self.bits(stream, numbers, decoders, (null, true))?),
            false => None,
        };
        Ok((values, valid))
    }

    /// A bitmap of the groups with this digit, or with `invert` of those without it.
    fn bits<N: EitherWidth>(
        &self,
        stream: &Arc<Stream>,
        numbers: Option<&Memory>,
        decoders: &Decoders<N>,
        (digit, invert): (u64, bool),
    ) -> Result<Memory> {
        let bits = stream.alloc(bitmap_bytes(self.groups), "group keys")?;
        let args = (
            numbers.into(),
            (self.groups as u32).into(),
            N::of(digit),
            N::of(self.stride),
            N::of(self.digits.digits()),
            u32::from(invert).into(),
            (&bits).into(),
        );
        // SAFETY: `numbers`, if there are any, holds a number of the kernel's width for each group, and `bits` a bit for
        // each.
        unsafe { stream.launch(decoders.bits, Shape::rows(self.groups), &args)? };
        Ok(bits)
    }
}
