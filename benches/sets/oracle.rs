//! The expected results, computed without any engine, in whole numbers: common elements are counted along lists of the
//! sets with each element.

use rayon::prelude::*;

use super::support::answer::Expected;
use super::support::table::Table;

/// A pair of sets, in the numbers that a predicate depends on.
#[derive(Clone, Copy)]
pub struct Pair {
    /// The numbers of common elements, of elements of the first set, and of the second.
    pub shared: u64,
    pub first: u64,
    pub second: u64,
}

impl Pair {
    /// Whether all elements of the first set are in the second.
    pub fn contained(self) -> bool {
        self.shared == self.first
    }

    /// Whether the Jaccard similarity is at least `tenths` tenths.
    pub fn jaccard(self, tenths: u64) -> bool {
        10 * self.shared >= tenths * (self.first + self.second - self.shared)
    }
}

/// A query's condition on the rows besides their sets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// None: each set matches itself, too.
    All,
    /// The first row's id is less.
    Ascending,
    /// The same, and equal keys.
    AscendingOfKey,
}

/// The output of a query.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// The number of matches.
    Count,
    /// The ids of both rows; the sum is that of the second.
    Pairs,
    /// Each first id with matches, and their number; the sum is that of the numbers.
    CountsByFirst,
}

/// The self join of a table. Sets without a common element never match.
pub fn joined(
    table: &Table,
    rows: Rows,
    output: Output,
    matches: impl Fn(Pair) -> bool + Sync,
) -> Expected {
    let (ids, keys) = (table.column("id"), table.column("k"));
    let mut sets: Vec<Vec<i32>> = table.lists("tags").collect();
    sets.par_iter_mut().for_each(|set| {
        set.sort_unstable();
        set.dedup();
    });
    let holders = Holders::new(&sets);
    let per_first = |shared: &mut Vec<u64>, first: usize| {
        let (mut pairs, mut sum) = (0u64, 0i64);
        let mut met = vec![];
        for &element in &sets[first] {
            for &second in holders.of(element) {
                if shared[second as usize] == 0 {
                    met.push(second as usize);
                }
                shared[second as usize] += 1;
            }
        }
        for second in met {
            let pair = Pair {
                shared: std::mem::take(&mut shared[second]),
                first: sets[first].len() as u64,
                second: sets[second].len() as u64,
            };
            let wanted = (rows == Rows::All || ids[first] < ids[second])
                && (rows != Rows::AscendingOfKey || keys[first] == keys[second]);
            if wanted && matches(pair) {
                pairs += 1;
                sum += ids[second];
            }
        }
        (pairs, sum)
    };
    let counted = (0..sets.len())
        .into_par_iter()
        .map_init(|| vec![0u64; sets.len()], per_first);
    let (pairs, sum, with) = counted
        .map(|(pairs, sum)| (pairs, sum, u64::from(pairs > 0)))
        .reduce(
            || (0, 0, 0),
            |one, other| (one.0 + other.0, one.1 + other.1, one.2 + other.2),
        );
    let (rows, sum) = match output {
        Output::Count => (1, pairs as i64),
        Output::Pairs => (pairs, sum),
        Output::CountsByFirst => (with, pairs as i64),
    };
    Expected {
        rows,
        sum: Some(sum),
    }
}

/// The sets with each element.
struct Holders {
    starts: Vec<usize>,
    sets: Vec<u32>,
}

impl Holders {
    fn new(sets: &[Vec<i32>]) -> Self {
        let most = sets.iter().flatten().max().map_or(0, |most| *most as usize);
        let mut starts = vec![0usize; most + 2];
        for &element in sets.iter().flatten() {
            starts[element as usize + 1] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut next = starts.clone();
        let mut holders = vec![0; starts[most + 1]];
        for (row, set) in sets.iter().enumerate() {
            for &element in set {
                let place = &mut next[element as usize];
                holders[*place] = row as u32;
                *place += 1;
            }
        }
        Self {
            starts,
            sets: holders,
        }
    }

    fn of(&self, element: i32) -> &[u32] {
        &self.sets[self.starts[element as usize]..self.starts[element as usize + 1]]
    }
}
