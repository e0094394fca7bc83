//! Rows to results by group, by each strategy of \[W\] section 3.2.
//!
//! ```text
//! numbers in a narrow range ─► ids by direct address ─┬──────────────► group_dense ─┐
//! other keys ─┬─► ids by hashing ─────────────────────┼─► parts of ids ─► the same  ├─► results by group
//!             │                                       └─► sorted ids ─► group_sorted│
//!             ├─► keys of one word ─────────────────┬─► group_table ────────────────┤
//!             │                                     └─► parts of keys ─► the same   │
//!             └─► tuples, sorted word by word ─► runs ─► group_sorted ──────────────┘
//! ```
//!
//! `group_dense` and `group_table` have accumulators in shared memory (hash_shared) or, but for hot keys, in global memory alone
//! (hash_global; partition). Keys of several words are partitioned by their ids, and sorted by all their words, the last first.

use std::iter;
use std::sync::Arc;

use super::CudaDevice;
use super::group_accumulators::{MOST_ACCUMULATORS, Tells, Update, Wanted, shared_words};
use super::group_choice::{SKEWED, Seen, choose};
use super::group_ids::{Directory, GroupKeys, Ids, KeyBits, with_room};
use super::group_places::{Places, Slots};
use super::group_profile::Profile;
use super::group_range::{DirectIds, DirectKeys};
use super::key_words::{KeyValues, Layout};
use super::queue::{Memory, Part, Queue};
use super::rows::memory;
use super::tuples::Significance;
use crate::device::buffer::{Buffer, Column};
use crate::error::{BowtieError, Result};
use crate::spec::GroupStrategy;

/// Rows of which a look at a sample would take longer than what it might save.
const FEW_ROWS: usize = 1 << 22;
/// Ids of which a sample is counted one by one, by direct address.
const FEW_IDS: usize = 1 << 21;

/// Whether the results of an accumulator tell groups of some rows from those of none.
fn tells(of: &Wanted<'_>) -> bool {
    of.valid.is_none() && of.update.tells() != Tells::Nothing
}

/// Results by group.
#[derive(Debug)]
pub(super) struct Results<'a> {
    /// One for each accumulator.
    pub(super) outs: Vec<Memory>,
    pub(super) members: Members<'a>,
    pub(super) groups: usize,
    /// Groups that each has room for: words of wide sums lie so far apart.
    pub(super) capacity: usize,
    pub(super) strategy: Option<GroupStrategy>,
}

/// Who is in each group.
#[derive(Debug)]
pub(super) enum Members<'a> {
    /// The first row of each.
    Rows(Memory),
    /// Rows with the keys of all ids, or of these.
    Ids(DirectKeys<'a>, Option<Buffer<u32>>),
}

/// What was folded by group.
#[derive(Debug)]
struct Folded {
    /// One for each accumulator.
    outs: Vec<Memory>,
    groups: usize,
    capacity: usize,
    strategy: Option<GroupStrategy>,
}

impl Folded {
    /// Of accumulators the first of which finds the first row of each group.
    fn with_rows<'a>(mut self) -> Results<'a> {
        let firsts = self.outs.remove(0);
        self.with(Members::Rows(firsts))
    }

    fn with(self, members: Members<'_>) -> Results<'_> {
        Results {
            outs: self.outs,
            members,
            groups: self.groups,
            capacity: self.capacity,
            strategy: self.strategy,
        }
    }

    fn by(self, strategy: GroupStrategy) -> Self {
        Self {
            strategy: Some(strategy),
            ..self
        }
    }
}

/// Adds rows to results by the numbers that a directory gives their keys, which has room for so many.
type FoldKeys<'f> = dyn FnMut(&Directory, usize, &[Memory]) -> Result<()> + 'f;

/// What is grouped: rows and their accumulators.
struct Ways<'a> {
    queue: &'a Arc<Queue>,
    rows: usize,
    all: &'a [Wanted<'a>],
}

impl CudaDevice {
    /// Accumulates `rows` rows, of which there is one at least, by groups of `keys`.
    pub(super) fn accumulated<'k>(
        &self,
        rows: usize,
        keys: &[&'k Column],
        all: &[Wanted<'_>],
        strategy: Option<GroupStrategy>,
    ) -> Result<Results<'k>> {
        let queue = &self.queue;
        let with_first = with_first_row(all);
        let ways = Ways {
            queue,
            rows,
            all: &with_first,
        };
        if keys.is_empty() {
            let ids = queue.zeroed(rows * 4, "group ids")?;
            let results = ways.by_ids((&ids).into(), 1, true)?.with_rows();
            return Ok(Results {
                strategy: None,
                ..results
            });
        }
        if matches!(strategy, None | Some(GroupStrategy::HashShared))
            && let Some(results) = ways.by_guess(keys)?
        {
            return Ok(results);
        }
        let direct = match strategy {
            // Numbers that hashing gives are shorter where the range has gaps.
            Some(GroupStrategy::SortDictionary) => None,
            _ => queue.direct_ids(keys, rows, strategy == Some(GroupStrategy::Sort))?,
        };
        if let Some(direct) = direct {
            return ways.by_direct(direct, strategy);
        }
        let base = self.base_keys(keys, true)?;
        let columns = base.values()?;
        if strategy == Some(GroupStrategy::Sort) {
            let layout = Layout::of(&columns, true);
            return Ok(ways.by_sorted_tuples(&layout, &columns)?.with_rows());
        }
        let keys = GroupKeys::of(queue, &columns, rows)?;
        let profile = queue.profile(&keys, rows)?;
        let strategy = match strategy {
            Some(strategy) => strategy,
            None => choose(&ways.seen(&keys, &profile, None)).strategy,
        };
        Ok(ways.by_keys(&keys, &profile, strategy)?.with_rows())
    }

    /// Accumulates `rows` rows of `groups` groups by their ids.
    pub(super) fn accumulated_by<'k>(
        &self,
        rows: usize,
        ids: &Memory,
        groups: usize,
        all: &[Wanted<'_>],
    ) -> Result<Results<'k>> {
        let queue = &self.queue;
        let all = &with_first_row(all);
        let ways = Ways { queue, rows, all };
        Ok(ways.by_ids(ids.into(), groups, true)?.with_rows())
    }
}

/// Accumulators, and before them one of the first row of each group.
fn with_first_row<'a>(all: &[Wanted<'a>]) -> Vec<Wanted<'a>> {
    let first_row = Wanted::of_rows(Update::FirstRow, None);
    iter::once(first_row).chain(all.iter().copied()).collect()
}

impl Ways<'_> {
    fn shared_bytes(&self) -> usize {
        self.queue.gpu.shared_bytes as usize
    }

    /// Whether rows can be added by keys, without ids.
    fn word<'k>(&self, keys: &'k GroupKeys<'_>) -> Option<(Part<'k>, KeyBits)> {
        keys.word().filter(|_| self.all.len() <= MOST_ACCUMULATORS)
    }

    fn seen(&self, keys: &GroupKeys<'_>, profile: &Profile, range: Option<usize>) -> Seen {
        let words = shared_words(self.all);
        Seen {
            groups: profile.groups,
            largest: profile.largest,
            unseen: profile.unseen,
            range,
            places: Places::most(words, self.shared_bytes()),
            slots: match self.word(keys) {
                Some((_, bits)) => Slots::most((words, bits.bytes()), self.shared_bytes()),
                None => 0,
            },
        }
    }

    /// Ids by direct address, of which some may have no rows. First rows are not asked for where results tell which those are.
    fn by_direct<'k>(
        &self,
        direct: DirectIds<'k>,
        strategy: Option<GroupStrategy>,
    ) -> Result<Results<'k>> {
        let (ids, range) = (direct.ids(), direct.range);
        let direct_ways = self.without_rows();
        let strategy = match strategy {
            Some(strategy) => strategy,
            None if direct_ways.needs_no_look(range) => GroupStrategy::HashShared,
            None => {
                let keys = GroupKeys::Plain(ids.words, KeyBits::B32);
                let profile = match range <= FEW_IDS {
                    true => self.queue.profile_of_ids(ids, range, self.rows)?,
                    false => self.queue.profile(&keys, self.rows)?,
                };
                let choice = choose(&direct_ways.seen(&keys, &profile, Some(range)));
                if !choice.direct {
                    return Ok(self.by_keys(&keys, &profile, choice.strategy)?.with_rows());
                }
                choice.strategy
            }
        };
        let folded = match strategy {
            GroupStrategy::HashShared => direct_ways.by_ids(ids, range, true)?,
            GroupStrategy::HashGlobal => direct_ways.by_ids(ids, range, false)?,
            GroupStrategy::Partition => direct_ways.by_parts_of_ids(ids, range)?,
            GroupStrategy::Sort | GroupStrategy::SortDictionary => {
                direct_ways.by_sorted_ids(ids.words, range, GroupStrategy::Sort)?
            }
        };
        let kept = direct_ways.kept(&folded, ids)?;
        direct_ways.of_ids(folded, direct.into_keys(), kept)
    }

    /// The ids of the keys of a sample, added in shared memory as if they were all; `None` where they are not, or something else is
    /// better. That saves a pass over the keys.
    fn by_guess<'k>(&self, keys: &[&'k Column]) -> Result<Option<Results<'k>>> {
        if self.rows < FEW_ROWS {
            return Ok(None);
        }
        let queue = self.queue;
        let Some((guess, words)) = queue.guessed_ids(keys, self.rows)? else {
            return Ok(None);
        };
        let ways = self.without_rows();
        let range = guess.range;
        if !ways.needs_no_look(range) {
            let profile = queue.profile_of_sampled_ids(guess.ids(), range, self.rows)?;
            let keys = GroupKeys::Plain(words, KeyBits::B32);
            let choice = choose(&ways.seen(&keys, &profile, Some(range)));
            if !choice.direct || choice.strategy != GroupStrategy::HashShared {
                return Ok(None);
            }
        }
        let ids = Ids {
            words,
            ..guess.ids()
        };
        let outs = queue.outs(ways.all, range)?;
        let added = queue.accumulate_dense(ids, self.rows, range, ways.all, &outs, true)?;
        if !added.inside || added.left_out(queue)? {
            return Ok(None);
        }
        let folded = Folded {
            outs,
            groups: range,
            capacity: range,
            strategy: Some(GroupStrategy::HashShared),
        };
        let kept = ways.kept(&folded, ids)?;
        Ok(Some(ways.of_ids(folded, guess.into_keys(), kept)?))
    }

    /// Without the accumulator of first rows, which stands first, if another one tells groups from ids without rows.
    fn without_rows(&self) -> Self {
        let others = &self.all[1..];
        Ways {
            all: match others.iter().any(tells) {
                true => others,
                false => self.all,
            },
            ..*self
        }
    }

    /// The ids that have rows; `None` if all do.
    fn kept(&self, folded: &Folded, ids: Ids<'_>) -> Result<Option<Buffer<u32>>> {
        let (queue, range) = (self.queue, folded.groups);
        let surely = |of: &Wanted<'_>| tells(of) && of.update.tells() == Tells::Surely;
        let at = self.all.iter().position(surely);
        let Some(at) = at.or_else(|| self.all.iter().position(tells)) else {
            return Err(BowtieError::Internal("nothing tells who has rows".into()));
        };
        let (of, out) = (&self.all[at], &folded.outs[at]);
        let some = match of.update.is_row() {
            true => queue.bits_of_groups(out, range)?,
            false => queue.nonzero_bits(out, range)?,
        };
        let mut kept = queue.select(&some, range, None)?;
        if kept.len() < range && !surely(of) {
            let some = queue.present(ids, self.rows, range)?;
            kept = queue.select(&some, range, None)?;
        }
        Ok((kept.len() < range).then_some(kept))
    }

    /// The results of the ids that have rows.
    fn of_ids<'k>(
        &self,
        mut folded: Folded,
        keys: DirectKeys<'k>,
        kept: Option<Buffer<u32>>,
    ) -> Result<Results<'k>> {
        let queue = self.queue;
        let capacity = folded.capacity;
        if let Some(kept) = &kept {
            let groups = kept.len();
            let kept = memory(kept)?;
            let outs = self.all.iter().zip(&folded.outs).map(|(of, out)| {
                let bytes = of.update.bytes();
                let word = bytes.min(8);
                let here = queue.alloc(groups * bytes, "aggregates")?;
                for j in 0..bytes / word {
                    let (from, to) = (out.part(j * capacity * word), here.part(j * groups * word));
                    queue.gather_into(from, kept, to, groups, word)?;
                }
                Ok(here)
            });
            folded = Folded {
                outs: outs.collect::<Result<_>>()?,
                groups,
                capacity: groups,
                strategy: folded.strategy,
            };
        }
        match self.all.first().map(|of| of.update) {
            Some(Update::FirstRow) => Ok(folded.with_rows()),
            _ => Ok(folded.with(Members::Ids(keys, kept))),
        }
    }

    /// Whether ids in this range are added in shared memory whatever the keys: one of many rows would not matter, as each lane
    /// has a place of its own, or would not matter much, as the rows are few.
    fn needs_no_look(&self, range: usize) -> bool {
        let places = Places::of(range, shared_words(self.all), self.shared_bytes());
        let all_hot = places.hot >= range;
        all_hot || (places.groups() >= range && self.rows <= FEW_ROWS)
    }

    fn by_keys(
        &self,
        keys: &GroupKeys<'_>,
        profile: &Profile,
        strategy: GroupStrategy,
    ) -> Result<Folded> {
        let numbered = || self.queue.hashed_ids(keys, self.rows, profile.limit);
        match (strategy, self.word(keys)) {
            (GroupStrategy::HashShared, Some(word)) if self.seldom_outside(word, profile) => {
                let skewed = profile.largest >= SKEWED;
                let widths = (shared_words(self.all), word.1.bytes());
                let slots = Slots::of(profile.groups, skewed, widths, self.shared_bytes());
                let results = self.by_table(keys, word, profile.limit, &slots)?;
                Ok(match results.groups <= slots.hot + slots.plain {
                    true => results.by(GroupStrategy::HashShared),
                    false => results,
                })
            }
            (GroupStrategy::HashGlobal, Some(word)) => {
                let widths = (shared_words(self.all), word.1.bytes());
                let slots = Slots::global(widths, self.shared_bytes());
                self.by_table(keys, word, profile.limit, &slots)
            }
            (GroupStrategy::HashShared | GroupStrategy::HashGlobal, _) => {
                let (ids, groups) = numbered()?;
                self.by_ids((&ids).into(), groups, strategy == GroupStrategy::HashShared)
            }
            (GroupStrategy::Partition, Some(word)) => {
                self.by_parts_of_keys(keys, word, profile.limit)
            }
            (GroupStrategy::Partition, None) => {
                let (ids, groups) = numbered()?;
                self.by_parts_of_ids((&ids).into(), groups)
            }
            (GroupStrategy::Sort | GroupStrategy::SortDictionary, _) => {
                let (ids, groups) = numbered()?;
                self.by_sorted_ids(&ids, groups, GroupStrategy::SortDictionary)
            }
        }
    }

    /// Whether a table of keys in shared memory serves these groups better than their ids: it holds them all, or ids would not
    /// be there either.
    fn seldom_outside(&self, (_, bits): (Part<'_>, KeyBits), profile: &Profile) -> bool {
        let words = shared_words(self.all);
        let bytes = self.shared_bytes();
        profile.groups <= Slots::most((words, bits.bytes()), bytes)
            || profile.groups > Places::most(words, bytes)
    }

    /// `shared`: in shared memory, if there is room.
    fn by_ids(&self, ids: Ids<'_>, groups: usize, shared: bool) -> Result<Folded> {
        let outs = self.queue.outs(self.all, groups)?;
        let inside = self
            .queue
            .accumulate_dense(ids, self.rows, groups, self.all, &outs, shared)?
            .inside;
        Ok(Folded {
            outs,
            groups,
            capacity: groups,
            strategy: Some(match shared && inside {
                true => GroupStrategy::HashShared,
                false => GroupStrategy::HashGlobal,
            }),
        })
    }

    fn by_table(
        &self,
        keys: &GroupKeys<'_>,
        word: (Part<'_>, KeyBits),
        limit: usize,
        slots: &Slots,
    ) -> Result<Folded> {
        let fold = &mut |directory: &Directory, limit, outs: &[Memory]| {
            let table = (directory, limit);
            self.queue
                .accumulate_table(word, self.rows, table, self.all, outs, slots)
        };
        let (outs, groups, capacity) = self.with_directory(keys, limit, fold)?;
        Ok(Folded {
            outs,
            groups,
            capacity,
            strategy: Some(GroupStrategy::HashGlobal),
        })
    }

    fn by_parts_of_keys(
        &self,
        keys: &GroupKeys<'_>,
        word: (Part<'_>, KeyBits),
        limit: usize,
    ) -> Result<Folded> {
        let (there, order) = self.queue.parts_of_keys(word, self.rows, self.all)?;
        let bits = word.1;
        let fold = &mut |directory: &Directory, limit, outs: &[Memory]| {
            order.fold(self.queue, limit, self.all, outs, &mut |all, outs| {
                let table = (directory, limit);
                let word = (Part::from(&there), bits);
                self.queue
                    .accumulate_table(word, self.rows, table, all, outs, &Slots::NONE)
            })
        };
        let (outs, groups, capacity) = self.with_directory(keys, limit, fold)?;
        Ok(Folded {
            outs,
            groups,
            capacity,
            strategy: Some(GroupStrategy::Partition),
        })
    }

    /// Results by the numbers of a directory, how many there are and for how many there is room.
    fn with_directory(
        &self,
        keys: &GroupKeys<'_>,
        limit: usize,
        fold: &mut FoldKeys<'_>,
    ) -> Result<(Vec<Memory>, usize, usize)> {
        with_room(self.rows, limit, |limit| {
            let directory = Directory::new(self.queue, keys, limit)?;
            let outs = self.queue.outs(self.all, limit)?;
            fold(&directory, limit, &outs)?;
            let groups = directory.groups(self.queue)?;
            Ok(groups.map(|groups| (outs, groups, limit)))
        })
    }

    fn by_parts_of_ids(&self, ids: Ids<'_>, groups: usize) -> Result<Folded> {
        let (words, order) = self.queue.parts_of_ids(ids, groups, self.rows, self.all)?;
        let there = Ids {
            words: &words,
            ..ids
        };
        let outs = self.queue.outs(self.all, groups)?;
        order.fold(self.queue, groups, self.all, &outs, &mut |all, outs| {
            self.queue
                .accumulate_dense(there, self.rows, groups, all, outs, false)
                .map(|_| ())
        })?;
        Ok(Folded {
            outs,
            groups,
            capacity: groups,
            strategy: Some(GroupStrategy::Partition),
        })
    }

    fn by_sorted_ids(
        &self,
        ids: &Memory,
        groups: usize,
        strategy: GroupStrategy,
    ) -> Result<Folded> {
        let (sorted, order) = self.queue.order_of_ids(ids, groups, self.rows)?;
        let sorted = sorted.as_ref().unwrap_or(ids);
        let outs = self.queue.outs(self.all, groups)?;
        order.fold(self.queue, groups, self.all, &outs, &mut |all, outs| {
            self.queue
                .accumulate_sorted(sorted, self.rows, groups, all, outs)
        })?;
        Ok(Folded {
            outs,
            groups,
            capacity: groups,
            strategy: Some(strategy),
        })
    }

    fn by_sorted_tuples(&self, layout: &Layout, columns: &[KeyValues<'_>]) -> Result<Folded> {
        let queue = self.queue;
        let tuples = queue.pack(layout, columns, self.rows)?;
        let (runs, distinct) = queue
            .runs(&tuples, None, Significance::MostVarying)?
            .ok_or_else(|| BowtieError::Internal("rows without a run".into()))?;
        let groups = distinct.len();
        drop((tuples, distinct));
        let (sorted, rows) = queue.runs_in_order(runs)?;
        let order = Queue::order_of_rows(rows, self.rows);
        let outs = queue.outs(self.all, groups)?;
        order.fold(queue, groups, self.all, &outs, &mut |all, outs| {
            queue.accumulate_sorted(&sorted, self.rows, groups, all, outs)
        })?;
        Ok(Folded {
            outs,
            groups,
            capacity: groups,
            strategy: Some(GroupStrategy::Sort),
        })
    }
}
