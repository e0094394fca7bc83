//! Groups by direct address: the keys of a group are decoded from its id, without a row of it. Some ids may have no
//! rows.
//!
//! ```text
//! a sample of keys ─► an assumed range ───┐
//!               or the range of all keys ─┴─► ids ─┬─► results ─► ids with rows ─► keys decoded from the ids
//!                                                  └─► no aggregates: a bit for each id ─► bits that are set ─► the same
//! ```

use std::sync::atomic::Ordering::Relaxed;

use crate::device::cuda::aggregate::accumulate::accumulator::{Accumulator, Presence, Update};
use crate::device::cuda::aggregate::accumulate::added;
use crate::device::cuda::aggregate::accumulate::launches;
use crate::device::cuda::aggregate::choose::FEW_IN_GLOBAL;
use crate::device::cuda::aggregate::choose::FEW_PARTITIONED;
use crate::device::cuda::aggregate::choose::FEW_ROWS;
use crate::device::cuda::aggregate::choose::choose;
use crate::device::cuda::aggregate::dense_ids::{self, DirectIds, ForEach};
use crate::device::cuda::aggregate::direct_keys::DirectKeys;
use crate::device::cuda::aggregate::directory::{GroupKeys, Ids};
use crate::device::cuda::aggregate::fold;
use crate::device::cuda::aggregate::results::{Folded, GroupResults, Members};
use crate::device::cuda::aggregate::sample;
use crate::device::cuda::aggregate::strategy_run::StrategyRun;
use crate::device::cuda::columns::layout::bitmap_bytes;
use crate::device::cuda::columns::rows;
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::error::{BowtieError, Result};
use crate::ir::strategies::GroupStrategy;

/// Up to this range a sample's ids are counted by direct address.
const FEW_IDS: usize = 1 << 21;

/// The ids that have rows; the bitmap of them among all ids; and the number of set bits before each block of
/// `rows_select_*`.
struct KeptIds {
    ids: Buffer<u32>,
    bits: Memory,
    offsets: Memory,
}

/// Ids as numbers from which keys are decoded.
fn numbers(ids: Buffer<u32>) -> Result<(Memory, Width)> {
    let ids = ids.into_cuda();
    let ids = ids.ok_or_else(|| BowtieError::Internal("the host's ids of a GPU's rows".into()))?;
    Ok((ids, Width::Four))
}

/// Whether an accumulator's results tell groups with rows from ids without rows.
fn shows_rows(of: &Accumulator<'_>) -> bool {
    of.valid.is_none() && of.update.shows_rows() != Presence::Nothing
}

impl StrategyRun<'_> {
    /// Aggregates by direct address, where some ids may have no rows. First rows are found only where results do not
    /// tell which ids have rows.
    pub(crate) fn by_direct<'k>(
        &self,
        direct: DirectIds<'k>,
        strategy: Option<GroupStrategy>,
    ) -> Result<GroupResults<'k>> {
        let (ids, range) = (direct.ids(), direct.range);
        let direct_run = self.without_rows();
        let strategy = match strategy {
            Some(strategy) => strategy,
            None if direct_run.needs_no_sample(range) => GroupStrategy::HashShared,
            None => {
                let keys = GroupKeys::Plain(ids.words, Width::Four);
                let profile = match range <= FEW_IDS {
                    true => sample::profile_of_ids(self.stream, ids, range, self.rows)?,
                    false => sample::profile(self.stream, &keys, self.rows)?,
                };
                let choice = choose(&direct_run.choice_input(&keys, &profile, Some(range)));
                if !choice.direct {
                    let folded = self.by_keys(&keys, &profile, choice.strategy)?;
                    return Ok(folded.with_words(|words| direct.members(words)));
                }
                choice.strategy
            }
        };
        let folded = match strategy {
            GroupStrategy::HashShared => match direct_run.by_ids_in_teams(ids, range)? {
                Some(folded) => folded,
                None => direct_run.by_ids(ids, range, true)?,
            },
            GroupStrategy::HashGlobal | GroupStrategy::Runs => {
                direct_run.by_ids_in_global(ids, range)?
            }
            GroupStrategy::Partition => direct_run.by_partitioned_ids(ids, range)?,
            GroupStrategy::Sort | GroupStrategy::SortDictionary => {
                direct_run.by_sorted_ids(ids.words, range, GroupStrategy::Sort)?
            }
        };
        let kept = direct_run.kept(&folded, ids)?;
        direct_run.of_ids(folded, direct.into_keys(), kept)
    }

    /// Aggregates by a assumed range: that of a sample, or a little more at both ends. `None` where a key is outside of
    /// it, or another path is better. The assumption saves a pass over the keys.
    pub(crate) fn by_assumed_range<'k>(
        &self,
        keys: &[&'k Column],
        strategy: Option<GroupStrategy>,
    ) -> Result<Option<GroupResults<'k>>> {
        let is_hash = matches!(
            strategy,
            None | Some(GroupStrategy::HashShared | GroupStrategy::HashGlobal)
        );
        let stream = self.stream;
        if self.rows < FEW_ROWS
            || !(is_hash || strategy == Some(GroupStrategy::Partition))
            || stream.assumed_range_missed.load(Relaxed)
        {
            return Ok(None);
        }
        let widest = match self.all.len() {
            // Without aggregates a bitmap holds the ids.
            1 => 0,
            _ => ForEach::Accumulators.widest(self.rows),
        };
        let Some((assumed, words)) = dense_ids::assumed_ids(stream, keys, self.rows, widest)?
        else {
            return Ok(None);
        };
        let run = self.without_rows();
        let range = assumed.range;
        let strategy = match strategy {
            Some(strategy) => strategy,
            None if run.needs_no_sample(range) => GroupStrategy::HashShared,
            None => {
                let keys = GroupKeys::Plain(words, Width::Four);
                let profile = match range <= FEW_IDS {
                    true => {
                        sample::profile_of_sampled_ids(stream, assumed.ids(), range, self.rows)?
                    }
                    false => sample::profile(stream, &keys, self.rows)?,
                };
                let choice = choose(&run.choice_input(&keys, &profile, Some(range)));
                if !choice.direct {
                    return Ok(None);
                }
                choice.strategy
            }
        };
        let ids = Ids {
            words,
            ..assumed.ids()
        };
        let in_teams = match strategy {
            GroupStrategy::HashShared => run.by_ids_in_teams(ids, range)?,
            _ => None,
        };
        let folded = match strategy {
            _ if let Some(folded) = in_teams => folded,
            // A pass that finds ids without rows takes as long as one that finds the range.
            GroupStrategy::HashShared if !run.fits_shared(range) || assumed.is_wider => {
                return Ok(None);
            }
            GroupStrategy::HashShared => {
                let outs = added::outs(stream, run.all, range)?;
                let added = launches::accumulate_dense(
                    stream, ids, self.rows, range, run.all, &outs, true,
                )?;
                if added.left_out(stream)? {
                    stream.assumed_range_missed.store(true, Relaxed);
                    return Ok(None);
                }
                Folded::of(outs, range).by(GroupStrategy::HashShared)
            }
            // The kernel for fewer ids does not report ids outside of the range.
            GroupStrategy::HashGlobal if range > FEW_IN_GLOBAL => {
                run.by_ids_in_global(ids, range)?
            }
            GroupStrategy::Partition if range > FEW_PARTITIONED => {
                run.by_partitioned_ids(ids, range)?
            }
            _ => return Ok(None),
        };
        if let Some(added) = &folded.added
            && added.found(stream)?.left_out
        {
            stream.assumed_range_missed.store(true, Relaxed);
            return Ok(None);
        }
        let kept = run.kept(&folded, ids)?;
        Ok(Some(run.of_ids(folded, assumed.into_keys(), kept)?))
    }

    /// The distinct ids, where there are no aggregates: a bitmap with a bit for each id.
    pub(crate) fn distinct<'k>(&self, direct: DirectIds<'k>) -> Result<GroupResults<'k>> {
        let (stream, range) = (self.stream, direct.range);
        let some = stream.zeroed(bitmap_bytes(range), "groups")?;
        dense_ids::set_present(stream, direct.ids(), self.rows, &some)?;
        let kept = rows::select(stream, &some, range, None)?;
        let groups = kept.len();
        let kept = (groups < range).then_some(kept);
        let kept = kept.map(numbers).transpose()?;
        Ok(GroupResults {
            outs: vec![],
            members: Members::Ids(direct.into_keys(), kept),
            groups,
            capacity: groups,
            by: Some(GroupStrategy::HashGlobal).into(),
        })
    }

    /// In the shared memory of clusters, if two teams of blocks cannot hold all accumulators. With 50,000 ids, which
    /// two teams hold, 2^28 rows took 1.43 ms with two teams and 1.60 ms in clusters.
    fn by_ids_in_teams(&self, ids: Ids<'_>, range: usize) -> Result<Option<Folded>> {
        match self.exceeds_teams(range) {
            true => self.by_ids_in_clusters(ids, range, GroupStrategy::HashShared),
            false => Ok(None),
        }
    }

    /// Without the accumulator of first rows, which is the first one, where ids are decoded into keys and another
    /// accumulator tells groups from ids without rows.
    fn without_rows(&self) -> Self {
        let others = &self.all[1..];
        StrategyRun {
            all: match self.ids_say_keys && others.iter().any(shows_rows) {
                true => others,
                false => self.all,
            },
            ..*self
        }
    }

    /// The ids that have rows; `None` if all do.
    fn kept(&self, folded: &Folded, ids: Ids<'_>) -> Result<Option<KeptIds>> {
        let (stream, range) = (self.stream, folded.groups);
        let surely =
            |of: &Accumulator<'_>| shows_rows(of) && of.update.shows_rows() == Presence::Surely;
        let at = self.all.iter().position(surely);
        let Some(at) = at.or_else(|| self.all.iter().position(shows_rows)) else {
            return Err(BowtieError::Internal(
                "no accumulator shows which groups have rows".into(),
            ));
        };
        let (of, out) = (&self.all[at], &folded.outs[at]);
        let some = match of.update.is_row() {
            true => rows::bits_of_groups(stream, out, range)?,
            false => fold::nonzero_bits(stream, out, range)?,
        };
        let (mut offsets, mut kept) = rows::select_offsets(stream, &some, range)?;
        if kept < range && !surely(of) {
            let found = folded.added.as_ref().map(|added| added.found(stream));
            let all_known = match found.transpose()? {
                Some(found) => found.shows_rows(at) || found.span == kept,
                None => false,
            };
            if !all_known {
                let (ids, parts_from) = match &folded.parts {
                    Some((words, parts_from)) => (Ids { words, ..ids }, *parts_from),
                    None => (ids, None),
                };
                dense_ids::set_other_present(stream, ids, parts_from, self.rows, (&some, range))?;
                (offsets, kept) = rows::select_offsets(stream, &some, range)?;
            }
        }
        if kept == range {
            return Ok(None);
        }
        let ids = rows::select_at(stream, &some, range, &offsets, kept, None)?;
        Ok(Some(KeptIds {
            ids,
            bits: some,
            offsets,
        }))
    }

    /// The results of the ids that have rows, compacted.
    fn of_ids<'k>(
        &self,
        mut folded: Folded,
        keys: DirectKeys<'k>,
        kept: Option<KeptIds>,
    ) -> Result<GroupResults<'k>> {
        let stream = self.stream;
        let capacity = folded.capacity;
        if let Some(kept) = &kept {
            let groups = kept.ids.len();
            let KeptIds { bits, offsets, .. } = kept;
            let kept = memory(&kept.ids)?;
            let outs = self.all.iter().zip(&folded.outs).map(|(of, out)| {
                let bytes = of.update.bytes();
                let word = bytes.min(8);
                if word == bytes {
                    let selected = (offsets, groups);
                    return rows::select_values(stream, bits, capacity, selected, out, word);
                }
                let gathered = stream.alloc(groups * bytes, "aggregates")?;
                for j in 0..bytes / word {
                    let (from, to) = (
                        out.part(j * capacity * word)?,
                        gathered.part(j * groups * word)?,
                    );
                    rows::gather_into(stream, from, kept, to, groups, word)?;
                }
                Ok(gathered)
            });
            folded = Folded {
                by: folded.by,
                ..Folded::of(outs.collect::<Result<_>>()?, groups)
            };
        }
        match self.all.first().map(|of| of.update) {
            Some(Update::FirstRow) => Ok(folded.with_rows()),
            _ => {
                let ids = kept.map(|kept| numbers(kept.ids)).transpose()?;
                Ok(folded.with(Members::Ids(keys, ids)))
            }
        }
    }
}
