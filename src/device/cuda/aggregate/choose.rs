//! How an aggregation on a GPU chooses its strategy: the questions of \[W\] figure 21 in its order, with other
//! strategies at its leaves and rates of our own kernels.
//!
//! One SUM of 64 bits by keys of 32, G rows/s at 2^28 uniform rows on an H200:
//!
//! | groups | ids by direct address: shared, clusters, global | partitioned ids | keys: shared, global | partitioned keys |
//! |---|---|---|---|---|
//! | 2^4 | 294 | | 220 | |
//! | 2^12 | 297 | | 164 | |
//! | 2^14 | 296 | | 93 | |
//! | 2^16 | 126 (two teams), 156, 82 | | 55 | |
//! | 2^18 | –, 114, 84 | | –, 46 | |
//! | 2^20 | –, 113, 82 | | –, 42 | |
//! | 2^22 | –, 81, 66 | | | 35 |
//! | 2^24 | –, –, 20 | 45 | –, 11 | 28 |
//! | 2^26 | –, –, 14 | 40 | –, 8 | 28 |
//!
//! Figure 21 asks, in this order: must the output be sorted; do the groups fit shared memory (HGB); are keys skewed
//! (sort), or not (PGB, for keys of one word). Rows in an order of their keys, with many groups, are runs before any of that: 131 G rows/s at 2^24
//! groups. The branch of an ORDER BY with the same keys is missing: groups come out in any order. No
//! aggregate here needs sorted rows: those of DataFusion that do are declined.
//!
//! Between shared memory and partitioning there is global memory. It is as fast as the L2 cache while the accumulators
//! fit the cache, and clusters of blocks hold a share of the accumulators beside it (`cluster.rs`), if no id in global
//! memory has many rows.
//!
//! Skewed keys whose rows are nearly all of sampled keys get the slots in shared memory: 85 G rows/s for 2^16 keys in a
//! Zipf distribution of exponent 1.5. With many rows of unsampled keys too, some frequent key finds its slot occupied,
//! and its rows contend in global memory: 4 to 15 G rows/s at exponent 1.25. Then keys are numbered first. Their
//! numbers have accumulators in shared memory (52 G rows/s), or are too many for it and are sorted (sort_dict, 20 G
//! rows/s whatever the keys).

use crate::ir::strategies::GroupStrategy;

/// Below this number of rows a sample takes longer than a better strategy can save.
pub(crate) const FEW_ROWS: usize = 1 << 22;

/// With at most this many ids, rows that are added concurrently contend for the same accumulators in global memory.
pub(crate) const FEW_IN_GLOBAL: usize = 1 << 12;

/// The same for partitioned rows, whose ids are close to one another.
pub(crate) const FEW_PARTITIONED: usize = 1 << 20;

/// The input of the choice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChoiceInput {
    /// The number of groups, estimated from the sample.
    pub(crate) groups: usize,
    /// The share of the rows that the largest group has.
    pub(crate) largest: f64,
    /// The share of the rows whose groups the sample did not see.
    pub(crate) unseen: f64,
    /// The exclusive upper bound of ids by direct address; `None` where the keys have no such ids.
    pub(crate) range: Option<usize>,
    /// The largest number of groups whose accumulators all fit shared memory by id.
    pub(crate) whole: usize,
    /// The largest number of groups whose accumulators mostly (four in five) fit shared memory by id.
    pub(crate) places: usize,
    /// The largest number of groups that fit shared memory by key; 0 where keys are numbered first.
    pub(crate) slots: usize,
}

/// Whether frequent and unsampled keys compete for slots: rare keys that come first occupy slots of frequent ones.
pub(crate) fn are_slots_taken(largest: f64, unseen: f64) -> bool {
    largest >= SKEWED && unseen > FEW_UNSEEN
}

/// A strategy, and the ids it works on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Choice {
    pub(crate) strategy: GroupStrategy,
    /// Whether ids by direct address are used. Otherwise the keys are, or numbers that hashing gives them.
    pub(crate) direct: bool,
}

/// Above this number of ids by direct address partitioning is faster: 81 and 20 G rows/s at 2^22 and 2^24 groups
/// without it, 45 at 2^24 with it.
const MOST_IDS_AT_ONCE: usize = 5 << 20;
/// The same for other keys: 42 G rows/s at 2^20 and 11 at 2^24 without partitioning, 28 at 2^24 with it.
const MOST_GROUPS_AT_ONCE: usize = 1 << 21;
/// Up to this number of groups, keys in shared memory are far faster than ids in global memory: 93 beside 82 to 86 G
/// rows/s at 2^14.
const FEW_AMONG_IDS: usize = 1 << 13;
/// A key with this share of the rows makes a partition wait for its atomics: one address takes at most two per
/// nanosecond. In a Zipf distribution of exponent 1, from which on \[W\] calls keys skewed, the first of 2^24 keys has
/// 0.058 of the rows.
pub(crate) const SKEWED: f64 = 0.05;
/// The largest share of rows of unsampled keys with which slots in shared memory are used for skewed keys. For 2^16
/// keys in a Zipf distribution the sample misses 2.4 % at exponent 1.5, and 7.3 % at 1.25.
const FEW_UNSEEN: f64 = 0.03;
/// Rows of one id contend in shared memory too: 32 lanes with one id take about four times as long as lanes with
/// different ids.
const HEAVY: f64 = 0.25;
/// One address in global memory takes 1.2 atomics per nanosecond: 2^28 rows with 5 % of them in one id there take 11.7
/// ms instead of 1.6, and with 3 % as long as by keys, whose heavy ones have slots in shared memory. Whether an id's
/// accumulator is in shared memory depends on its number alone.
pub(crate) const WAITED_FOR: f64 = 0.03;

/// The strategy for keys with this profile.
pub(crate) fn choose(seen: &ChoiceInput) -> Choice {
    use crate::ir::strategies::GroupStrategy::*;
    let skewed = seen.largest >= SKEWED;
    let few = seen.groups <= seen.slots.min(FEW_AMONG_IDS);
    // Whether no id is contended in global memory, if its accumulator is there. Partitioned keys have no slots for
    // heavy ones either.
    let even = match seen.groups <= MOST_GROUPS_AT_ONCE {
        true => seen.largest < WAITED_FOR,
        false => !skewed,
    };
    match seen.range {
        Some(range)
            if (range <= seen.whole && seen.largest < HEAVY) || (range <= seen.places && even) =>
        {
            Choice {
                strategy: HashShared,
                direct: true,
            }
        }
        Some(range) if !few && even => Choice {
            strategy: match range <= MOST_IDS_AT_ONCE {
                true => HashGlobal,
                false => Partition,
            },
            direct: true,
        },
        _ => Choice {
            strategy: match seen.groups <= seen.slots.max(seen.places) {
                _ if are_slots_taken(seen.largest, seen.unseen) && seen.groups > seen.places => {
                    SortDictionary
                }
                true => HashShared,
                false if skewed || seen.groups <= MOST_GROUPS_AT_ONCE => HashGlobal,
                false => Partition,
            },
            direct: false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::strategies::GroupStrategy::*;

    fn chosen(groups: usize, range: Option<usize>, largest: f64) -> (GroupStrategy, bool) {
        let Choice { strategy, direct } = choose(&ChoiceInput {
            groups,
            largest,
            unseen: if groups > 100_000 { 0.2 } else { 0.0 },
            range,
            whole: 32_000,
            places: 36_000,
            slots: 14_000,
        });
        (strategy, direct)
    }

    #[test]
    fn few_groups_are_in_shared_memory() {
        for groups in [1, 16, 4096, 14_000] {
            assert_eq!(chosen(groups, None, 0.0), (HashShared, false));
            assert_eq!(chosen(groups, Some(groups), 0.0), (HashShared, true));
        }
        assert_eq!(chosen(1, None, 1.0), (HashShared, false));
        assert_eq!(chosen(30_000, Some(30_000), 0.1), (HashShared, true));
        // Hot slots, or the first numbers, absorb the rows that would contend for one id.
        assert_eq!(chosen(30_000, Some(30_000), 0.9), (HashShared, false));
        // The same with the accumulator in global memory.
        assert_eq!(chosen(34_000, Some(34_000), 0.02), (HashShared, true));
        assert_eq!(chosen(34_000, Some(34_000), 0.1), (HashShared, false));
        // Keys without slots are numbered first, and have their accumulators by number.
        let numbered = ChoiceInput {
            groups: 20_000,
            largest: 0.0,
            unseen: 0.0,
            range: None,
            whole: 32_000,
            places: 36_000,
            slots: 0,
        };
        assert_eq!(choose(&numbered).strategy, HashShared);
    }

    #[test]
    fn more_are_in_global_memory_and_the_most_in_parts() {
        assert_eq!(chosen(1 << 20, None, 0.0), (HashGlobal, false));
        assert_eq!(chosen(1 << 20, Some(1 << 20), 0.0), (HashGlobal, true));
        assert_eq!(chosen(1 << 24, None, 0.0), (Partition, false));
        assert_eq!(chosen(1 << 24, Some(1 << 24), 0.0), (Partition, true));
        assert_eq!(chosen(1 << 20, Some(1 << 20), 0.02), (HashGlobal, true));
        assert!(!chosen(1 << 20, Some(1 << 20), 0.04).1);
        // Keys would contend as much.
        assert_eq!(chosen(1 << 24, Some(1 << 24), 0.04), (Partition, true));
    }

    #[test]
    fn skew_and_gaps_are_for_tables() {
        // The share of the largest key in a Zipf distribution of exponent 1.
        assert_eq!(chosen(1 << 24, None, 0.058), (SortDictionary, false));
        assert_eq!(
            chosen(1 << 24, Some(1 << 24), 0.058),
            (SortDictionary, false)
        );
        assert_eq!(chosen(1 << 20, Some(1 << 20), 0.3), (SortDictionary, false));
        assert_eq!(chosen(6_000, None, 0.3), (HashShared, false));
        // A thousand keys in a range of a million ids.
        assert_eq!(chosen(1000, Some(1 << 20), 0.0), (HashShared, false));
    }
}
