//! [`DirectKeys`]: keys that are digits of a group's id.

use crate::device::cuda::aggregate::sample::SAMPLES;
use crate::device::cuda::columns::minmax::Number;

/// Key columns as digits: how ids say keys.
#[derive(Debug)]
pub(crate) struct DirectKeys<'a>(pub(crate) Vec<(Number<'a>, Digits)>);

impl DirectKeys<'_> {
    /// The digits' product, where it is no greater than this.
    pub(crate) fn range(&self, widest: u64) -> Option<u64> {
        range_of(self.0.iter().map(|(_, digits)| digits), widest)
    }

    /// Whether the values of one column are keys as they are.
    pub(crate) fn is_plain(&self) -> bool {
        match &self.0[..] {
            [(number, _)] => number.plain().is_some(),
            _ => false,
        }
    }
}

/// Digits that a column gives to the ids.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Digits {
    pub(crate) least: u64,
    /// Values from the least to the greatest; a NULL is the digit after them.
    pub(crate) values: u64,
    pub(crate) nullable: bool,
}

impl Digits {
    /// How many there are.
    pub(crate) fn digits(&self) -> u64 {
        self.values.saturating_add(u64::from(self.nullable))
    }

    /// Of a sample of values of 32 bits: with those around it that all values may have. Of uniform ones an end is beyond them with a
    /// probability of e^-16.
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

/// The digits' product, where it is no greater.
pub(crate) fn range_of<'a>(
    mut digits: impl Iterator<Item = &'a Digits>,
    widest: u64,
) -> Option<u64> {
    digits.try_fold(1u64, |range, digits| {
        let product = range.checked_mul(digits.digits());
        product.filter(|range| *range <= widest)
    })
}
