//! [`ProbeSide`]: the sets that probe an index. Blocks of them are searched in parallel, each with a sink of its own.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use rayon::prelude::*;

use crate::device::budget::{Budget, Lease};
use crate::device::data::buffer::{Buffer, check_chunk_rows};
use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::data::ranges::OrderedRows;
use crate::device::data::results::SetTally;
use crate::device::host::pace::CancelCheck;
use crate::device::host::sets::block::{BLOCK, SetSearch, Technique};
use crate::device::host::sets::collect;
use crate::device::host::sets::collect::Sink;
use crate::device::host::sets::encode::encoding::Sets;
use crate::device::host::sets::finder::{Finder, MOST_MATCHES, SetIndex, lists_of};
use crate::device::host::sets::self_join::SelfJoinHalf;
use crate::error::Result;

/// Probe sets that are searched to estimate the number of matches.
const SAMPLE: usize = 64;

/// The probe side of an index.
pub(crate) struct ProbeSide<'a> {
    index: &'a SetIndex,
    pub(crate) sets: Sets,
    /// In a self join, the half of the pairs that is tested.
    pub(crate) half: Option<SelfJoinHalf>,
    budget: &'a Arc<Budget>,
    check_cancelled: CancelCheck<'a>,
}

impl<'a> ProbeSide<'a> {
    pub(crate) fn new(
        budget: &'a Arc<Budget>,
        index: &'a SetIndex,
        column: &Column,
        groups: Option<&Buffer<u32>>,
        not_null: &[&Keys],
        check_cancelled: CancelCheck<'a>,
    ) -> Result<Self> {
        let rows = column.rows();
        check_chunk_rows(rows)?;
        let (lists, _plain) = lists_of(budget, column, not_null)?;
        let groups = groups.map(Buffer::on_host).transpose()?.map(AsRef::as_ref);
        let sets = index
            .domain
            .encode(budget, rows, &lists, groups, check_cancelled)?;
        Ok(Self {
            index,
            half: SelfJoinHalf::of(&index.sets, &sets, index.test),
            sets,
            budget,
            check_cancelled,
        })
    }

    /// The row ids of the probe sets, in the order of the sets. Rows of equal sets are neighbours.
    pub(crate) fn into_rows(self, budget: &Arc<Budget>) -> Result<OrderedRows> {
        let rows = self.sets.members.rows;
        let lease = budget.lease(rows.len() as u64 * 4, "sorted rows")?;
        Ok(OrderedRows::of_rows(Buffer::host(rows, lease)))
    }

    /// Blocks of all probe sets.
    pub(crate) fn blocks(&self) -> Vec<Range<usize>> {
        let all = self.sets.len();
        let begins = (0..all).step_by(BLOCK);
        begins.map(|from| from..(from + BLOCK).min(all)).collect()
    }

    /// An estimate of the length of all lists from a sample of sets; the number of pairs where that is small.
    pub(crate) fn expected_matches(&self) -> Result<u64> {
        let all = self.sets.len();
        let pairs = all as u64 * self.index.sets.members.rows.len() as u64;
        let sample = all.min(SAMPLE);
        if pairs <= MOST_MATCHES || sample == 0 {
            return Ok(pairs);
        }
        let sets = (0..sample).map(|i| i * all / sample);
        let blocks: Vec<Range<usize>> = sets.map(|at| at..at + 1).collect();
        let counts = |sets: Range<usize>| collect::Counts {
            counts: vec![0; sets.len()],
            indexed: &[],
            first: sets.start,
            members: [&self.index.sets.members, &self.sets.members],
            mirror: None,
        };
        let (found, _) = self.run(&blocks, None, counts, |sink| Ok(sink.counts))?;
        let found: u64 = found.into_iter().flatten().map(u64::from).sum();
        Ok(found.saturating_mul(all as u64) / sample as u64)
    }

    /// Searches `blocks` and returns the finished sinks in order. `half`: test only half of the pairs of a self join.
    pub(crate) fn run<S: Sink, T: Send>(
        &self,
        blocks: &[Range<usize>],
        half: Option<SelfJoinHalf>,
        sink: impl Fn(Range<usize>) -> S + Sync,
        finish: impl Fn(S) -> Result<T> + Sync,
    ) -> Result<(Vec<T>, SetTally)> {
        match &self.index.finder {
            Finder::Prefix(technique) => self.run_by(technique, blocks, half, sink, finish),
            Finder::InvertedIndex(technique) => self.run_by(technique, blocks, half, sink, finish),
            Finder::Signature(technique) => self.run_by(technique, blocks, half, sink, finish),
            Finder::Bitmap(technique) => self.run_by(technique, blocks, half, sink, finish),
            Finder::Matrix(technique) => self.run_by(technique, blocks, half, sink, finish),
            Finder::MmJoin(technique) => self.run_by(technique, blocks, half, sink, finish),
            Finder::Rarest(technique) => self.run_by(technique, blocks, half, sink, finish),
            Finder::Intersect(technique) => self.run_by(technique, blocks, half, sink, finish),
        }
    }

    fn run_by<F: Technique, S: Sink, T: Send>(
        &self,
        technique: &F,
        blocks: &[Range<usize>],
        half: Option<SelfJoinHalf>,
        sink: impl Fn(Range<usize>) -> S + Sync,
        finish: impl Fn(S) -> Result<T> + Sync,
    ) -> Result<(Vec<T>, SetTally)> {
        let indexed = &self.index.sets;
        let search = SetSearch {
            indexed,
            probe: &self.sets,
            segments: &self.index.segments,
            test: self.index.test,
            half,
            check_cancelled: self.check_cancelled,
        };
        // One scratch for each running thread. The scratch of a failed block is not reused.
        let scratches: Mutex<Vec<(F::Scratch, Lease)>> = Mutex::new(vec![]);
        let scratch = || -> Result<(F::Scratch, Lease)> {
            if let Some(known) = scratches.lock().pop() {
                return Ok(known);
            }
            let bytes = technique.scratch_bytes(indexed);
            let lease = self.budget.lease(bytes, "a probe of a set index")?;
            Ok((technique.scratch(indexed), lease))
        };
        let done: Vec<(T, SetTally)> = blocks
            .par_iter()
            .map(|positions| {
                let mut sink = sink(positions.clone());
                let block = search.block(positions.clone(), &mut sink)?;
                let mut held = scratch()?;
                let tally = technique.block(&search, &block, &mut held.0, &mut sink)?;
                scratches.lock().push(held);
                Ok((finish(sink)?, tally))
            })
            .collect::<Result<_>>()?;
        let mut tally = SetTally {
            repeats: self.sets.members.repeats(),
            ..SetTally::default()
        };
        let mut results = Vec::with_capacity(done.len());
        for (result, of_block) in done {
            tally.add(of_block);
            results.push(result);
        }
        Ok((results, tally))
    }
}
