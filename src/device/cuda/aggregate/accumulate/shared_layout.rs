//! The layout of accumulators in a block's shared memory: [`SharedAccumulators`] by id (`kernels/aggregate/group_dense.cu`),
//! [`Slots`] by key (`kernels/aggregate/group_table.cu`).

/// How a launch of `group_dense` distributes groups over shared memory.
#[derive(Debug, PartialEq)]
pub(crate) struct SharedAccumulators {
    /// Groups with an accumulator for each lane: the lowest ids. Hashing gives them to frequent keys, as these come
    /// early.
    pub(crate) hot: usize,
    /// Groups with one accumulator.
    pub(crate) plain: usize,
    /// The number of teams of blocks. A team holds its share of the groups in the shared memory of each of its blocks.
    pub(crate) teams: usize,
}

/// Each team reads all ids once. On an H200 two teams add 126 G rows/s to 2^16 groups, three added 74, and
/// atomics in global memory only 86 to 2^20 groups.
const MOST_TEAMS: usize = 2;
const HOT: usize = 64;
/// Hot groups where shared memory does not hold all groups.
const FEW_HOT: usize = 8;
const LANES: usize = 32;

/// Accumulators that fit `bytes` of shared memory, minus `LANES` dummies for rows without an accumulator. One word each
/// where nothing is accumulated.
fn places(words: usize, bytes: usize) -> usize {
    (bytes / 4 / words.max(1)).saturating_sub(LANES)
}

impl SharedAccumulators {
    /// For accumulators of `words` words per group, in `bytes` of shared memory.
    pub(crate) fn of(groups: usize, words: usize, bytes: usize) -> Self {
        let places = places(words, bytes);
        let even = |n: usize| n.next_multiple_of(2);
        if groups * LANES <= places {
            return Self {
                hot: groups,
                plain: 0,
                teams: 1,
            };
        }
        let hot = HOT.min(places / 2 / LANES);
        let most = hot + (places - hot * LANES) / 2 * 2;
        let teams = groups.div_ceil(most.max(1));
        match teams <= MOST_TEAMS {
            true => Self {
                hot,
                plain: even(groups.div_ceil(teams).saturating_sub(hot)),
                teams,
            },
            // Most groups, with fewer hot ones.
            false if groups <= Self::most(words, bytes) => Self {
                hot: FEW_HOT.min(hot),
                plain: (places - FEW_HOT.min(hot) * LANES) / 2 * 2,
                teams: MOST_TEAMS,
            },
            false => Self {
                hot,
                plain: 0,
                teams: 1,
            },
        }
    }

    /// With all plain accumulators in global memory: the hot ones are for groups of many rows.
    pub(crate) fn global(words: usize, bytes: usize) -> Self {
        let places = places(words, bytes);
        Self {
            hot: HOT.min(places / 2 / LANES),
            plain: 0,
            teams: 1,
        }
    }

    /// The most groups all of which fit shared memory.
    pub(crate) fn most_whole(words: usize, bytes: usize) -> usize {
        let places = places(words, bytes);
        let hot = HOT.min(places / 2 / LANES);
        MOST_TEAMS * (hot + (places - hot * LANES) / 2 * 2)
    }

    /// The most groups of which four in five fit shared memory.
    pub(crate) fn most(words: usize, bytes: usize) -> usize {
        let places = places(words, bytes);
        let hot = FEW_HOT.min(places / 2 / LANES);
        MOST_TEAMS * (hot + (places - hot * LANES) / 2 * 2) * 5 / 4
    }

    /// Whether shared memory holds most (four in five) of the groups.
    pub(crate) fn holds(&self, groups: usize) -> bool {
        5 * self.groups() >= 4 * groups
    }

    /// The number of groups in shared memory.
    pub(crate) fn groups(&self) -> usize {
        self.teams * (self.hot + self.plain)
    }

    /// Bytes of shared memory, dummies included.
    pub(crate) fn bytes(&self, words: usize) -> usize {
        4 * words * (LANES * self.hot + self.plain + LANES)
    }
}

/// A hash table of keys with accumulators in a block's shared memory.
#[derive(Debug, PartialEq)]
pub(crate) struct Slots {
    /// Keys with an accumulator for each lane: none, or a power of two.
    pub(crate) hot: usize,
    /// Keys with one accumulator: a multiple of 4.
    pub(crate) plain: usize,
}

/// Slots per group where shared memory allows: a key that finds the few slots of its window occupied goes to global
/// memory. On an H200 one sum of 2^12 groups runs at 164 G rows/s with four.
const SLOTS_PER_GROUP: usize = 4;
/// With at most this many groups, rows of a warp often have the same group and contend: most groups get hot slots, two
/// for each group. With more groups, hot slots cost 5 % where no key has many rows.
const FEW_GROUPS: usize = 256;

impl Slots {
    /// For `groups` groups, with accumulators of `words` words per group and keys of `key` bytes, in `bytes` of shared
    /// memory. `skewed`: some keys have a great part of the rows.
    pub(crate) fn of(
        groups: usize,
        skewed: bool,
        (words, key): (usize, usize),
        bytes: usize,
    ) -> Self {
        let hot = match groups <= FEW_GROUPS {
            // Two thirds of the shared memory for hot slots.
            true => Self::hot(
                (2 * groups).next_power_of_two().max(HOT),
                (words, key),
                bytes / 3 * 2,
            ),
            false if skewed => Self::global((words, key), bytes).hot,
            false => 0,
        };
        let left = bytes.saturating_sub(Self { hot, plain: 0 }.bytes(words, key));
        let most = left / (4 * words + key);
        let wanted = (SLOTS_PER_GROUP * groups).max(256);
        Self {
            hot,
            plain: wanted.min(most) / 4 * 4,
        }
    }

    /// Without plain slots.
    pub(crate) fn global(widths: (usize, usize), bytes: usize) -> Self {
        Self {
            hot: Self::hot(HOT, widths, bytes / 2),
            plain: 0,
        }
    }

    /// The number of hot slots: `most`, halved until they fit.
    fn hot(most: usize, (words, key): (usize, usize), bytes: usize) -> usize {
        let mut slots = Self {
            hot: most,
            plain: 0,
        };
        while slots.hot > 0 && slots.bytes(words, key) > bytes {
            slots.hot /= 2;
        }
        slots.hot
    }

    /// Without any slots, where rows of a key are adjacent anyway.
    pub(crate) const NONE: Self = Self { hot: 0, plain: 0 };

    /// The most plain slots.
    pub(crate) fn most((words, key): (usize, usize), bytes: usize) -> usize {
        bytes.saturating_sub(Self::NONE.bytes(words, key)) / (4 * words + key) / 4 * 4
    }

    /// Bytes of shared memory, two dummies for each lane included.
    pub(crate) fn bytes(&self, words: usize, key: usize) -> usize {
        4 * words * (LANES * (self.hot + 2) + self.plain) + key * (self.hot + self.plain) + 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_places_while_there_are_some() {
        let bytes = 227 << 10;
        for words in [0, 1, 3, 8, 40, 128] {
            for groups in [
                1,
                2,
                63,
                64,
                65,
                1000,
                4096,
                20_000,
                50_000,
                200_000,
                1 << 24,
            ] {
                let places = SharedAccumulators::of(groups, words, bytes);
                assert!(places.bytes(words) <= bytes, "{places:?}");
                assert!(places.plain.is_multiple_of(2));
                assert!(
                    places.holds(groups) || places.plain == 0,
                    "{groups}: {places:?}"
                );
            }
        }
        assert_eq!(SharedAccumulators::global(3, bytes).plain, 0);
        let few = SharedAccumulators::of(4, 3, bytes);
        assert_eq!((few.hot, few.plain, few.teams), (4, 0, 1));
        let most = SharedAccumulators::most(3, bytes);
        assert!(SharedAccumulators::of(most, 3, bytes).holds(most));
        assert_eq!(SharedAccumulators::of(most + 1, 3, bytes).plain, 0);
    }

    #[test]
    fn slots_fit() {
        for bytes in [64 << 10, 227 << 10] {
            for words in [0, 1, 3, 8, 40, 128] {
                for key in [4, 8] {
                    for groups in [1, 64, 65, 4096, 20_000, 1 << 24] {
                        for skewed in [false, true] {
                            let slots = Slots::of(groups, skewed, (words, key), bytes);
                            assert!(slots.bytes(words, key) <= bytes, "{slots:?}");
                            assert!(slots.hot == 0 || slots.hot.is_power_of_two());
                            assert!(slots.plain.is_multiple_of(4));
                        }
                    }
                    assert!(Slots::global((words, key), bytes).bytes(words, key) <= bytes);
                }
            }
        }
        assert_eq!(Slots::of(4096, false, (2, 4), 227 << 10).plain, 4 * 4096);
    }
}
