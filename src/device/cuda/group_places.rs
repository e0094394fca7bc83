//! [`Places`]: where the groups of an aggregation have their accumulators in shared memory (`kernels/group_dense.cu`).

/// How a launch of `group_dense` places groups in shared memory.
#[derive(Debug, PartialEq)]
pub(super) struct Places {
    /// Groups with a place for each lane: those of many rows, which come early.
    pub(super) hot: usize,
    /// Groups with one place.
    pub(super) plain: usize,
    /// So many blocks share the groups out among them.
    pub(super) teams: usize,
}

/// Teams read the ids once each: more would cost what they save.
const MOST_TEAMS: usize = 8;
const HOT: usize = 64;
const LANES: usize = 32;

impl Places {
    /// For accumulators of so many words together in `bytes` of shared memory.
    pub(super) fn of(groups: usize, words: usize, bytes: usize) -> Self {
        let places = (bytes / 4 / words).saturating_sub(LANES);
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
            false => Self {
                hot,
                plain: 0,
                teams: 1,
            },
        }
    }

    pub(super) fn bytes(&self, words: usize) -> usize {
        4 * words * (LANES * self.hot + self.plain + LANES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_places_while_there_are_some() {
        let bytes = 227 << 10;
        for words in [1, 3, 8, 40, 128] {
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
                let inside = places.teams * (places.hot + places.plain);
                assert!(
                    inside >= groups || places.plain == 0,
                    "{groups}: {places:?}"
                );
            }
        }
        let few = Places::of(4, 3, bytes);
        assert_eq!((few.hot, few.plain, few.teams), (4, 0, 1));
    }
}
