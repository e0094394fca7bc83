//! The groups of a piece, of the words that the device returns.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, UInt32Array};
use arrow::buffer::NullBuffer;

use crate::device::data::decode_array::{array_of, decode_array};
use crate::error::{BowtieError, Result};
use crate::exec::aggregate::fused::bind::BoundGroups;
use crate::exec::aggregate::fused::compose::{FusedFold, FusedProgram};
use crate::exec::aggregate::group_values::Partial;
use crate::ir::fold::Fold;
use crate::ir::group_program::{Accumulator, Word, extreme_value};
use crate::spec::aggregate::GroupSpec;

/// The groups of a piece, and its rows that count.
pub(crate) struct PieceGroups {
    pub partial: Partial,
    pub rows: usize,
}

/// The words of the groups that have rows.
struct Present<'a> {
    bound: &'a BoundGroups,
    groups: Vec<(u32, &'a [u64])>,
}

impl BoundGroups {
    /// The groups that have rows; without keys there is one even of no rows.
    pub(crate) fn groups(
        &self,
        program: &FusedProgram,
        spec: &GroupSpec,
        words: &[u64],
    ) -> Result<PieceGroups> {
        let each = self.program.words();
        let groups = (0..).zip(words.chunks_exact(each));
        let groups = groups.filter(|(_, words)| words[0] > 0 || self.keys.is_empty());
        let present = Present {
            bound: self,
            groups: groups.collect(),
        };
        let mut folds = program.folds.iter().zip(&self.places);
        let states = spec.aggregates.iter().map(|aggregate| {
            let folds = folds.by_ref().take(aggregate.function.folds().len());
            folds.map(|(fold, at)| present.state(fold, *at)).collect()
        });
        let states = states.collect::<Result<_>>()?;
        let rows = present.groups.iter().map(|(_, words)| words[0] as usize);
        Ok(PieceGroups {
            rows: rows.sum(),
            partial: Partial {
                rows: present.groups.len(),
                keys: present.keys()?,
                states,
            },
        })
    }
}

impl Present<'_> {
    /// The key columns.
    fn keys(&self) -> Result<Vec<ArrayRef>> {
        let keys = &self.bound.program.keys;
        // The last key is the lowest digit.
        let mut stride = 1;
        let mut columns = vec![];
        for (key, encoding) in keys.iter().zip(&self.bound.keys).rev() {
            let digits = key.digits();
            let codes = self.groups.iter().map(|(group, _)| {
                let digit = group / stride % digits;
                (digit < key.bound).then_some(digit)
            });
            let codes: ArrayRef = Arc::new(codes.collect::<UInt32Array>());
            columns.push(decode_array(&codes, &encoding.values)?);
            stride *= digits;
        }
        columns.reverse();
        Ok(columns)
    }

    /// The states of one fold.
    fn state(&self, fold: &FusedFold, at: Option<usize>) -> Result<ArrayRef> {
        let Some(at) = at else {
            let rows = self.groups.iter().map(|(_, words)| words[0] as i64);
            return Ok(Arc::new(rows.collect::<Int64Array>()));
        };
        let (Some(accumulator), Some(argument)) =
            (self.bound.program.accumulators.get(at), &fold.argument)
        else {
            return Err(BowtieError::Internal("a fold without its words".into()));
        };
        let before = self.bound.program.accumulators[..at].iter();
        let before = before.flat_map(Accumulator::layout).map(Word::words);
        let first = 1 + before.sum::<usize>();
        let counted = usize::from(accumulator.nullable);
        let values = |words: &[u64]| match accumulator.nullable {
            true => words[first],
            false => words[0],
        };
        if fold.fold == Fold::Count {
            let counts = self.groups.iter().map(|(_, words)| values(words) as i64);
            return Ok(Arc::new(counts.collect::<Int64Array>()));
        }
        let of_group = |words: &[u64]| {
            let words = &words[first + counted..];
            match accumulator.word() {
                Some(Word::WideSum) => (u128::from(words[1]) << 64 | u128::from(words[0])) as i128,
                Some(Word::Sum) => words[0].into(),
                _ => {
                    let value = extreme_value(fold.fold, argument.kind, words[0]);
                    value.unwrap_or_default().into()
                }
            }
        };
        let nulls = self.groups.iter().map(|(_, words)| values(words) > 0);
        let nulls = NullBuffer::from_iter(nulls);
        let sums = self.groups.iter().map(|(_, words)| of_group(words));
        array_of(&argument.data_type, sums, Some(nulls))
    }
}
