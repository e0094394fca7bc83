//! Words of decimals, dates and floats, and the arrays that are built from them.

use arrow::array::{ArrayData, ArrayRef, BooleanBufferBuilder, make_array};
use arrow::buffer::{BooleanBuffer, Buffer as Bytes, NullBuffer};
use arrow::datatypes::DataType;

use crate::error::Result;
use crate::ir::program::Kind;

/// An integer as the word of a type; `None` if the type cannot hold it.
pub(crate) fn word_of(value: i128, kind: Kind) -> Option<u64> {
    let value = i64::try_from(value).ok()?;
    let fits = match kind {
        Kind::I8 => i8::try_from(value).is_ok(),
        Kind::I16 => i16::try_from(value).is_ok(),
        Kind::I32 => i32::try_from(value).is_ok(),
        Kind::U8 => u8::try_from(value).is_ok(),
        Kind::U16 => u16::try_from(value).is_ok(),
        Kind::U32 => u32::try_from(value).is_ok(),
        Kind::U64 => value >= 0,
        _ => true,
    };
    fits.then_some(value as u64)
}

/// A whole number as an integer; `None` if it exceeds 64 bits.
pub(crate) fn whole(value: f64) -> Option<i128> {
    const ABOVE: f64 = (1u64 << 63) as f64;
    (-ABOVE..ABOVE).contains(&value).then_some(value as i128)
}

/// `value / by`, half away from zero.
pub(crate) fn round(value: i128, by: i128) -> i128 {
    let (quotient, rest) = (value / by, value % by);
    let half = by / 2;
    match () {
        () if value >= 0 && rest >= half => quotient + 1,
        () if value < 0 && rest <= -half => quotient - 1,
        () => quotient,
    }
}

/// The year, month or day of month of a day counted from 1970, in the proleptic Gregorian calendar.
pub(crate) fn date_part(days: i64, part: u8) -> i64 {
    // Years begin in March here, so that a leap day is the last day of its year; an era has 400 years.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    match part {
        0 => year_of_era + era * 400 + i64::from(month <= 2),
        1 => month,
        _ => of_year - (153 * march_month + 2) / 5 + 1,
    }
}

/// One array of the parts of an output.
pub(crate) fn array_of(
    data_type: &DataType,
    parts: &[&OutputPart],
    rows: usize,
) -> Result<ArrayRef> {
    let mut valid = BooleanBufferBuilder::new(rows);
    for part in parts {
        valid.append_buffer(&BooleanBuffer::new(
            Bytes::from_slice_ref(part.valid.as_slice()),
            0,
            part.valid.len(),
        ));
    }
    let nulls = NullBuffer::new(valid.finish());
    let plain = || {
        parts.iter().flat_map(|part| match &part.words {
            Words::Plain(words) => words.as_slice(),
            Words::Decimals(_) => &[],
        })
    };
    macro_rules! values {
        ($t:ty) => {
            Bytes::from_iter(plain().map(|word| *word as $t))
        };
    }
    let bytes = match (data_type, data_type.primitive_width()) {
        (DataType::Boolean, _) => {
            let mut bits = BooleanBufferBuilder::new(rows);
            plain().for_each(|word| bits.append(*word == 1));
            bits.finish().into_inner()
        }
        (_, Some(1)) => values!(u8),
        (_, Some(2)) => values!(u16),
        (_, Some(4)) => values!(u32),
        (_, Some(8)) => values!(u64),
        _ => Bytes::from_iter(parts.iter().flat_map(|part| match &part.words {
            Words::Decimals(words) => words.iter().copied(),
            Words::Plain(_) => [].iter().copied(),
        })),
    };
    let data = ArrayData::builder(data_type.clone())
        .len(rows)
        .add_buffer(bytes);
    let data = data.nulls((nulls.null_count() > 0).then_some(nulls));
    Ok(make_array(data.build()?))
}

/// The part of one output that a task computes.
pub(crate) struct OutputPart {
    pub(crate) words: Words,
    pub(crate) valid: BooleanBufferBuilder,
}

/// The values of an output: words of any kind but decimals, or decimals.
pub(crate) enum Words {
    Plain(Vec<u64>),
    Decimals(Vec<i128>),
}
