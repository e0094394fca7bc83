//! Direct address: dense integer keys become group ids by subtraction of the least key
//! (`kernels/aggregate/group_range.cu`). In: key columns. Out: ids, one for each row. Several columns form one id, as
//! digits of a mixed-radix number.

use std::sync::Arc;

use crate::device::cuda::aggregate::direct_keys::{Digits, DirectKeys};
use crate::device::cuda::aggregate::directory::Ids;
use crate::device::cuda::aggregate::results::Members;
use crate::device::cuda::aggregate::sample::{self, SAMPLES};
use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::minmax::{self, Number};
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::runtime::arguments::{EitherWidth, U32, U64};
use crate::device::cuda::runtime::kernels::{self, Kernel};
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::column::Column;
use crate::device::data::key_bitmap::Extent;
use crate::error::Result;

/// Group ids without a hash table. Some ids may have no rows.
#[derive(Debug)]
pub(crate) struct DirectIds<'a> {
    words: Words<'a>,
    /// The word of id 0.
    first: u32,
    /// The exclusive upper bound of the ids.
    pub(crate) range: usize,
    /// Whether the range has ids at both ends that no key of the sample had.
    pub(crate) is_wider: bool,
    of: DirectKeys<'a>,
}

#[derive(Debug)]
enum Words<'a> {
    /// The values of a column of 32 bits without NULLs, unchanged.
    Values(&'a Memory),
    Computed(Memory),
}

impl<'a> DirectIds<'a> {
    /// How the keys of groups are found, where `words` holds a word for each group.
    pub(crate) fn members(self, words: Memory) -> Members<'a> {
        match (&self.words, &self.of.0[..]) {
            (Words::Values(_), [(number, _)]) => Members::Values(*number, words),
            _ => Members::Ids(self.of, Some((words, Width::Four))),
        }
    }

    /// The keys, without the rows' ids.
    pub(crate) fn into_keys(self) -> DirectKeys<'a> {
        self.of
    }

    /// The ids of the rows.
    pub(crate) fn ids(&self) -> Ids<'_> {
        let words = match &self.words {
            Words::Values(values) => values,
            Words::Computed(words) => words,
        };
        Ids {
            words,
            first: self.first,
        }
    }
}

/// The widest range in ids per row: accumulators of this number of ids per row cost less than a hash table.
const RANGE_PER_ROW: usize = 2;
/// A range up to this is always narrow.
const NARROW: usize = 1 << 12;
/// The least number of samples for each key with which a sample's range is assumed for all keys unchanged: uniform keys
/// show both ends with a probability of 96 %.
const SAMPLES_PER_KEY: usize = 4;
/// The widest range for any number of rows: results have an accumulator for each id.
const WIDEST: usize = 1 << 27;

/// What is allocated for each id, which decides how wide a range is narrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForEach {
    Accumulators,
    /// One bit for each id: 32 times as many ids as accumulators.
    Bit,
}

impl ForEach {
    /// The widest range for this number of rows.
    pub(crate) fn widest(self, rows: usize) -> u64 {
        let accumulators = (RANGE_PER_ROW * rows).clamp(NARROW, WIDEST) as u64;
        match self {
            Self::Accumulators => accumulators,
            Self::Bit => (32 * accumulators).min(u64::from(u32::MAX) - 1),
        }
    }
}

/// The kernels for numbers of groups of width `N`: [`U32`] or [`U64`].
struct Encoders<N> {
    /// Bits, their validity and how many, the digit of a NULL, the digit's stride, whether to add, and numbers.
    bools: Kernel<(U64, U64, U32, N, N, U32, U64)>,
    /// For values of 8, 16, 32 and 64 bits.
    numbers: [NumberEncoder<N>; 4],
}

/// Values, their validity and how many, sign and least value, the digit of a NULL, the digit's stride, whether to add, and
/// numbers.
type NumberEncoder<N> = Kernel<(U64, U64, U32, U64, U64, N, N, U32, U64)>;

const SHORT: Encoders<U32> = Encoders {
    bools: kernels::GROUP_RANGE_IDS_BOOL,
    numbers: [
        kernels::GROUP_RANGE_IDS8,
        kernels::GROUP_RANGE_IDS16,
        kernels::GROUP_RANGE_IDS32,
        kernels::GROUP_RANGE_IDS64,
    ],
};

const LONG: Encoders<U64> = Encoders {
    bools: kernels::GROUP_RANGE_WORDS_BOOL,
    numbers: [
        kernels::GROUP_RANGE_WORDS8,
        kernels::GROUP_RANGE_WORDS16,
        kernels::GROUP_RANGE_WORDS32,
        kernels::GROUP_RANGE_WORDS64,
    ],
};

/// The digits of the keys of `rows` > 0 rows; `None` where some column is not an integer.
pub(crate) fn key_digits<'a>(
    stream: &Arc<Stream>,
    keys: &[&'a Column],
    rows: usize,
) -> Result<Option<DirectKeys<'a>>> {
    let numbers = keys.iter().map(|key| Number::of(key));
    let Some(numbers) = numbers.collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let digits = digits(stream, &numbers, rows)?;
    let keys = numbers.into_iter().zip(digits);
    Ok(Some(DirectKeys(keys.collect())))
}

/// Ids of `rows` rows by direct address, for keys with this range of ids. `from_0`: the words must be the ids
/// themselves.
pub(crate) fn direct_ids<'a>(
    stream: &Arc<Stream>,
    of: DirectKeys<'a>,
    range: u64,
    rows: usize,
    from_0: bool,
) -> Result<DirectIds<'a>> {
    let range = range as usize;
    if let ([(number, digits)], false) = (&of.0[..], from_0)
        && number.is_id()
    {
        return Ok(DirectIds {
            words: Words::Values(&number.values.values),
            first: number.value_of(digits.least),
            range,
            is_wider: false,
            of,
        });
    }
    Ok(DirectIds {
        words: Words::Computed(numbers_of(stream, &of, rows, Width::Four)?),
        first: 0,
        range,
        is_wider: false,
        of,
    })
}

/// The number that the digits of each row's keys form, the first column's digit the lowest.
pub(crate) fn numbers_of(
    stream: &Arc<Stream>,
    of: &DirectKeys<'_>,
    rows: usize,
    bits: Width,
) -> Result<Memory> {
    let numbers = stream.alloc(rows * bits.bytes(), "group ids")?;
    let mut stride = 1u64;
    for (i, (number, digits)) in of.0.iter().enumerate() {
        let (column, place) = ((*number, *digits), (stride, i > 0));
        match bits {
            Width::Four => add_digits(stream, column, place, &numbers, rows, &SHORT)?,
            Width::Eight => add_digits(stream, column, place, &numbers, rows, &LONG)?,
        }
        stride *= digits.digits();
    }
    Ok(numbers)
}

/// The same with 32 bits, or 64 where 32 are too few; `None` where 64 are too few, or the values themselves serve
/// as well.
pub(crate) fn packed(
    stream: &Arc<Stream>,
    of: &DirectKeys<'_>,
    rows: usize,
) -> Result<Option<(Memory, Width)>> {
    if of.is_plain() {
        return Ok(None);
    }
    let fits = |most: u64| of.range(most - 1).is_some();
    let bits = match (fits(u32::MAX.into()), fits(u64::MAX)) {
        (true, _) => Width::Four,
        (_, true) => Width::Eight,
        _ => return Ok(None),
    };
    Ok(Some((numbers_of(stream, of, rows, bits)?, bits)))
}

/// Ids by direct address of one key of 32 bits, with a assumed range: that of a sample, or a little wider where the
/// sample's range is wide. `None` where the range is neither very narrow nor at most `widest`. The ids' words are
/// those of the sample; the second result are the words of all rows.
pub(crate) fn assumed_ids<'a>(
    stream: &Arc<Stream>,
    keys: &[&'a Column],
    rows: usize,
    widest: u64,
) -> Result<Option<(DirectIds<'a>, &'a Memory)>> {
    let [key] = keys else { return Ok(None) };
    let Some(number) = Number::of(key).filter(|number| number.is_id()) else {
        return Ok(None);
    };
    let values = number.values;
    let sample = Values {
        data_type: values.data_type.clone(),
        values: sample::sampled_words(stream, &values.values, rows)?,
        valid: None,
        original: None,
        made: None,
    };
    let sampled = Number {
        values: &sample,
        ..number
    };
    let mut digits = digits(stream, &[sampled], SAMPLES)?[0];
    let is_wider = digits.values > (SAMPLES / SAMPLES_PER_KEY) as u64;
    if is_wider {
        digits = digits.wider();
        if digits.values > widest {
            return Ok(None);
        }
    }
    let assumed = DirectIds {
        words: Words::Computed(sample.values),
        first: number.value_of(digits.least),
        range: digits.values as usize,
        is_wider,
        of: DirectKeys(vec![(number, digits)]),
    };
    Ok(Some((assumed, &values.values)))
}

/// Sets the bits of the ids that some row has. `bits` holds a bit for each id.
pub(crate) fn set_present(
    stream: &Arc<Stream>,
    ids: Ids<'_>,
    rows: usize,
    bits: &Memory,
) -> Result<()> {
    let args = (
        ids.words.into(),
        ids.first.into(),
        (rows as u32).into(),
        bits.into(),
    );
    // Rows in their order: the bits of rows with neighbouring ids then hit the L1 cache.
    let shape = Shape::rows(rows);
    // SAFETY: there is a word for each row, and each is an id that has a bit after subtraction of the first.
    unsafe { stream.launch(kernels::GROUP_RANGE_PRESENT, shape, &args) }
}

/// Sets the bits of the ids that some row has, in a bitmap of `range` ids that has most bits set already.
/// `parts_from`: rows are partitioned by the ids' bits from this one on.
pub(crate) fn set_other_present(
    stream: &Arc<Stream>,
    ids: Ids<'_>,
    parts_from: Option<u32>,
    rows: usize,
    (bits, range): (&Memory, usize),
) -> Result<()> {
    if rows >= 1 << 31 {
        return set_present(stream, ids, rows, bits);
    }
    let first_bit = parts_from.unwrap_or(31).max(5);
    let words = range.div_ceil(32);
    // The greatest power of two that fits shared memory and is of use.
    let counters = 1usize << (stream.gpu.shared_bytes / 4).ilog2();
    let fold = counters
        .min(words.next_power_of_two())
        .min(1 << (first_bit - 5));
    let args = (
        ids.words.into(),
        (rows as u32).into(),
        ids.first.into(),
        first_bit.into(),
        (fold as u32).into(),
        bits.into(),
        (words as u32).into(),
    );
    let shape = Shape {
        blocks: stream.gpu.multiprocessors,
        slices: 1,
        threads: 1024,
        shared: fold as u32 * 4,
    };
    // SAFETY: there is a word for each row, an id of the range after subtraction of the first, in ascending
    // partitions if rows are partitioned; there is a bit for each id of the range, in whole words; and the shared
    // memory is that of the folded bits.
    unsafe { stream.launch(kernels::GROUP_PRESENT, shape, &args) }
}

fn digits(stream: &Arc<Stream>, numbers: &[Number<'_>], rows: usize) -> Result<Vec<Digits>> {
    let extents = minmax::extents(stream, numbers, rows)?
        .into_iter()
        .zip(numbers);
    let digits = extents.map(|(Extent { least, greatest }, number)| Digits {
        least,
        // No values at all where all rows are NULL.
        values: match least <= greatest {
            true => (greatest - least).saturating_add(1),
            false => 0,
        },
        nullable: number.values.valid.is_some(),
    });
    Ok(digits.collect())
}

/// Adds a column's digits times a stride to the numbers of the columns before. `add`: not set for the first column.
fn add_digits<N: EitherWidth>(
    stream: &Stream,
    (number, digits): (Number<'_>, Digits),
    (stride, add): (u64, bool),
    numbers: &Memory,
    rows: usize,
    encoders: &Encoders<N>,
) -> Result<()> {
    let values = (&number.values.values).into();
    let valid = number.values.valid.as_ref().into();
    let (n, add) = ((rows as u32).into(), u32::from(add).into());
    let (null, stride) = (N::of(digits.values), N::of(stride));
    let Some(sign) = number.sign else {
        let args = (values, valid, n, null, stride, add, numbers.into());
        // SAFETY: a column holds a bit for each row, and so does its bitmap; `numbers` holds a number of the
        // kernel's width for each row.
        return unsafe { stream.launch(encoders.bools, Shape::rows(rows), &args) };
    };
    let kernel = number.kernel(encoders.numbers)?;
    let args = (
        values,
        valid,
        n,
        sign.into(),
        digits.least.into(),
        null,
        stride,
        add,
        numbers.into(),
    );
    // SAFETY: a column holds a value of the kernel's width for each row, and a bit for each row; `numbers` holds a
    // number of the kernel's width for each row.
    unsafe { stream.launch(kernel, Shape::rows(rows), &args) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cuda::aggregate::direct_keys::{Digits, range_of};

    #[test]
    fn narrow_ranges_are_products() {
        let digits = |values, nullable| Digits {
            least: 5,
            values,
            nullable,
        };
        let widest = |rows| ForEach::Accumulators.widest(rows);
        let range_of = |of: &[Digits], rows| range_of(of.iter(), widest(rows));
        assert_eq!(range_of(&[digits(7, false)], 1), Some(7));
        assert_eq!(range_of(&[digits(7, true), digits(2, true)], 1), Some(24));
        assert_eq!(range_of(&[digits(0, true)], 10), Some(1));
        assert_eq!(range_of(&[digits(4097, false)], 10), None);
        assert_eq!(range_of(&[digits(100_000, false)], 50_000), Some(100_000));
        assert_eq!(range_of(&[digits(100_001, false)], 50_000), None);
        assert_eq!(range_of(&[digits(u64::MAX, true)], 1 << 30), None);
        assert_eq!(range_of(&[digits(1 << 27, false)], 1 << 30), Some(1 << 27));
        let wide = [digits(1 << 20, false), digits(1 << 20, false)];
        assert_eq!(range_of(&wide, 1 << 30), None);
        assert_eq!(ForEach::Bit.widest(1), 1 << 17);
        assert_eq!(ForEach::Bit.widest(50_000), 3_200_000);
        assert_eq!(ForEach::Bit.widest(1 << 30), u64::from(u32::MAX) - 1);
    }
}
