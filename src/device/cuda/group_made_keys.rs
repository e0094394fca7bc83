//! Keys of groups that are known by their ids alone: what direct address took for digits is made values again (`kernels/group_range.cu`).

use std::sync::Arc;

use super::group_range::{Digits, DirectKeys};
use super::numbers::Number;
use super::queue::{Arg, Memory, Queue, Shape};
use super::rows::memory;
use super::values::{Values, bitmap_bytes, width};
use crate::device::buffer::{Buffer, Column};
use crate::error::{BowtieError, Result};

impl Queue {
    /// The keys of the ids `kept`, or of the first `groups`.
    pub(super) fn direct_keys(
        self: &Arc<Self>,
        keys: &DirectKeys<'_>,
        kept: Option<&Buffer<u32>>,
        groups: usize,
    ) -> Result<Vec<Column>> {
        let kept = kept.map(memory).transpose()?;
        let mut stride = 1u64;
        let of_column = |(number, digits): &(Number<'_>, Digits)| {
            let at = stride;
            stride *= digits.digits();
            self.of_digits(*number, *digits, at as u32, kept, groups)
        };
        keys.0.iter().map(of_column).collect()
    }

    fn of_digits(
        self: &Arc<Self>,
        number: Number<'_>,
        digits: Digits,
        stride: u32,
        kept: Option<&Memory>,
        groups: usize,
    ) -> Result<Column> {
        let data_type = &number.values.data_type;
        let (null, all) = (digits.values as u32, digits.digits() as u32);
        let bits = |digit: u32, invert: bool| {
            let bits = self.alloc(bitmap_bytes(groups), "group keys")?;
            let args: [Arg; 7] = [
                kept.into(),
                (groups as u32).into(),
                digit.into(),
                stride.into(),
                all.into(),
                u32::from(invert).into(),
                (&bits).into(),
            ];
            // SAFETY: `kept`, if there is any, holds a word for each group, and `bits` a bit.
            unsafe { self.launch("group_range_bits", Shape::rows(groups), &args)? };
            Ok::<_, BowtieError>(bits)
        };
        let values = match number.sign {
            None => bits(1, false)?,
            Some(sign) => {
                let kernel = number.kernel([
                    "group_range_keys8",
                    "group_range_keys16",
                    "group_range_keys32",
                    "group_range_keys64",
                ])?;
                let bytes = width(data_type).unwrap_or_default() * groups;
                let values = self.alloc(bytes, "group keys")?;
                let args = [
                    kept.into(),
                    (groups as u32).into(),
                    sign.into(),
                    digits.least.into(),
                    null.into(),
                    stride.into(),
                    all.into(),
                    (&values).into(),
                ];
                // SAFETY: `kept`, if there is any, holds a word for each group, and `values` a value of the kernel's width.
                unsafe { self.launch(kernel, Shape::rows(groups), &args)? };
                values
            }
        };
        let valid = match digits.nullable {
            true => Some(bits(null, true)?),
            false => None,
        };
        let values = Values {
            data_type: data_type.clone(),
            values,
            valid,
            original: None,
            made: Some(self.mark()?),
        };
        Ok(Column::cuda(values, groups))
    }
}
