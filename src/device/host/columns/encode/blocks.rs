//! The extents of the blocks of codes.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use rayon::prelude::*;

use crate::device::data::block_extents::{BLOCK_ROWS, BlockExtents};

/// The extents of all blocks of a column of codes; `None` for another type, and for a single block.
pub(crate) fn extents(codes: &[ArrayRef]) -> Option<BlockExtents> {
    let rows: usize = codes.iter().map(|part| part.len()).sum();
    if rows <= BLOCK_ROWS {
        return None;
    }
    match codes.first()?.data_type() {
        DataType::UInt8 => Some(of::<UInt8Type>(codes, rows)),
        DataType::UInt16 => Some(of::<UInt16Type>(codes, rows)),
        DataType::UInt32 => Some(of::<UInt32Type>(codes, rows)),
        DataType::UInt64 => Some(of::<UInt64Type>(codes, rows)),
        _ => None,
    }
}

fn of<C: ArrowPrimitiveType>(codes: &[ArrayRef], rows: usize) -> BlockExtents
where
    C::Native: Ord + Into<u64>,
{
    let first = codes.iter().scan(0, |next, part| {
        let first = *next;
        *next += part.len();
        Some(first)
    });
    let parts: Vec<(usize, &PrimitiveArray<C>)> = first
        .zip(codes.iter().map(|part| part.as_primitive()))
        .collect();
    // The blocks that a part has rows of.
    let pieces = parts.par_iter().flat_map_iter(|(first, part)| {
        let (first, end) = (*first, first + part.len());
        (first / BLOCK_ROWS..end.div_ceil(BLOCK_ROWS)).map(move |block| {
            let from = (block * BLOCK_ROWS).max(first) - first;
            let to = ((block + 1) * BLOCK_ROWS).min(end) - first;
            (block, extent(&PrimitiveArray::slice(part, from, to - from)))
        })
    });
    let mut blocks: Vec<Option<(u64, u64)>> = vec![None; rows.div_ceil(BLOCK_ROWS)];
    for (block, extent) in pieces.collect::<Vec<_>>() {
        blocks[block] = match (blocks[block], extent) {
            (Some(known), Some(other)) => Some((known.0.min(other.0), known.1.max(other.1))),
            (known, other) => known.or(other),
        };
    }
    BlockExtents(blocks)
}

fn extent<C: ArrowPrimitiveType>(part: &PrimitiveArray<C>) -> Option<(u64, u64)>
where
    C::Native: Ord + Into<u64>,
{
    let values = part.values().iter().copied();
    let (least, most) = match part.null_count() {
        0 => (values.clone().min()?, values.max()?),
        _ => (part.iter().flatten().min()?, part.iter().flatten().max()?),
    };
    Some((least.into(), most.into()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::UInt16Array;

    use super::*;

    #[test]
    fn blocks_of_parts_of_any_length() {
        let all: Vec<Option<u16>> = (0..3 * BLOCK_ROWS + 5)
            .map(|row| (row % 3 > 0).then_some((row / 100) as u16))
            .collect();
        let array: ArrayRef = Arc::new(UInt16Array::from(all.clone()));
        let none: ArrayRef = Arc::new(UInt16Array::from(vec![None; BLOCK_ROWS + 1]));
        assert_eq!(
            extents(&[Arc::clone(&none)]),
            Some(BlockExtents(vec![None; 2]))
        );
        assert_eq!(extents(&[none.slice(0, BLOCK_ROWS)]), None);
        let expected = all.chunks(BLOCK_ROWS).map(|block| {
            let values = || block.iter().flatten().copied().map(u64::from);
            Some((values().min()?, values().max()?))
        });
        let expected = Some(BlockExtents(expected.collect()));
        for cuts in [vec![], vec![1], vec![10, 70_000, 70_000, 190_000]] {
            let ends = cuts.iter().copied().chain([array.len()]);
            let starts = [0].into_iter().chain(cuts.iter().copied());
            let parts: Vec<ArrayRef> = starts
                .zip(ends)
                .map(|(a, b)| array.slice(a, b - a))
                .collect();
            assert_eq!(extents(&parts), expected);
        }
    }
}
