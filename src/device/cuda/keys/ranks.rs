//! Order keys of wide values and of text, for which 64 bits are too few (`kernels/keys/keys.cu`,
//! `kernels/keys/groups.cu`): their distance from the base's least value, or their rank among the base's distinct
//! values.

use std::sync::Arc;

use arrow::datatypes::{DataType, IntervalUnit};

use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::keys::key_column::{KeyBytes, KeySource};
use crate::device::cuda::keys::tuples::{Distinct, Significance, Tuples};
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

impl Stream {
    /// The keys of a base column of wide values, and their domain.
    pub(crate) fn wide_keys(
        self: &Arc<Self>,
        values: &Values,
        rows: usize,
    ) -> Result<(Keys, KeyDomain)> {
        let wide = WideType::of_values(values)?;
        if wide == WideType::Decimal128 {
            let (low, high) = self.extremes(values, rows)?;
            if let Some(domain) = KeyDomain::offset(low, high) {
                let column = KeySource::Values(values);
                return Ok((self.order_keys_in(&domain, column, rows)?, domain));
            }
        }
        let tuples = self.ordered(wide, values, rows)?;
        self.rank(wide, tuples, values.valid.as_ref(), rows)
    }

    /// The keys of a base column whose values compare byte by byte, in `words` words each, and their domain.
    pub(crate) fn text_keys(
        self: &Arc<Self>,
        values: KeyBytes<'_>,
        words: usize,
        rows: usize,
    ) -> Result<(Keys, KeyDomain)> {
        let tuples = self.text_tuples(values, words, rows)?;
        self.rank(WideType::Text { words }, tuples, values.valid, rows)
    }

    /// The ranks of a base's tuples, and their domain.
    fn rank(
        self: &Arc<Self>,
        wide: WideType,
        tuples: Tuples,
        valid: Option<&Memory>,
        rows: usize,
    ) -> Result<(Keys, KeyDomain)> {
        let found = self.runs(&tuples, valid, Significance::AsGiven)?;
        drop(tuples);
        let (keys, distinct) = match found {
            Some((runs, distinct)) => (self.run_ranks(&runs)?, Some(distinct)),
            None => {
                let words = self.zeroed(rows * 8, "order keys")?;
                (Buffer::cuda(words, rows), None)
            }
        };
        let keys = Keys {
            values: keys,
            valid: self.valid_of(valid, rows)?,
        };
        let ranks = crate::device::data::keys::Ranks(Opaque::new(Ranks { wide, distinct }));
        Ok((keys, KeyDomain::Ranked(ranks)))
    }

    /// The keys of another column: its values' ranks among those of a base.
    pub(crate) fn ranked_keys(
        self: &Arc<Self>,
        ranks: &Ranks,
        column: KeySource<'_>,
        rows: usize,
    ) -> Result<Keys> {
        let (tuples, valid) = match (ranks.wide, column, column.bytes()) {
            (WideType::Text { words }, _, Some(values)) => {
                (self.text_tuples(values, words, rows)?, values.valid)
            }
            (wide, KeySource::Values(values), None)
                if WideType::of(&values.data_type) == Some(wide) =>
            {
                (self.ordered(wide, values, rows)?, values.valid.as_ref())
            }
            _ => {
                return Err(BowtieError::Internal(
                    "a key column among ranks of another type".into(),
                ));
            }
        };
        Ok(Keys {
            values: self.find_ranks(ranks.distinct.as_ref(), &tuples, valid)?,
            valid: self.valid_of(valid, rows)?,
        })
    }

    /// Values of more than 64 bits as tuples that compare in the values' order.
    pub(crate) fn wide_tuples(self: &Arc<Self>, values: &Values, rows: usize) -> Result<Tuples> {
        self.ordered(WideType::of_values(values)?, values, rows)
    }

    /// Values as tuples that compare in the values' order.
    fn ordered(self: &Arc<Self>, wide: WideType, values: &Values, rows: usize) -> Result<Tuples> {
        let (kernel, width) = match wide {
            WideType::Decimal128 => (kernels::GROUPS_ORDER128, 2),
            WideType::Decimal256 => (kernels::GROUPS_ORDER256, 4),
            WideType::MonthDayNano => (kernels::GROUPS_ORDER_MONTH_DAY_NANO, 2),
            WideType::Text { .. } => {
                return Err(BowtieError::Internal("text without bytes".into()));
            }
        };
        let tuples = self.tuples(rows, width)?;
        let args = (
            (&values.values).into(),
            tuples.first_word().into(),
            (rows as u32).into(),
        );
        // SAFETY: a column of this type holds `rows` values of `width` words, and so do the tuples.
        unsafe { self.launch(kernel, Shape::rows(rows), &args)? };
        Ok(tuples)
    }

    /// The least and the greatest value of 128 bits that is not NULL; 0 and 0 when all are.
    fn extremes(self: &Arc<Self>, values: &Values, rows: usize) -> Result<(i128, i128)> {
        if rows == 0 {
            return Ok((0, 0));
        }
        let shape = self.strips(rows.div_ceil(4));
        let of_blocks = self.alloc(shape.blocks as usize * 32, "a column's extremes")?;
        let all = self.alloc(32, "a column's extremes")?;
        let args = (
            (&values.values).into(),
            values.valid.as_ref().into(),
            (&of_blocks).into(),
            (rows as u32).into(),
        );
        // SAFETY: the column holds `rows` values of 16 bytes, and a bit for each; `of_blocks` 32 bytes for each block.
        unsafe { self.launch(kernels::KEYS_EXTREMES128, shape, &args)? };
        let args = ((&of_blocks).into(), (&all).into(), shape.blocks.into());
        // SAFETY: the blocks' extremes were written before; `all` holds 32 bytes.
        unsafe {
            self.launch(
                kernels::KEYS_EXTREMES128_TOTAL,
                Shape::blocks_of(1, 1, 256),
                &args,
            )?
        };
        let mut bytes = [[0; 16]; 2];
        self.read_few(bytes.as_flattened_mut(), &all, 0)?;
        let [low, high] = bytes.map(i128::from_le_bytes);
        match low <= high {
            true => Ok((low, high)),
            // Without a valid value the initial extremes remain, the least above the greatest.
            false => Ok((0, 0)),
        }
    }
}
