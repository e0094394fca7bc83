//! Grouped aggregation of rows that are partitioned by the hashes of their keys, each partition with a table in shared memory: PGB (\[W\] 4.3), by
//! `kernels/aggregate/group_part_table.cu`. In: keys of one word. Out: results by group, and each group's key.
//!
//! ```text
//! keys, columns ─► partitions, in up to two passes ─► start of each ─► groups of each, numbered by one atomic ─► results
//! ```
//!
//! Columns of 4, 8 and 16 bytes move with the keys (PGB-TR); if there are others, or NULLs, or if GFUR is wanted, row ids move,
//! and columns are gathered (PGB-UR). For extremes row ids move too: their results are rows.

use crate::device::cuda::aggregate::accumulate::accumulator::{
    Accumulator, Update, columns_of, shared_words,
};
use crate::device::cuda::aggregate::accumulate::added::{self, structure};
use crate::device::cuda::aggregate::choose::SKEWED;
use crate::device::cuda::aggregate::directory::{STATE_WORDS, groups_of_state, with_capacity};
use crate::device::cuda::aggregate::partition::{Order, moved_with};
use crate::device::cuda::aggregate::results::Folded;
use crate::device::cuda::aggregate::sample::Profile;
use crate::device::cuda::aggregate::strategy_run::StrategyRun;
use crate::device::cuda::equi::partition::{self, Depth, MOST_BITS};
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::runtime::arguments::{Structure, U64};
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::error::Result;
use crate::ir::strategies::{GroupStrategy, Materialization};

/// Rows of a partition that the number of partitions aims at.
const PARTITION_ROWS: usize = 8192;
/// Groups of a partition, on average, at most: their table leaves room for a second block.
const PARTITION_GROUPS: usize = 2048;
/// With fewer groups of more rows partitions are long, and each is the work of one block: \[W\] 4.3 sends them to another strategy.
const FEW_GROUPS: usize = 128;
const FEW_ROWS: usize = 1 << 16;
/// Threads of a block, blocks of a multiprocessor at most, and what a block has of shared memory besides.
const THREADS: u32 = 512;
const BLOCKS: usize = 2;
const STATIC_BYTES: usize = 2048;
/// Slots of a table: its group numbers have 16 bits.
const SLOTS: std::ops::RangeInclusive<usize> = 1024..=1 << 15;

/// The sizes of partitions and of their tables.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sizes {
    /// Of a partition's number.
    bits: u32,
    /// Of a table: a power of two.
    slots: usize,
    /// Accumulators in shared memory: a multiple of 32.
    plain: usize,
    /// Of a multiprocessor.
    blocks: usize,
}

/// Bits of a partition's number, for these rows and an estimate of their groups.
fn partition_bits(rows: usize, groups: usize) -> u32 {
    let by_rows = rows.div_ceil(PARTITION_ROWS);
    let by_groups = groups.div_ceil(PARTITION_GROUPS);
    let bits = by_rows.max(by_groups).next_power_of_two().trailing_zeros();
    // More partitions than groups would be empty.
    bits.min(groups.max(2).ilog2()).clamp(1, MOST_BITS)
}

impl Sizes {
    /// Tables for an estimated number of groups, with keys of `key` bytes and accumulators of `words` words; `None` if shared memory is too small.
    fn of(bits: u32, groups: usize, (key, words): (usize, usize), shared: usize) -> Option<Self> {
        let average = groups.div_ceil(1 << bits);
        // Far more than a partition deviates from the average; more where there is room, which keeps searches short.
        let tight = (average + average / 2 + 128).next_power_of_two();
        let roomy = (3 * average).next_power_of_two().max(tight);
        // Accumulators for nearly all partitions' groups, or for few: then those of others are in global memory.
        let (most, few) = (average + average / 4, LANES);
        let with = |(blocks, slots, least): (usize, usize, usize)| {
            let slots = slots.max(*SLOTS.start());
            let is_possible = slots <= *SLOTS.end();
            let of_slots = slots * (key + 2) + STATIC_BYTES;
            let places = (shared / blocks).checked_sub(of_slots)? / (4 * words.max(1));
            let plain = places.checked_sub(LANES)?.min(slots) / LANES * LANES;
            (is_possible && plain >= least.max(LANES)).then_some(Self {
                bits,
                slots,
                plain,
                blocks,
            })
        };
        let choices = [
            (BLOCKS, roomy, most),
            (BLOCKS, tight, most),
            (1, tight, most),
            (BLOCKS, tight, few),
            (1, tight, few),
        ];
        choices.into_iter().find_map(with)
    }

    fn shared_bytes(&self, key: usize, words: usize) -> usize {
        4 * words * (self.plain + LANES) + self.slots * (key + 2)
    }
}

const LANES: usize = 32;

impl StrategyRun<'_> {
    /// Whether partitions would be bounded: there are enough groups, and none has too many rows.
    pub(crate) fn has_even_partitions(&self, profile: &Profile) -> bool {
        let are_even = profile.largest < SKEWED && profile.groups >= FEW_GROUPS;
        are_even || self.rows <= FEW_ROWS
    }

    /// By tables of partitions, which are even; `None` for [`Update::FirstRow`], which needs row ids in their order, and where tables do not fit.
    /// There are at most as many accumulators as one launch takes, as each launch numbers the groups.
    pub(crate) fn by_part_tables(
        &self,
        word: (Part<'_>, Width),
        profile: &Profile,
    ) -> Result<Option<Folded>> {
        let needs_order = |of: &Accumulator<'_>| of.update == Update::FirstRow;
        if self.all.iter().any(needs_order) {
            return Ok(None);
        }
        let (stream, rows) = (self.stream, self.rows);
        let (key, words) = (word.1.bytes(), shared_words(self.all));
        let bits = partition_bits(rows, profile.groups);
        let shared = stream.gpu.shared_bytes as usize;
        let sizes = |groups: usize| Sizes::of(bits, groups, (key, words), shared);
        let Some(first) = sizes(profile.groups) else {
            return Ok(None);
        };
        let (keys, order) = self.hash_partitions(word, bits)?;
        let starts = partition::partition_starts(stream, &keys, word.1, rows, bits)?;
        let folded = with_capacity(rows, profile.limit, |limit| {
            let sizes = match limit <= profile.limit {
                true => Some(first),
                false => sizes(limit),
            };
            let Some(sizes) = sizes else {
                return Ok(Some(None));
            };
            let outs = added::outs(stream, self.all, limit)?;
            let members = stream.alloc(limit * key, "group table")?;
            let state = stream.zeroed(STATE_WORDS * 4, "group table")?;
            let parts = Structure([
                U64::from(&starts),
                U64::from(&members),
                U64::from(&state),
                U64::from((sizes.bits, limit as u32)),
                U64::from((sizes.slots as u32, sizes.plain as u32)),
            ]);
            let mut launched = false;
            order.fold(stream, limit, self.all, &outs, &mut |all, outs| {
                launched = true;
                self.add_parts(&keys, &parts, sizes, word.1, limit, all, outs)
            })?;
            if !launched {
                self.add_parts(&keys, &parts, sizes, word.1, limit, &[], &[])?;
            }
            let Some(groups) = groups_of_state(stream, &state)? else {
                // With room for the groups so far it is a table that is full.
                let so_far = stream.read_word(&state, 0)? as u32 as usize;
                return Ok((so_far <= limit || limit == rows).then_some(None));
            };
            let folded = Folded {
                capacity: limit,
                words: Some(members),
                ..Folded::of(outs, groups)
            };
            let folded = folded.materialized(order.materialization());
            Ok(Some(Some(folded.by(GroupStrategy::Partition))))
        })?;
        Ok(folded)
    }

    #[expect(clippy::too_many_arguments, reason = "a launch's")]
    fn add_parts(
        &self,
        keys: &Memory,
        parts: &Structure<5>,
        sizes: Sizes,
        width: Width,
        limit: usize,
        all: &[Accumulator<'_>],
        outs: &[Memory],
    ) -> Result<()> {
        let given = structure(all, outs, limit);
        let args = (keys.into(), parts.into(), (&given).into());
        let kernel = match width {
            Width::Four => kernels::GROUP_PART_TABLE_U32,
            Width::Eight => kernels::GROUP_PART_TABLE_U64,
        };
        let words = shared_words(all);
        let shape = Shape {
            blocks: (sizes.blocks as u32 * self.stream.gpu.multiprocessors).min(1 << sizes.bits),
            slices: 1,
            threads: THREADS,
            shared: sizes.shared_bytes(width.bytes(), words) as u32,
        };
        // SAFETY: `keys` holds mixed keys of the kernel's width in the order of their partitions, which begin at `starts`, and every column of an
        // accumulator a value and a bit for each; members and results have room for `limit` groups, and results hold their neutral elements; the state is
        // clear, and the shared memory that of the sizes.
        unsafe { self.stream.launch(kernel, shape, &args) }
    }

    /// The mixed keys in the order of their partitions, and the order for aggregation.
    fn hash_partitions(
        &self,
        (keys, width): (Part<'_>, Width),
        bits: u32,
    ) -> Result<(Memory, Order<'static>)> {
        let columns = columns_of(self.all);
        let movable = |(_, width): &(&Memory, usize)| matches!(width, 4 | 8 | 16);
        let may_move = self.materialization != Some(Materialization::Gfur);
        let moves = columns.is_empty() || (may_move && columns.iter().all(movable));
        let columns = match moves {
            true => &columns[..],
            false => &[],
        };
        let with_rows = !moves || self.all.iter().any(|of| of.update.is_row());
        let (stream, n) = (self.stream, self.rows);
        let depth = Depth::Bits(bits);
        let (keys, mut order) = moved_with(stream, (keys, width), n, (columns, with_rows), depth)?;
        if !moves {
            order = order.of_its_rows();
        }
        Ok((keys, order))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_bounded_and_tables_fit() {
        const SHARED: usize = 232_448;
        for (rows, groups, bits) in [
            (1 << 28, 1 << 24, 15),
            (1 << 28, 1 << 26, 15),
            (1 << 28, 1 << 28, 16),
            (1 << 28, 1 << 8, 8),
            (1 << 22, 1 << 20, 9),
            (1000, 500, 1),
        ] {
            assert_eq!(
                partition_bits(rows, groups),
                bits,
                "{rows} rows, {groups} groups"
            );
            let sizes = Sizes::of(bits, groups, (8, 2), SHARED).unwrap();
            assert!(sizes.slots >= groups.div_ceil(1 << bits) * 3 / 2);
            assert!(sizes.blocks * sizes.shared_bytes(8, 2) <= SHARED);
        }
        // No room for the keys.
        assert_eq!(Sizes::of(1, 1 << 16, (8, 2), SHARED), None);
    }
}
