//! [`possible_rows`]: the rows of a batch that a filter may keep, by the extents of the blocks of stored columns.

use std::ops::Range;

use crate::device::batches::batch::DeviceBatch;
use crate::device::batches::batch_column::BatchColumn;
use crate::device::data::block_extents::BLOCK_ROWS;
use crate::device::data::encoding::CodedValues;
use crate::error::Result;
use crate::ir::possible::may_pass;
use crate::ir::row_program::{RowProgram, RowSource};

/// The extents of a column's values in a block; `None` where they are not known.
type Extents<'a> = Box<dyn Fn(usize) -> Option<(i128, i128)> + 'a>;

/// From the first to the last block in which `predicate`, whose only output is a Boolean, may be TRUE. All rows, where no column of a whole
/// stored piece tells.
pub(crate) fn possible_rows(predicate: &RowProgram, batch: &DeviceBatch) -> Result<Range<usize>> {
    let all = 0..batch.rows();
    let blocks = batch.rows().div_ceil(BLOCK_ROWS);
    let mut columns: Vec<Option<Extents<'_>>> = vec![];
    for source in &predicate.columns {
        columns.push(match source {
            RowSource::Column(column) => extents(batch.any(*column)?, blocks),
            _ => None,
        });
    }
    if columns.iter().all(Option::is_none) {
        return Ok(all);
    }
    let passes = |block: &usize| {
        may_pass(predicate, |column| {
            let extents = columns.get(column)?.as_ref()?;
            extents(*block)
        })
    };
    let Some(first) = (0..blocks).find(passes) else {
        return Ok(0..0);
    };
    let last = (first..blocks).rev().find(passes).unwrap_or(first);
    Ok(first * BLOCK_ROWS..((last + 1) * BLOCK_ROWS).min(batch.rows()))
}

fn extents(column: &BatchColumn, blocks: usize) -> Option<Extents<'_>> {
    let BatchColumn::Encoded(encoded) = column else {
        return None;
    };
    let CodedValues::Offset { least, .. } = encoded.encoding.values else {
        return None;
    };
    let extents = encoded.blocks.as_ref()?;
    if extents.0.len() != blocks {
        return None;
    }
    let of_block = move |block: usize| {
        // Of NULLs alone, nothing is TRUE: any values do.
        let (low, high) = extents.0.get(block).copied()?.unwrap_or((0, 0));
        Some((least + i128::from(low), least + i128::from(high)))
    };
    Some(Box::new(of_block))
}
