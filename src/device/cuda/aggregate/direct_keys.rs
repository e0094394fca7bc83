//! [`DirectKeys`]: key columns as the digits of a group's id, in a mixed-radix number.

use crate::device::cuda::aggregate::sample::SAMPLES;
use crate::device::cuda::columns::layout::width;
use crate::device::cuda::columns::minmax::Number;
use crate::device::cuda::keys::key_width::Width;

/// Key columns with their digits, the lowest digit first: ids are decoded into keys by them.
#[derive(Debug)]
pub(crate) struct DirectKeys<'a>(pub(crate) Vec<(Number<'a>, Digits)>);

impl DirectKeys<'_> {
    /// The number of ids: the product of the columns' digits; `None` if it exceeds `widest`.
    pub(crate) fn range(&self, widest: u64) -> Option<u64> {
        range_of(self.0.iter().map(|(_, digits)| digits), widest)
    }

    /// Whether there is one column, whose values serve as keys unchanged.
    pub(crate) fn is_plain(&self) -> bool {
        match &self.0[..] {
            [(number, _)] => plain(*number).is_some(),
            _ => false,
        }
    }
}

/// The column with the width of its values, if these have 32 or 64 bits and no NULLs: they can be group keys unchanged.
pub(crate) fn plain(number: Number<'_>) -> Option<(Number<'_>, Width)> {
    let bits = match width(&number.values.data_type)? {
        4 => Width::Four,
        8 => Width::Eight,
        _ => return None,
    };
    number.values.valid.is_none().then_some((number, bits))
}

/// The digits of one column in an id.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Digits {
    /// The least value, as an unsigned word in the order of the values.
    pub(crate) least: u64,
    /// The number of values from the least to the greatest. A NULL is the digit after them.
    pub(crate) values: u64,
    /// Whether the column may have NULLs.
    pub(crate) nullable: bool,
}

impl Digits {
    /// The number of digits, NULL included.
    pub(crate) fn digits(&self) -> u64 {
        self.values.saturating_add(u64::from(self.nullable))
    }

    /// For a sample of values of 32 bits: a wider range that all values may have. For uniform values, one end is
    /// outside of it with a probability of e^-16.
    pub(crate) fn wider(self) -> Self {
        const LEAST: u64 = 16;
        const GREATEST: u64 = u32::MAX as u64;
        let margin = (self.values * 16 / SAMPLES as u64).max(LEAST);
        let least = self.least.saturating_sub(margin);
        let greatest = (self.least + self.values - 1 + margin).min(GREATEST);
        Self {
            least,
            values: greatest - least + 1,
            ..self
        }
    }
}

/// The product of the numbers of digits; `None` if it exceeds `widest`.
pub(crate) fn range_of<'a>(
    mut digits: impl Iterator<Item = &'a Digits>,
    widest: u64,
) -> Option<u64> {
    digits.try_fold(1u64, |range, digits| {
        let product = range.checked_mul(digits.digits());
        product.filter(|range| *range <= widest)
    })
}
