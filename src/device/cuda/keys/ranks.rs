//! Order keys of wide values and of text, for which 64 bits are too few (`kernels/keys/groups.cu`): their ranks among the base's
//! distinct values.

use std::sync::Arc;

use arrow::datatypes::{DataType, IntervalUnit};

use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::rows;
use crate::device::cuda::keys::key_column::{self, KeyBytes, KeySource};
use crate::device::cuda::keys::tuples::{self, Distinct, Significance, Tuples};
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::Buffer;
use crate::device::data::keys::{KeyDomain, Keys};
use crate::device::data::opaque::Opaque;
use crate::error::{BowtieError, Result};

/// The sorted distinct values of a base column on a GPU.
#[derive(Debug)]
pub(crate) struct Ranks {
    wide: WideType,
    /// `None` when all values are NULL.
    distinct: Option<Distinct>,
}

/// Types of more than 64 bits.
#[derive(Debug, Clone, Copy, PartialEq)]
enum WideType {
    Decimal128,
    Decimal256,
    MonthDayNano,
    /// Values that compare byte by byte, in this number of words.
    Text {
        words: usize,
    },
}

impl WideType {
    fn of(data_type: &DataType) -> Option<Self> {
        match data_type {
            DataType::Decimal128(..) => Some(Self::Decimal128),
            DataType::Decimal256(..) => Some(Self::Decimal256),
            DataType::Interval(IntervalUnit::MonthDayNano) => Some(Self::MonthDayNano),
            _ => None,
        }
    }

    fn of_values(values: &Values) -> Result<Self> {
        let data_type = &values.data_type;
        Self::of(data_type)
            .ok_or_else(|| BowtieError::Internal(format!("{data_type} has no order keys")))
    }
}

/// The keys of a base column of wide values, and their domain.
pub(crate) fn wide_keys(
    stream: &Arc<Stream>,
    values: &Values,
    rows: usize,
) -> Result<(Keys, KeyDomain)> {
    let wide = WideType::of_values(values)?;
    let tuples = ordered(stream, wide, values, rows)?;
    rank(stream, wide, tuples, values.valid.as_ref(), rows)
}

/// The keys of a base column whose values compare byte by byte, in `words` words each, and their domain.
pub(crate) fn text_keys(
    stream: &Arc<Stream>,
    values: KeyBytes<'_>,
    words: usize,
    rows: usize,
) -> Result<(Keys, KeyDomain)> {
    let tuples = key_column::text_tuples(stream, values, words, rows)?;
    rank(stream, WideType::Text { words }, tuples, values.valid, rows)
}

/// The ranks of a base's tuples, and their domain.
fn rank(
    stream: &Arc<Stream>,
    wide: WideType,
    tuples: Tuples,
    valid: Option<&Memory>,
    rows: usize,
) -> Result<(Keys, KeyDomain)> {
    let found = tuples::runs(stream, &tuples, valid, Significance::AsGiven)?;
    drop(tuples);
    let (keys, distinct) = match found {
        Some((runs, distinct)) => (tuples::run_ranks(stream, &runs)?, Some(distinct)),
        None => {
            let words = stream.zeroed(rows * 8, "order keys")?;
            (Buffer::cuda(words, rows), None)
        }
    };
    let keys = Keys {
        values: keys,
        valid: rows::copy_validity(stream, valid, rows)?,
    };
    let ranks = crate::device::data::keys::Ranks(Opaque::new(Ranks { wide, distinct }));
    Ok((keys, KeyDomain::Ranked(ranks)))
}

/// The keys of another column: its values' ranks among those of a base.
pub(crate) fn ranked_keys(
    stream: &Arc<Stream>,
    ranks: &Ranks,
    column: KeySource<'_>,
    rows: usize,
) -> Result<Keys> {
    let (tuples, valid) = match (ranks.wide, column, column.bytes()) {
        (WideType::Text { words }, _, Some(values)) => (
            key_column::text_tuples(stream, values, words, rows)?,
            values.valid,
        ),
        (wide, KeySource::Values(values), None)
            if WideType::of(&values.data_type) == Some(wide) =>
        {
            (ordered(stream, wide, values, rows)?, values.valid.as_ref())
        }
        _ => {
            return Err(BowtieError::Internal(
                "a key column among ranks of another type".into(),
            ));
        }
    };
    Ok(Keys {
        values: tuples::find_ranks(stream, ranks.distinct.as_ref(), &tuples, valid)?,
        valid: rows::copy_validity(stream, valid, rows)?,
    })
}

/// Values of more than 64 bits as tuples that compare in the values' order.
pub(crate) fn wide_tuples(stream: &Arc<Stream>, values: &Values, rows: usize) -> Result<Tuples> {
    ordered(stream, WideType::of_values(values)?, values, rows)
}

/// Values as tuples that compare in the values' order.
fn ordered(stream: &Arc<Stream>, wide: WideType, values: &Values, rows: usize) -> Result<Tuples> {
    let (kernel, width) = match wide {
        WideType::Decimal128 => (kernels::GROUPS_ORDER128, 2),
        WideType::Decimal256 => (kernels::GROUPS_ORDER256, 4),
        WideType::MonthDayNano => (kernels::GROUPS_ORDER_MONTH_DAY_NANO, 2),
        WideType::Text { .. } => {
            return Err(BowtieError::Internal("text without bytes".into()));
        }
    };
    let tuples = tuples::allocate_tuples(stream, rows, width)?;
    let args = (
        (&values.values).into(),
        tuples.first_word().into(),
        (rows as u32).into(),
    );
    // SAFETY: a column of this type holds `rows` values of `width` words, and so do the tuples.
    unsafe { stream.launch(kernel, Shape::rows(rows), &args)? };
    Ok(tuples)
}
