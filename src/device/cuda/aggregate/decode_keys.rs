//! Decodes the keys of groups from their ids by direct address, or from the words of packed keys: digits become values
//! again (`kernels/aggregate/group_range.cu`).

use std::sync::Arc;

use crate::device::cuda::aggregate::direct_keys::{Digits, DirectKeys};
use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::layout::{bitmap_bytes, width};
use crate::device::cuda::columns::minmax::Number;
use crate::device::cuda::keys::key_width::KeyWidth;
use crate::device::cuda::runtime::launch::{Arg, Shape};
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::column::Column;
use crate::error::{BowtieError, Result};

impl Stream {
    /// The key columns of the groups with these numbers, or with 0, 1, … where there are none.
    pub(crate) fn direct_keys(
        self: &Arc<Self>,
        keys: &DirectKeys<'_>,
        numbers: Option<&(Memory, KeyWidth)>,
        groups: usize,
    ) -> Result<Vec<Column>> {
        let mut stride = 1u64;
        let of_column = |(number, digits): &(Number<'_>, Digits)| {
            let at = stride;
            stride *= digits.digits();
            self.of_digits(*number, *digits, at, numbers, groups)
        };
        keys.0.iter().map(of_column).collect()
    }

    /// The key column of the values that a directory found.
    pub(crate) fn found_keys(
        self: &Arc<Self>,
        of: Number<'_>,
        values: Memory,
        groups: usize,
    ) -> Result<Column> {
        // The allocation was for the directory's capacity, not for the groups found.
        let bytes = width(&of.values.data_type).unwrap_or_default() * groups;
        let values = self.shrunk(values, bytes)?;
        self.made_column(of, values, None, groups)
    }

    fn made_column(
        self: &Arc<Self>,
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
            made: Some(self.mark()?),
        };
        Ok(Column::cuda(values, groups))
    }

    fn of_digits(
        self: &Arc<Self>,
        number: Number<'_>,
        digits: Digits,
        stride: u64,
        numbers: Option<&(Memory, KeyWidth)>,
        groups: usize,
    ) -> Result<Column> {
        let (null, all) = (digits.values, digits.digits());
        let long = matches!(numbers, Some((_, KeyWidth::B64)));
        let numbers = numbers.map(|(numbers, _)| numbers);
        // Of the width of the numbers.
        let arg = |number: u64| match long {
            true => Arg::from(number),
            false => Arg::from(number as u32),
        };
        let bits = |digit: u64, invert: bool| {
            let bits = self.alloc(bitmap_bytes(groups), "group keys")?;
            let args: [Arg; 7] = [
                numbers.into(),
                (groups as u32).into(),
                arg(digit),
                arg(stride),
                arg(all),
                u32::from(invert).into(),
                (&bits).into(),
            ];
            let kernel = match long {
                true => "group_range_long_bits",
                false => "group_range_bits",
            };
            // SAFETY: `numbers`, if there are any, holds a number of the kernel's width for each group, and `bits` a
            // bit for each.
            unsafe { self.launch(kernel, Shape::rows(groups), &args)? };
            Ok::<_, BowtieError>(bits)
        };
        let values = match number.sign {
            None => bits(1, false)?,
            Some(sign) => {
                let kernel = number.kernel(match long {
                    true => [
                        "group_range_long_keys8",
                        "group_range_long_keys16",
                        "group_range_long_keys32",
                        "group_range_long_keys64",
                    ],
                    false => [
                        "group_range_keys8",
                        "group_range_keys16",
                        "group_range_keys32",
                        "group_range_keys64",
                    ],
                })?;
                let bytes = width(&number.values.data_type).unwrap_or_default() * groups;
                let values = self.alloc(bytes, "group keys")?;
                let args: [Arg; 8] = [
                    numbers.into(),
                    (groups as u32).into(),
                    sign.into(),
                    digits.least.into(),
                    arg(null),
                    arg(stride),
                    arg(all),
                    (&values).into(),
                ];
                // SAFETY: `numbers`, if there are any, holds a number of the kernel's width for each group, and
                // `values` a value of the kernel's width for each.
                unsafe { self.launch(kernel, Shape::rows(groups), &args)? };
                values
            }
        };
        let valid = match digits.nullable {
            true => Some(bits(null, true)?),
            false => None,
        };
        self.made_column(number, values, valid, groups)
    }
}
