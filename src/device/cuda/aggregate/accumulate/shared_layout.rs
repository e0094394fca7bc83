//! Where the groups of an aggregation have their accumulators in shared memory: [`Places`] by id (`kernels/aggregate/group_dense.cu`),
//! [`Slots`] by key (`kernels/aggregate/group_table.cu`).

/// How a launch of `group_dense` places groups in shared memory.
#[derive(Debug, PartialEq)]
pub(crate) struct Places {
    /// Groups with a place for each lane: those of many rows, which come early.
    pub(crate) hot: usize,
    /// Groups with one place.
    pub(crate) plain: usize,
    /// So many blocks share the groups out among them.
    pub(crate) teams: usize,
}

/// Teams read the ids once each. On an H200 two of them add 126 G rows/s to 2^16 groups, three added 74, and atomics in global
/// memory alone 86 to 2^20 groups.
const MOST_TEAMS: usize = 2;
const HOT: usize = 64;
/// Where not all groups have a place.
const FEW_HOT: usize = 8;
const LANES: usize = 32;

/// Places that there is room for, but those of waste; as if of a word each where nothing is accumulated.
fn places(words: usize, bytes: usize) -> usize {
    (bytes / 4 / words.max(1)).saturating_sub(LANES)
}

impl Places {
    /// For accumulators of so many words together in `bytes` of shared memory.
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
            // Most of them, with fewer hot ones.
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

    /// Where all others are in global memory: the hot places are for keys of many rows.
    pub(crate) fn global(words: usize, bytes: usize) -> Self {
        let places = places(words, bytes);
        Self {
            hot: HOT.min(places / 2 / LANES),
            plain: 0,
            teams: 1,
        }
    }

    /// Most groups of which all have places.
    pub(crate) fn most_whole(words: usize, bytes: usize) -> usize {
        let places = places(words, bytes);
        let hot = HOT.min(places / 2 / LANES);
        MOST_TEAMS * (hot + (places - hot * LANES) / 2 * 2)
    }

    /// Most groups of which four in five have places.
    pub(crate) fn most(words: usize, bytes: usize) -> usize {
        let places = places(words, bytes);
        let hot = FEW_HOT.min(places / 2 / LANES);
        MOST_TEAMS * (hot + (places - hot * LANES) / 2 * 2) * 5 / 4
    }

    /// Whether most of so many groups have places.
    pub(crate) fn holds(&self, groups: usize) -> bool {
        5 * self.groups() >= 4 * groups
    }

    /// Groups that have places.
    pub(crate) fn groups(&self) -> usize {
        self.teams * (self.hot + self.plain)
    }

    pub(crate) fn bytes(&self, words: usize) -> usize {
        4 * words * (LANES * self.hot + self.plain + LANES)
    }
}

/// A table of keys in a block's shared memory.
#[derive(Debug, PartialEq)]
pub(crate) struct Slots {
    /// Of keys with a place for each lane: none, or a power of two.
    pub(crate) hot: usize,
    /// Of keys with one place: a multiple of 4.
    pub(crate) plain: usize,
}

/// Slots a group where there is room for them: keys that find the few of their window taken go to global memory. On an H200 one
/// sum of 2^12 groups takes 164 G rows/s with four.
const SLOTS_PER_GROUP: usize = 4;
/// Of so few groups rows of a warp often have the same, and wait for one another: most have hot slots, two for each group. Beyond, hot
/// slots cost 5 % where no key has many rows.
const FEW_GROUPS: usize = 256;

impl Slots {
    /// For so many groups, with accumulators of so many words together and keys of `key` bytes, in `bytes` of shared memory.
    /// `skewed`: some keys have a great part of the rows.
    pub(crate) fn of(
        groups: usize,
        skewed: bool,
        (words, key): (usize, usize),
        bytes: usize,
    ) -> Self {
        let hot = match groups <= FEW_GROUPS {
            // Two thirds of the shared memory for them.
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

    /// So many hot slots, or as many as there is room for.
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

    /// Without any: where rows of a key come together anyway.
    pub(crate) const NONE: Self = Self { hot: 0, plain: 0 };

    /// Most plain slots.
    pub(crate) fn most((words, key): (usize, usize), bytes: usize) -> usize {
        bytes.saturating_sub(Self::NONE.bytes(words, key)) / (4 * words + key) / 4 * 4
    }

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
                let places = Places::of(groups, words, bytes);
                assert!(places.bytes(words) <= bytes, "{places:?}");
                assert!(places.plain.is_multiple_of(2));
                assert!(
                    places.holds(groups) || places.plain == 0,
                    "{groups}: {places:?}"
                );
            }
        }
        assert_eq!(Places::global(3, bytes).plain, 0);
        let few = Places::of(4, 3, bytes);
        assert_eq!((few.hot, few.plain, few.teams), (4, 0, 1));
        let most = Places::most(3, bytes);
        assert!(Places::of(most, 3, bytes).holds(most));
        assert_eq!(Places::of(most + 1, 3, bytes).plain, 0);
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
