//! [`Narrowing`]: values that are uploaded as their lowest bytes, if these represent them. Narrowing takes a thread
//! little longer than a copy, and the bus carries a half or a quarter of the bytes.

use crate::device::cuda::runtime::kernels::{self, Widening};
/// The number of bytes of each value that are copied.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Narrowing {
    /// All bytes.
    None,
    /// The lower four of eight; the others repeat the sign.
    From8To4,
    From16To8,
    From16To4,
}

/// With fewer bytes values are uploaded unchanged: the kernel that widens them would take as long.
const LEAST_BYTES: usize = 1 << 20;
/// The size of a sample: the number of parts, and of values in each.
const PARTS: usize = 64;
const VALUES: usize = 4;

impl Narrowing {
    /// The narrowest one that a sample of values of `width` bytes fits.
    pub(crate) fn of(parts: &[&[u8]], width: usize) -> Self {
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
        let candidates: &[Self] = match width {
            8 => &[Self::From8To4],
            16 => &[Self::From16To4, Self::From16To8],
            _ => &[],
        };
        if bytes < LEAST_BYTES || candidates.is_empty() {
            return Self::None;
        }
        let sample = sample(parts, width);
        let fits = |narrowing: &&Self| {
            let mut narrow = vec![0; sample.len() / narrowing.times()];
            narrowing.narrow(&sample, &mut narrow)
        };
        candidates.iter().find(fits).copied().unwrap_or(Self::None)
    }

    /// The number of bytes that become one.
    pub(crate) fn times(self) -> usize {
        match self {
            Self::None => 1,
            Self::From8To4 | Self::From16To8 => 2,
            Self::From16To4 => 4,
        }
    }

    /// The kernel (family `widen`) that restores the values.
    pub(crate) fn widens(self) -> Option<Widening> {
        match self {
            Self::None => None,
            Self::From8To4 => Some(kernels::WIDEN_I32_I64),
            Self::From16To8 => Some(kernels::WIDEN_I64_I128),
            Self::From16To4 => Some(kernels::WIDEN_I32_I128),
        }
    }

    /// Copies the values `from` in narrow form; false if one does not fit.
    pub(crate) fn narrow(self, from: &[u8], to: &mut [u8]) -> bool {
        // The bits beyond the narrow form, of all values together: no branch for each value.
        let mut beyond = 0;
        match self {
            Self::None => to.copy_from_slice(from),
            Self::From8To4 => {
                for (from, to) in from.as_chunks::<8>().0.iter().zip(to.as_chunks_mut().0) {
                    let value = i64::from_ne_bytes(*from);
                    beyond |= beyond_i32(value);
                    *to = (value as i32).to_ne_bytes();
                }
            }
            Self::From16To8 => {
                for (from, to) in from.as_chunks::<16>().0.iter().zip(to.as_chunks_mut().0) {
                    let value = i128::from_ne_bytes(*from);
                    beyond |= beyond_i64(value);
                    *to = (value as i64).to_ne_bytes();
                }
            }
            Self::From16To4 => {
                for (from, to) in from.as_chunks::<16>().0.iter().zip(to.as_chunks_mut().0) {
                    let value = i128::from_ne_bytes(*from);
                    beyond |= beyond_i64(value) | beyond_i32(value as i64);
                    *to = (value as i32).to_ne_bytes();
                }
            }
        }
        beyond == 0
    }
}

/// 0 if the value fits 32 bits.
fn beyond_i32(value: i64) -> u64 {
    (value as u64).wrapping_add(1 << 31) >> 32
}

/// 0 if the value fits 64 bits.
fn beyond_i64(value: i128) -> u64 {
    (((value >> 64) as i64) ^ ((value as i64) >> 63)) as u64
}

/// Values from parts spread evenly, including the last value of each.
fn sample(parts: &[&[u8]], width: usize) -> Vec<u8> {
    let filled: Vec<&[u8]> = parts.iter().copied().filter(|p| !p.is_empty()).collect();
    let mut values = vec![];
    let mut of = |part: &[u8]| {
        let rows = part.len() / width;
        for i in 1..=VALUES {
            let row = (rows * i).div_ceil(VALUES) - 1;
            values.extend_from_slice(&part[row * width..][..width]);
        }
    };
    for i in 0..PARTS.min(filled.len()) {
        of(filled[i * filled.len() / PARTS.min(filled.len())]);
    }
    // The greatest value, if values ascend.
    if let Some(last) = filled.last() {
        of(last);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[i128], width: usize) -> Vec<u8> {
        let of = |value: &i128| value.to_le_bytes()[..width].to_vec();
        values.iter().flat_map(of).collect()
    }

    #[test]
    fn values_that_fit_are_their_lowest_bytes() {
        let (i32s, i64s) = (1i128 << 31, 1i128 << 63);
        let all = [
            (Narrowing::From8To4, 8, 4, i32s),
            (Narrowing::From16To8, 16, 8, i64s),
            (Narrowing::From16To4, 16, 4, i32s),
        ];
        for (narrowing, width, narrow, end) in all {
            let fit = [0, 1, -1, end - 1, -end, end / 2, -end / 3];
            let mut to = vec![1; fit.len() * narrow];
            assert!(narrowing.narrow(&bytes(&fit, width), &mut to));
            assert_eq!(to, bytes(&fit, narrow));
            assert_eq!(narrowing.times(), width / narrow);
            for value in [end, -end - 1, end * 2, -end * 2 - 1, end * 2 - 1] {
                for at in 0..fit.len() {
                    let mut values = fit;
                    values[at] = value;
                    let values = bytes(&values, width);
                    assert!(!narrowing.narrow(&values, &mut to), "{value} at {at}");
                }
            }
            let values = bytes(&vec![fit[3]; LEAST_BYTES / width], width);
            assert_eq!(Narrowing::of(&[&values], width), narrowing);
        }
        let wide = bytes(&[i64s; LEAST_BYTES / 16], 16);
        assert_eq!(Narrowing::of(&[&wide], 16), Narrowing::None);
        assert_eq!(Narrowing::of(&[&wide[16..]], 16), Narrowing::None);
        assert_eq!(Narrowing::of(&[], 16), Narrowing::None);
    }

    #[test]
    fn a_sample_is_of_parts_all_over_and_the_last_value() {
        let long = bytes(&[1; 1000], 8);
        let last = bytes(&[2, 3, 1 << 40], 8);
        for parts in [1, 2, 63, 64, 65, 1000] {
            let mut parts = vec![long.as_slice(); parts];
            let few = sample(&parts, 8).len();
            assert!(few <= (PARTS + 1) * VALUES * 8);
            parts.extend([&last[..], &[]]);
            let sample = sample(&parts, 8);
            assert!(sample.ends_with(&last[16..]));
        }
    }
}
