//! The answers, computed by sorting and counting without any engine, in O(n log n): they are there at sizes
//! that a nested loop never finishes, so that every measured cell is checked.

use std::collections::HashMap;

use super::support::answer::Expected;
use super::support::table::Table;

/// `SUM(s.x)` over pairs with `r.a > s.a`.
pub fn sum(tables: &[Table]) -> Expected {
    let greater = sorted(tables[0].column("a"));
    let total = std::iter::zip(tables[1].column("a"), tables[1].column("x"))
        .map(|(a, x)| above(&greater, a) as i64 * x)
        .sum();
    Expected {
        rows: 1,
        sum: Some(total),
    }
}

/// Pairs with `r.a > s.a`.
pub fn rows(tables: &[Table]) -> Expected {
    let greater = sorted(tables[0].column("a"));
    let matches = tables[1].column("a");
    counted(matches.iter().map(|&a| above(&greater, a)))
}

/// Pairs of whom the first earns less and pays more tax.
pub fn employees(tables: &[Table]) -> Expected {
    let taxes = tables[0].column("tax");
    let mut by_salary: Vec<(i64, i64)> =
        std::iter::zip(tables[0].column("salary"), taxes.iter().copied()).collect();
    by_salary.sort_unstable();
    let ranks = sorted(taxes);

    // Salaries ascend; those of equal salary are counted before any of them is inserted.
    let mut seen = Fenwick::new(ranks.len());
    let mut pairs = 0;
    for equal in by_salary.chunk_by(|one, other| one.0 == other.0) {
        for &(_, tax) in equal {
            pairs += seen.total - seen.before(up_to(&ranks, tax));
        }
        for &(_, tax) in equal {
            seen.insert(below(&ranks, tax));
        }
    }
    Expected {
        rows: pairs,
        sum: None,
    }
}

/// Readings with events near, and how many events those are in all.
pub fn band_count(tables: &[Table]) -> Expected {
    let near = events_near(tables);
    Expected {
        rows: near.iter().filter(|&&events| events > 0).count() as u64,
        sum: Some(near.iter().sum::<u64>() as i64),
    }
}

/// Pairs of a reading and an event near.
pub fn band_rows(tables: &[Table]) -> Expected {
    counted(events_near(tables).into_iter())
}

fn events_near(tables: &[Table]) -> Vec<u64> {
    let events = sorted(tables[1].column("t"));
    let readings = tables[0].column("t");
    readings
        .iter()
        .map(|&t| (up_to(&events, t + 50) - below(&events, t - 50)) as u64)
        .collect()
}

/// Pairs of overlapping intervals with equal keys: of all that begin in time, less those that end too early.
pub fn overlap(tables: &[Table]) -> Expected {
    let other = &tables[1];
    let mut ends: HashMap<i64, (Vec<i64>, Vec<i64>)> = HashMap::new();
    let bounds = std::iter::zip(other.column("lo"), other.column("hi"));
    for (key, (lo, hi)) in std::iter::zip(other.column("k"), bounds) {
        let (los, his) = ends.entry(key).or_default();
        los.push(lo);
        his.push(hi);
    }
    for (los, his) in ends.values_mut() {
        los.sort_unstable();
        his.sort_unstable();
    }

    let one = &tables[0];
    let bounds = std::iter::zip(one.column("lo"), one.column("hi"));
    counted(
        std::iter::zip(one.column("k"), bounds).map(|(key, (lo, hi))| {
            ends.get(&key)
                .map_or(0, |(los, his)| (up_to(los, hi) - below(his, lo)) as u64)
        }),
    )
}

fn counted(matches: impl Iterator<Item = u64>) -> Expected {
    Expected {
        rows: matches.sum(),
        sum: None,
    }
}

fn sorted(mut values: Vec<i64>) -> Vec<i64> {
    values.sort_unstable();
    values
}

/// How many of the sorted values are < `bound`.
fn below(values: &[i64], bound: i64) -> usize {
    values.partition_point(|&value| value < bound)
}

/// How many of the sorted values are ≤ `bound`.
fn up_to(values: &[i64], bound: i64) -> usize {
    values.partition_point(|&value| value <= bound)
}

/// How many of the sorted values are > `bound`.
fn above(values: &[i64], bound: i64) -> u64 {
    (values.len() - up_to(values, bound)) as u64
}

/// Counts of inserted positions, with prefix sums in O(log n).
struct Fenwick {
    counts: Vec<u64>,
    total: u64,
}

impl Fenwick {
    fn new(positions: usize) -> Self {
        Self {
            counts: vec![0; positions + 1],
            total: 0,
        }
    }

    fn insert(&mut self, position: usize) {
        self.total += 1;
        let mut node = position + 1;
        while node < self.counts.len() {
            self.counts[node] += 1;
            node += node & node.wrapping_neg();
        }
    }

    /// How many inserted positions are < `position`.
    fn before(&self, position: usize) -> u64 {
        let mut node = position;
        let mut count = 0;
        while node > 0 {
            count += self.counts[node];
            node &= node - 1;
        }
        count
    }
}
