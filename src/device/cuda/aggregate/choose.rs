//! How an aggregation groups its rows on a GPU when nobody says: the decision tree of \[W\] figure 21, with rates of our own kernels.
//!
//! One SUM of 64 bits by keys of 32, G rows/s at 2^28 uniform rows on an H200:
//!
//! | groups | ids by direct address: shared, clusters, global | parts of ids | keys: shared, global | parts of keys |
//! |---|---|---|---|---|
//! | 2^4 | 294 | | 220 | |
//! | 2^12 | 297 | | 164 | |
//! | 2^14 | 296 | | 93 | |
//! | 2^16 | 126 (two teams), 156, 82 | | 55 | |
//! | 2^18 | –, 114, 84 | | –, 46 | |
//! | 2^20 | –, 113, 82 | | –, 42 | |
//! | 2^22 | –, 81, 66 | | | 29 |
//! | 2^24 | –, –, 20 | 45 | –, 11 | 27 |
//! | 2^26 | –, –, 14 | 40 | –, 8 | 18 |
//!
//! Figure 21 asks, in this order: must it be sorted; do the groups fit shared memory (HGB); are keys skewed (sort), or not (PGB).
//! No fold here must be sorted: those of DataFusion that must are declined. And between shared memory and parts there is global
//! memory, which holds its own as long as the second-level cache does, and beside which clusters of blocks have a share of the ids
//! (`cluster.rs`), as long as no id there has many rows. Where keys are skewed, and nearly all rows are of keys that a sample shows,
//! the slots in shared memory take them: 85 G rows/s of 2^16 keys by Zipf's distribution of exponent 1.5. Where many rows are of others
//! too, some frequent key finds its slot taken, and its rows wait for one another in global memory: 4 to 15 G rows/s at exponent 1.25.
//! Then keys are numbered first, and their numbers have places in shared memory (52 G rows/s), or are too many for that and are sorted
//! (SGB-DE, 20 G rows/s whatever the keys).

use crate::ir::strategies::GroupStrategy;

/// What the choice sees.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    /// Estimated.
    pub(crate) groups: usize,
    /// The share of the rows that the largest group has.
    pub(crate) largest: f64,
    /// The share of the rows whose groups a sample did not see.
    pub(crate) unseen: f64,
    /// Ids by direct address, if keys have them, are below this.
    pub(crate) range: Option<usize>,
    /// Groups that all have room in shared memory by id.
    pub(crate) whole: usize,
    /// Groups of which most have.
    pub(crate) places: usize,
    /// Groups that have room in shared memory by key; 0 where keys are numbered first.
    pub(crate) slots: usize,
}

/// Whether some key has many rows, but not it alone and others of many: then slots are taken by keys that come before some frequent one.
pub(crate) fn are_slots_taken(largest: f64, unseen: f64) -> bool {
    largest >= SKEWED && unseen > FEW_UNSEEN
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Choice {
    pub(crate) strategy: GroupStrategy,
    pub(crate) direct: bool,
}

/// Beyond so many ids by direct address parts are faster: 81 and 20 G rows/s at 2^22 and 2^24 groups, and parts' 45 at 2^24.
const MOST_IDS_AT_ONCE: usize = 5 << 20;
/// The same of other keys: 42 at 2^20, and 11 at 2^24 beside parts' 27.
const MOST_GROUPS_AT_ONCE: usize = 1 << 21;
/// Groups up to which keys in shared memory beat ids in global memory by far: 93 beside 82 to 86 at 2^14.
const FEW_AMONG_IDS: usize = 1 << 13;
/// A key of so many rows makes parts wait for its atomics, of which one address takes two in a nanosecond at most. With Zipf's
/// distribution of exponent 1, where \[W\] begins to call keys skewed, the first of 2^24 keys has 0.058 of the rows.
pub(crate) const SKEWED: f64 = 0.05;
/// Rows of keys that a sample does not show, at most, where slots are for those that it shows. Of 2^16 keys by Zipf's distribution it
/// leaves out 2.4 % at exponent 1.5, and 7.3 % at 1.25.
const FEW_UNSEEN: f64 = 0.03;
/// Rows of one id wait for one another in shared memory too: 32 lanes take about four times as long as when they differ.
const HEAVY: f64 = 0.25;
/// An address in global memory takes 1.2 atomics in a nanosecond: 2^28 rows of which an id there has 5 % take 11.7 ms instead of 1.6, and at
/// 3 % as long as by keys, whose heavy ones have slots in shared memory. Which ids have places there depends on their numbers alone.
pub(crate) const WAITED_FOR: f64 = 0.03;

/// The strategy for keys of which this was seen.
pub(crate) fn choose(seen: &Seen) -> Choice {
    use crate::ir::strategies::GroupStrategy::*;
    let skewed = seen.largest >= SKEWED;
    let few = seen.groups <= seen.slots.min(FEW_AMONG_IDS);
    // Whether no id is waited for in global memory, if it has its place there. Parts of keys have no slots for heavy ones either.
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
        let Choice { strategy, direct } = choose(&Seen {
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
        // Hot slots, or the first numbers, take what one id would have to wait for.
        assert_eq!(chosen(30_000, Some(30_000), 0.9), (HashShared, false));
        // Or in global memory, where it may have its place.
        assert_eq!(chosen(34_000, Some(34_000), 0.02), (HashShared, true));
        assert_eq!(chosen(34_000, Some(34_000), 0.1), (HashShared, false));
        // Without slots of their own, keys are numbered and then lie where ids do.
        let numbered = Seen {
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
        // Keys would wait no less.
        assert_eq!(chosen(1 << 24, Some(1 << 24), 0.04), (Partition, true));
    }

    #[test]
    fn skew_and_gaps_are_for_tables() {
        // The largest of Zipf's distribution of exponent 1.
        assert_eq!(chosen(1 << 24, None, 0.058), (SortDictionary, false));
        assert_eq!(
            chosen(1 << 24, Some(1 << 24), 0.058),
            (SortDictionary, false)
        );
        assert_eq!(chosen(1 << 20, Some(1 << 20), 0.3), (SortDictionary, false));
        assert_eq!(chosen(6_000, None, 0.3), (HashShared, false));
        // A thousand keys among a million ids.
        assert_eq!(chosen(1000, Some(1 << 20), 0.0), (HashShared, false));
    }
}
