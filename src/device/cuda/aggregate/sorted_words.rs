//! Grouped aggregation of rows that are sorted by keys of one word together with their columns: SGB with GFTR (\[W\] 4.1.3). In: keys that
//! fit a word, columns of 4, 8 and 16 bytes. Out: results by runs of equal keys.
//!
//! One sort moves all columns of a row in each of its passes, where \[W\] sorts each column with the keys. Row ids move too: they give
//! each group's first row.

use crate::device::cuda::aggregate::accumulate::accumulator::{
    Accumulator, MOST_ACCUMULATORS, columns_of,
};
use crate::device::cuda::aggregate::accumulate::added;
use crate::device::cuda::aggregate::dense_ids;
use crate::device::cuda::aggregate::direct_keys::{DirectKeys, plain};
use crate::device::cuda::aggregate::materialization::{Sorted, SortedColumns};
use crate::device::cuda::aggregate::partition::moved_with;
use crate::device::cuda::aggregate::results::Folded;
use crate::device::cuda::aggregate::runs::{self, RunKey};
use crate::device::cuda::aggregate::strategy_run::StrategyRun;
use crate::device::cuda::columns::minmax::Number;
use crate::device::cuda::columns::rows;
use crate::device::cuda::equi::partition::Depth;
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::runtime::memory::Part;
use crate::device::data::column::Column;
use crate::error::{BowtieError, Result};
use crate::ir::strategies::{GroupStrategy, Materialization};

impl StrategyRun<'_> {
    /// Sorts rows by their keys, whose first rows the first accumulator finds; `None` where keys fill more than a word, where columns cannot
    /// move with them, or where gathering is better or wanted.
    pub(crate) fn by_sorted_words(
        &self,
        keys: &[&Column],
        digits: Option<&DirectKeys<'_>>,
    ) -> Result<Option<Folded>> {
        if let [key] = keys
            && let Some((number, width)) = Number::of(key).and_then(plain)
        {
            return self.by_sorted_word((&number.values.values).into(), width);
        }
        let packed = match digits {
            Some(of) => dense_ids::packed(self.stream, of, self.rows)?,
            None => None,
        };
        match packed {
            Some((word, width)) => self.by_sorted_word((&word).into(), width),
            None => Ok(None),
        }
    }

    fn by_sorted_word(&self, words: Part<'_>, width: Width) -> Result<Option<Folded>> {
        let (stream, n) = (self.stream, self.rows);
        // The first one finds first rows.
        let all = &self.all[1..];
        let columns = columns_of(all);
        let moves = columns.iter().all(|(_, bytes)| matches!(bytes, 4 | 8 | 16));
        if !moves || all.len() > MOST_ACCUMULATORS {
            return Ok(None);
        }
        let sorted = SortedColumns {
            passes: width.bytes(),
            bytes: columns.iter().map(|(_, bytes)| bytes).sum(),
            columns: columns.len(),
            sorted: Sorted::Rows(width),
            groups: n,
        };
        let how = sorted.chosen(stream, self.materialization)?;
        if how == Materialization::Gfur {
            return Ok(None);
        }
        let (keys, order) = moved_with(stream, (words, width), n, (&columns, true), Depth::Whole)?;
        let keys = RunKey::of_words(keys, width);
        // Sorted keys are in order.
        let heads = runs::heads_of(stream, &[keys], n)?
            .ok_or_else(|| BowtieError::Internal("sorted keys in no order".into()))?;
        let (offsets, groups) = rows::select_offsets(stream, &heads, n)?;
        let mut outs = added::outs(stream, all, groups)?;
        order.fold(
            stream,
            groups,
            all,
            &outs,
            &mut |all: &[Accumulator<'_>], outs| {
                runs::fold(stream, (&heads, &offsets), n, groups, all, outs)
            },
        )?;
        let of_rows = (&offsets, groups);
        let firsts = rows::select_values(stream, &heads, n, of_rows, order.row_ids()?, 4)?;
        outs.insert(0, firsts);
        let folded = Folded::of(outs, groups).materialized(Some(how));
        Ok(Some(folded.by(GroupStrategy::Sort)))
    }
}
