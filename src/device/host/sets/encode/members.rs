//! [`Members`]: the rows of each set. Rows with equal sets may share one, which is then joined once.

/// Fewer sets are joined one by one.
const LEAST_SETS: usize = 16;

/// Counters of a sketch of hashes: it is off by two hundredths of the number of sets, as often as not by less.
const COUNTERS: usize = 1 << 12;

/// The rows of each position of encoded sets.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// The row ids, position after position.
    pub(crate) rows: Vec<u32>,
    /// Where the rows of each position begin; `None` if each position has one row.
    starts: Option<Vec<u32>>,
}

impl Members {
    /// No rows yet, with room for some. `shared`: whether a position may have several rows.
    pub(crate) fn with_capacity(rows: usize, shared: bool) -> Self {
        Self {
            rows: Vec::with_capacity(rows),
            starts: shared.then(|| Vec::with_capacity(rows)),
        }
    }

    /// Adds a row: the first of the next position.
    pub(crate) fn begin(&mut self, row: u32) {
        if let Some(starts) = &mut self.starts {
            starts.push(self.rows.len() as u32);
        }
        self.rows.push(row);
    }

    /// Adds a row to the last position. Only if positions may have several.
    pub(crate) fn add(&mut self, row: u32) {
        self.rows.push(row);
    }

    /// The number of positions.
    pub(crate) fn positions(&self) -> usize {
        self.starts.as_ref().map_or(self.rows.len(), Vec::len)
    }

    /// The rows of a position.
    #[inline]
    pub(crate) fn of(&self, position: usize) -> &[u32] {
        match &self.starts {
            None => &self.rows[position..=position],
            Some(starts) => {
                let end = starts
                    .get(position + 1)
                    .map_or(self.rows.len(), |end| *end as usize);
                &self.rows[starts[position] as usize..end]
            }
        }
    }

    /// The number of rows of a position.
    #[inline]
    pub(crate) fn count(&self, position: usize) -> u32 {
        match &self.starts {
            None => 1,
            Some(_) => self.of(position).len() as u32,
        }
    }

    /// Whether each position has one row.
    pub(crate) fn are_single(&self) -> bool {
        self.starts.is_none()
    }

    /// The rows that share the set of another row.
    pub(crate) fn repeats(&self) -> u64 {
        (self.rows.len() - self.positions()) as u64
    }

    /// The value of each row, in the order of `rows`, of the values of positions.
    pub(crate) fn spread(&self, values: &[u32]) -> Vec<u32> {
        if self.are_single() {
            return values.to_vec();
        }
        let of_positions = values.iter().enumerate();
        of_positions
            .flat_map(|(position, value)| {
                std::iter::repeat_n(*value, self.count(position) as usize)
            })
            .collect()
    }
}

/// A hash of a set. Equal sets have equal ones; no hash decides that sets are equal.
pub(crate) fn hash(group: u32, size: u32, elements: &[u32]) -> u64 {
    const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
    let first = (u64::from(group) << 32 | u64::from(size)).wrapping_mul(MULTIPLIER);
    let mixed = elements.iter().fold(first, |hash, element| {
        (hash.rotate_left(26) ^ u64::from(*element)).wrapping_mul(MULTIPLIER)
    });
    mixed ^ mixed >> 32
}

/// Whether so many sets are equal that joining equal ones once pays: whether there are half as many pairs of equal
/// sets (each counted both ways) as sets. Each is a match of nearly every predicate.
///
/// The sum of squares of the number of hashes in each of some counters estimates the sum of squares of the numbers of
/// equal sets (a sketch of the second moment).
pub(crate) fn repay_sharing(hashes: &[u64]) -> bool {
    let sets = hashes.len() as u64;
    if hashes.len() < LEAST_SETS {
        return false;
    }
    let mut counters = vec![0u32; COUNTERS];
    for hash in hashes {
        counters[*hash as usize % COUNTERS] += 1;
    }
    let squares: u64 = counters.iter().map(|count| u64::from(*count).pow(2)).sum();
    // Of different sets, too, some fall into one counter.
    let by_chance = sets.pow(2) / COUNTERS as u64;
    2 * squares.saturating_sub(by_chance) >= 3 * sets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repay(sets: impl Iterator<Item = u32>) -> bool {
        repay_sharing(&sets.map(|set| hash(0, 2, &[set, 7])).collect::<Vec<_>>())
    }

    #[test]
    fn what_repays() {
        for sets in [16, 300, 5_000, 200_000] {
            assert!(!repay(0..sets), "{sets}");
            // One in four is as another one.
            assert!(
                !repay((0..sets).map(|i| i - u32::from(i % 8 == 1))),
                "{sets}"
            );
            assert!(repay((0..sets).map(|i| i / 2)), "{sets}");
            assert!(repay((0..sets).map(|_| 0)), "{sets}");
        }
        // A few that are one set.
        assert!(repay((0..100_000).map(|i| if i % 50 == 0 { 0 } else { i })));
        assert!(!repay(std::iter::repeat_n(1, 15)));
        assert!(!repay(0..0));
    }

    #[test]
    fn rows_by_position() {
        let mut members = Members::with_capacity(4, true);
        members.begin(7);
        members.begin(2);
        members.add(9);
        members.begin(1);
        assert_eq!(
            [0, 1, 2].map(|p| members.of(p).to_vec()),
            [vec![7], vec![2, 9], vec![1]]
        );
        assert_eq!((members.positions(), members.repeats()), (3, 1));
        assert_eq!(members.spread(&[5, 6, 8]), [5, 6, 6, 8]);
        let mut single = Members::with_capacity(1, false);
        single.begin(3);
        assert_eq!(
            (single.of(0), single.count(0), single.repeats()),
            ([3].as_slice(), 1, 0)
        );
        assert_eq!(single.spread(&[4]), [4]);
    }
}
