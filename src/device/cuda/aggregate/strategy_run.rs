//! [`StrategyRun`]: rows to results by group, by the keys that a directory numbers or by sorted tuples. `by_ids.rs` and `direct_address.rs` add
//! what works on ids.

use std::sync::Arc;

use crate::device::cuda::aggregate::accumulate::accumulator::{
    Accumulator, MOST_ACCUMULATORS, shared_words, with_first_row,
};
use crate::device::cuda::aggregate::accumulate::added;
use crate::device::cuda::aggregate::accumulate::launches;
use crate::device::cuda::aggregate::accumulate::shared_layout::{SharedAccumulators, Slots};
use crate::device::cuda::aggregate::choose::FEW_ROWS;
use crate::device::cuda::aggregate::choose::{ChoiceInput, SKEWED, are_slots_taken, choose};
use crate::device::cuda::aggregate::directory::{self, Directory, GroupKeys, with_capacity};
use crate::device::cuda::aggregate::partition;
use crate::device::cuda::aggregate::results::{Folded, GroupResults};
use crate::device::cuda::aggregate::sample::{self, Profile};
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::keys::pack::{self, KeyValues, Layout};
use crate::device::cuda::keys::tuples::{self, Significance};
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::runtime::stream::Stream;
use crate::error::{BowtieError, Result};
use crate::ir::strategies::{GroupStrategy, Materialization};

/// Adds rows to results by the numbers that a directory gives their keys. The second argument is the directory's
/// capacity in groups.
type FoldKeys<'f> = dyn FnMut(&Directory, usize, &[Memory]) -> Result<()> + 'f;

/// A grouped aggregation: the rows and their accumulators.
pub(crate) struct StrategyRun<'a> {
    pub(crate) stream: &'a Arc<Stream>,
    /// At least one.
    pub(crate) rows: usize,
    /// The accumulators; the first one may find the first row of each group.
    pub(crate) all: &'a [Accumulator<'a>],
    /// Whether ids or words of keys can be decoded into the keys of their groups, so that no row of each group is
    /// needed.
    pub(crate) ids_say_keys: bool,
    /// As wanted: of columns that are put in the order of partitions or keys.
    pub(crate) materialization: Option<Materialization>,
}

/// Aggregates `rows` rows by the ids of `groups` groups; the first row of each group is among the results.
pub(crate) fn accumulated_by<'k>(
    device: &CudaDevice,
    rows: usize,
    ids: &Memory,
    groups: usize,
    all: &[Accumulator<'_>],
) -> Result<GroupResults<'k>> {
    let stream = &device.stream;
    let all = &with_first_row(all);
    let run = StrategyRun {
        stream,
        rows,
        all,
        ids_say_keys: false,
        materialization: None,
    };
    Ok(run.by_ids(ids.into(), groups, true)?.with_rows())
}

impl StrategyRun<'_> {
    fn shared_bytes(&self) -> usize {
        self.stream.gpu.shared_bytes as usize
    }

    /// The keys' word, where rows can be added by keys, without ids.
    fn word<'k>(&self, keys: &'k GroupKeys<'_>) -> Option<(Part<'k>, Width)> {
        keys.word().filter(|_| self.all.len() <= MOST_ACCUMULATORS)
    }

    /// The input of [`choose`]: the profile, and the numbers of groups that fit shared memory. `range`: of ids by
    /// direct address.
    pub(crate) fn choice_input(
        &self,
        keys: &GroupKeys<'_>,
        profile: &Profile,
        range: Option<usize>,
    ) -> ChoiceInput {
        let words = shared_words(self.all);
        ChoiceInput {
            groups: profile.groups,
            largest: profile.largest,
            unseen: profile.unseen,
            range,
            whole: SharedAccumulators::most_whole(words, self.shared_bytes()),
            places: SharedAccumulators::most(words, self.shared_bytes()),
            slots: match self.word(keys) {
                Some((_, bits)) => Slots::most((words, bits.bytes()), self.shared_bytes()),
                None => 0,
            },
        }
    }

    /// Whether ids of this range are added in shared memory without a sample of the keys. A heavy key does no harm
    /// where each lane has its own accumulator, and little harm where the rows are few.
    pub(crate) fn needs_no_sample(&self, range: usize) -> bool {
        let places = SharedAccumulators::of(range, shared_words(self.all), self.shared_bytes());
        let all_hot = places.hot >= range;
        all_hot || (places.groups() >= range && self.rows <= FEW_ROWS)
    }

    /// Whether two teams of blocks hold accumulators in shared memory for most ids of this range, but not for all.
    pub(crate) fn exceeds_teams(&self, range: usize) -> bool {
        let places = SharedAccumulators::of(range, shared_words(self.all), self.shared_bytes());
        places.teams > 1 && places.groups() < range
    }

    /// Whether shared memory holds accumulators for most ids of this range.
    pub(crate) fn fits_shared(&self, range: usize) -> bool {
        SharedAccumulators::of(range, shared_words(self.all), self.shared_bytes()).holds(range)
    }

    /// By the given strategy, or by the one chosen from a sample of the keys.
    pub(crate) fn by_words(
        &self,
        keys: &GroupKeys<'_>,
        strategy: Option<GroupStrategy>,
    ) -> Result<Folded> {
        let profile = sample::profile(self.stream, keys, self.rows)?;
        let run = self.by_directory();
        let choose = || match choose(&run.choice_input(keys, &profile, None)).strategy {
            // Without accumulators there is no contention.
            GroupStrategy::SortDictionary if run.all.is_empty() => GroupStrategy::HashGlobal,
            chosen => chosen,
        };
        self.by_keys(keys, &profile, strategy.unwrap_or_else(choose))
    }

    /// Without the accumulator of first rows, which is the first one, where words of keys can be decoded into the keys.
    pub(crate) fn by_directory(&self) -> Self {
        match self.ids_say_keys {
            true => Self {
                all: &self.all[1..],
                ..*self
            },
            false => Self { ..*self },
        }
    }

    /// By keys that a directory numbers. `Folded::words` is set only where words can be decoded into the keys.
    pub(crate) fn by_keys(
        &self,
        keys: &GroupKeys<'_>,
        profile: &Profile,
        strategy: GroupStrategy,
    ) -> Result<Folded> {
        if self.ids_say_keys {
            return self
                .by_directory()
                .by_numbered_keys(keys, profile, strategy);
        }
        let folded = self.by_numbered_keys(keys, profile, strategy)?;
        Ok(Folded {
            words: None,
            ..folded
        })
    }

    fn by_numbered_keys(
        &self,
        keys: &GroupKeys<'_>,
        profile: &Profile,
        strategy: GroupStrategy,
    ) -> Result<Folded> {
        let strategy = match strategy {
            // Long partitions are for another strategy (\[W\] 4.3).
            GroupStrategy::Partition if !self.has_even_partitions(profile) => {
                match choose(&self.choice_input(keys, profile, None)).strategy {
                    GroupStrategy::Partition => GroupStrategy::HashGlobal,
                    other => other,
                }
            }
            given => given,
        };
        match (strategy, self.word(keys)) {
            (GroupStrategy::HashShared, Some(word)) if self.fits_mostly(word, profile) => {
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
            (GroupStrategy::Partition, Some(word)) => match self.by_part_tables(word, profile)? {
                Some(folded) => Ok(folded),
                None => self.by_partitioned_keys(keys, word, profile.limit),
            },
            _ => {
                let (ids, groups, words) =
                    directory::hashed_groups(self.stream, keys, self.rows, profile.limit)?;
                let folded = match strategy {
                    GroupStrategy::HashShared => self.by_ids((&ids).into(), groups, true)?,
                    GroupStrategy::HashGlobal | GroupStrategy::Runs => {
                        self.by_ids((&ids).into(), groups, false)?
                    }
                    GroupStrategy::Partition => self.by_partitioned_ids((&ids).into(), groups)?,
                    GroupStrategy::Sort | GroupStrategy::SortDictionary => {
                        self.by_sorted_ids(&ids, groups, GroupStrategy::SortDictionary)?
                    }
                };
                Ok(Folded {
                    words: Some(words),
                    ..folded
                })
            }
        }
    }

    /// Whether a table of keys in shared memory is better for these groups than accumulators by id: it holds all keys,
    /// or shared memory does not hold the accumulators of most ids either.
    fn fits_mostly(&self, (_, bits): (Part<'_>, Width), profile: &Profile) -> bool {
        let words = shared_words(self.all);
        let bytes = self.shared_bytes();
        let holds_all = profile.groups <= Slots::most((words, bits.bytes()), bytes)
            && !are_slots_taken(profile.largest, profile.unseen);
        holds_all || profile.groups > SharedAccumulators::most(words, bytes)
    }

    fn by_table(
        &self,
        keys: &GroupKeys<'_>,
        word: (Part<'_>, Width),
        limit: usize,
        slots: &Slots,
    ) -> Result<Folded> {
        let fold = &mut |directory: &Directory, limit, outs: &[Memory]| {
            let table = (directory, limit);
            launches::accumulate_table(self.stream, word, self.rows, table, self.all, outs, slots)
        };
        Ok(self
            .with_directory(keys, limit, fold)?
            .by(GroupStrategy::HashGlobal))
    }

    fn by_partitioned_keys(
        &self,
        keys: &GroupKeys<'_>,
        word: (Part<'_>, Width),
        limit: usize,
    ) -> Result<Folded> {
        let (partitioned, order) = partition::partition_keys(
            self.stream,
            word,
            self.rows,
            self.all,
            self.materialization,
        )?;
        let bits = word.1;
        let fold = &mut |directory: &Directory, limit, outs: &[Memory]| {
            order.fold(self.stream, limit, self.all, outs, &mut |all, outs| {
                let table = (directory, limit);
                let word = (Part::from(&partitioned), bits);
                launches::accumulate_table(
                    self.stream,
                    word,
                    self.rows,
                    table,
                    all,
                    outs,
                    &Slots::NONE,
                )
            })
        };
        Ok(self
            .with_directory(keys, limit, fold)?
            .materialized(order.materialization())
            .by(GroupStrategy::Partition))
    }

    /// Results by the numbers of a directory, with a larger directory as long as there are more groups than `limit`.
    fn with_directory(
        &self,
        keys: &GroupKeys<'_>,
        limit: usize,
        fold: &mut FoldKeys<'_>,
    ) -> Result<Folded> {
        with_capacity(self.rows, limit, |limit| {
            let directory = Directory::new(self.stream, keys, limit)?;
            let outs = added::outs(self.stream, self.all, limit)?;
            fold(&directory, limit, &outs)?;
            let groups = directory.groups(self.stream)?;
            Ok(groups.map(|groups| Folded {
                capacity: limit,
                words: Some(directory.into_members()),
                ..Folded::of(outs, groups)
            }))
        })
    }

    pub(crate) fn by_sorted_tuples(
        &self,
        layout: &Layout,
        columns: &[KeyValues<'_>],
    ) -> Result<Folded> {
        let stream = self.stream;
        let tuples = pack::pack(stream, layout, columns, self.rows)?;
        let (runs, distinct) = tuples::runs(stream, &tuples, None, Significance::MostVarying)?
            .ok_or_else(|| BowtieError::Internal("rows without groups".into()))?;
        let groups = distinct.len();
        drop((tuples, distinct));
        let (sorted, rows) = tuples::runs_in_order(stream, runs)?;
        let order = partition::order_of_rows(rows, self.rows);
        let outs = added::outs(stream, self.all, groups)?;
        order.fold(stream, groups, self.all, &outs, &mut |all, outs| {
            launches::accumulate_sorted(stream, &sorted, self.rows, groups, all, outs)
        })?;
        let folded = Folded::of(outs, groups).materialized(order.materialization());
        Ok(folded.by(GroupStrategy::Sort))
    }
}
