//! The expected results, computed without any engine by sorting and counting, in O(n log n): also for sizes that a
//! nested loop never finishes, so that every measured cell is checked.

use std::collections::HashMap;

use rayon::prelude::*;

use super::support::answer::Expected;
use super::support::table::Table;

/// `SUM(s.x)` over the matches of `r.a > s.a`.
pub fn sum(tables: &[Table]) -> Expected {
    let greater = sorted(tables[0].column("a"));
    let (a, x) = (tables[1].column("a"), tables[1].column("x"));
    let total = a
        .par_iter()
        .zip(x)
        .map(|(&a, x)| above(&greater, a) as i64 * x)
        .sum();
    Expected {
        rows: 1,
        sum: Some(total),
    }
}

/// The number of matches of `r.a > s.a`.
pub fn rows(tables: &[Table]) -> Expected {
    let greater = sorted(tables[0].column("a"));
    let matches = tables[1].column("a");
    counted(matches.par_iter().map(|&a| above(&greater, a)))
}

/// The number of pairs in which the first earns less and pays more tax.
pub fn employees(tables: &[Table]) -> Expected {
    let points = || std::iter::zip(tables[0].column("salary"), tables[0].column("tax"));
    Expected {
        rows: less_and_greater(points(), points()),
        sum: None,
    }
}

/// The number of matches of `r.a < s.a AND r.b > s.b`.
pub fn dominance(tables: &[Table]) -> Expected {
    let points = |table: &Table| std::iter::zip(table.column("a"), table.column("b"));
    let pairs = less_and_greater(points(&tables[0]), points(&tables[1]));
    Expected {
        rows: 1,
        sum: Some(pairs as i64),
    }
}

/// The number of matches of `r.a * s.b + r.c > s.d`; all pairs are tested.
pub fn mixed(tables: &[Table]) -> Expected {
    let (a, c) = (tables[0].column("a"), tables[0].column("c"));
    let (b, d) = (tables[1].column("b"), tables[1].column("d"));
    let pairs: usize = a
        .par_iter()
        .zip(c)
        .map(|(&a, c)| {
            let other = std::iter::zip(&b, &d);
            other.filter(|&(&b, &d)| a * b + c > d).count()
        })
        .sum();
    Expected {
        rows: 1,
        sum: Some(pairs as i64),
    }
}

/// The number of readings with events near, and of such events in all.
pub fn band_count(tables: &[Table]) -> Expected {
    let near = events_near(tables);
    Expected {
        rows: near.iter().filter(|&&events| events > 0).count() as u64,
        sum: Some(near.iter().sum::<u64>() as i64),
    }
}

/// The number of pairs of a reading and an event near.
pub fn band_rows(tables: &[Table]) -> Expected {
    counted(events_near(tables).into_par_iter())
}

fn events_near(tables: &[Table]) -> Vec<u64> {
    let events = sorted(tables[1].column("t"));
    let readings = tables[0].column("t");
    readings
        .par_iter()
        .map(|&t| (up_to(&events, t + 50) - below(&events, t - 50)) as u64)
        .collect()
}

/// The number of pairs of overlapping intervals with equal keys.
pub fn overlap(tables: &[Table]) -> Expected {
    counted(overlaps(tables).into_par_iter())
}

/// The number of intervals that others overlap, and of these overlaps in all.
pub fn overlap_count(tables: &[Table]) -> Expected {
    let overlaps = overlaps(tables);
    Expected {
        rows: overlaps.iter().filter(|&&others| others > 0).count() as u64,
        sum: Some(overlaps.iter().sum::<u64>() as i64),
    }
}

/// The intervals that overlap each one of the first table and have an equal key: all that begin in time, minus those
/// that end too early.
fn overlaps(tables: &[Table]) -> Vec<u64> {
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
    let intervals: Vec<_> = std::iter::zip(one.column("k"), bounds).collect();
    let overlaps = intervals.into_par_iter().map(|(key, (lo, hi))| {
        ends.get(&key)
            .map_or(0, |(los, his)| (up_to(los, hi) - below(his, lo)) as u64)
    });
    overlaps.collect()
}

fn counted(matches: impl ParallelIterator<Item = u64>) -> Expected {
    Expected {
        rows: matches.sum(),
        sum: None,
    }
}

fn sorted(mut values: Vec<i64>) -> Vec<i64> {
    values.par_sort_unstable();
    values
}

/// The number of sorted values < `bound`.
fn below(values: &[i64], bound: i64) -> usize {
    values.partition_point(|&value| value < bound)
}

/// The number of sorted values ≤ `bound`.
fn up_to(values: &[i64], bound: i64) -> usize {
    values.partition_point(|&value| value <= bound)
}

/// The number of sorted values > `bound`.
fn above(values: &[i64], bound: i64) -> u64 {
    (values.len() - up_to(values, bound)) as u64
}

/// A point of either relation.
#[derive(Clone, Copy)]
struct Point {
    a: i64,
    b: i64,
    /// Whether it belongs to the first relation.
    counted: bool,
}

/// The number of pairs of `one` and `other` with `one.a < other.a` and `one.b > other.b`.
fn less_and_greater(
    one: impl Iterator<Item = (i64, i64)>,
    other: impl Iterator<Item = (i64, i64)>,
) -> u64 {
    let point = |counted| move |(a, b)| Point { a, b, counted };
    let mut points: Vec<Point> = one
        .map(point(true))
        .chain(other.map(point(false)))
        .collect();
    // With equal `a`, the counted points come last: the comparison is strict.
    points.par_sort_unstable_by_key(|point| (point.a, point.counted));
    let mut scratch = points.clone();
    sort_and_count(&mut points, &mut scratch)
}

/// Sorts `points` by `b`. For each point of the second relation, counts the earlier points of the first one with a
/// greater `b`: at each merge, those of the first half for each of the second half.
fn sort_and_count(points: &mut [Point], scratch: &mut [Point]) -> u64 {
    const ALONE: usize = 1 << 14;
    let middle = points.len() / 2;
    if middle == 0 {
        return 0;
    }
    let (first, second) = points.split_at_mut(middle);
    let (for_first, for_second) = scratch.split_at_mut(middle);
    let (below, above) = match first.len() > ALONE {
        true => rayon::join(
            || sort_and_count(first, for_first),
            || sort_and_count(second, for_second),
        ),
        false => (
            sort_and_count(first, for_first),
            sort_and_count(second, for_second),
        ),
    };
    let all = first.iter().filter(|point| point.counted).count() as u64;
    let (mut i, mut j, mut passed, mut pairs) = (0, 0, 0, 0);
    for place in scratch.iter_mut() {
        if j == second.len() || (i < first.len() && first[i].b <= second[j].b) {
            passed += u64::from(first[i].counted);
            *place = first[i];
            i += 1;
        } else {
            if !second[j].counted {
                pairs += all - passed;
            }
            *place = second[j];
            j += 1;
        }
    }
    points.copy_from_slice(scratch);
    below + above + pairs
}
