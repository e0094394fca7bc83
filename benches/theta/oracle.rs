//! The expected results, computed without any engine by sorting and counting, in O(n log n): also for sizes that a
//! nested loop never finishes, so that every measured cell is checked.

use std::collections::HashMap;

use rayon::prelude::*;

use super::points::less_and_greater;
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
    let other = points().map(|(salary, tax)| (salary, tax, 1));
    Expected {
        rows: less_and_greater(points(), other) as u64,
        sum: None,
    }
}

/// The number of matches of `r.a < s.a AND r.b > s.b`.
pub fn dominance(tables: &[Table]) -> Expected {
    let other = points(&tables[1]).map(|(a, b)| (a, b, 1));
    Expected {
        rows: 1,
        sum: Some(less_and_greater(points(&tables[0]), other)),
    }
}

/// The number of points of `r` with a match of `r.a < s.a AND r.b > s.b`, and the sum of `s.x` over all matches.
pub fn dominance_sums(tables: &[Table]) -> Expected {
    let (r, s) = (&tables[0], &tables[1]);
    let weighted = std::iter::zip(points(s), s.column("x"));
    let sum = less_and_greater(points(r), weighted.map(|((a, b), x)| (a, b, x as i32)));

    // By `a`, each with the least `b` from there on.
    let mut least_from: Vec<(i64, i64)> = points(s).collect();
    least_from.par_sort_unstable();
    let mut least = i64::MAX;
    for (_, b) in least_from.iter_mut().rev() {
        least = least.min(*b);
        *b = least;
    }
    let matched = |&(a, b): &(i64, i64)| {
        let first = least_from.partition_point(|&(other, _)| other <= a);
        least_from.get(first).is_some_and(|&(_, least)| least < b)
    };
    let rows: Vec<(i64, i64)> = points(r).collect();
    Expected {
        rows: rows.par_iter().filter(|point| matched(point)).count() as u64,
        sum: Some(sum),
    }
}

/// The sum of `s.x` over the matches of `r.a < s.a AND r.b > s.b AND r.x < s.x`; all pairs are tested.
pub fn three_sums(tables: &[Table]) -> Expected {
    let with_x = |table: &Table| -> Vec<((i64, i64), i64)> {
        points(table).zip(table.column("x")).collect()
    };
    let (r, s) = (with_x(&tables[0]), with_x(&tables[1]));
    let sum_of = |&((a, b), x): &((i64, i64), i64)| -> i64 {
        let matched = s.iter().filter(|((c, d), y)| a < *c && b > *d && x < *y);
        matched.map(|(_, y)| y).sum()
    };
    Expected {
        rows: 1,
        sum: Some(r.par_iter().map(sum_of).sum()),
    }
}

fn points(table: &Table) -> impl Iterator<Item = (i64, i64)> + use<> {
    std::iter::zip(table.column("a"), table.column("b"))
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

/// The number of readings with an event at most 50 away, and the sum of the distances of the nearest ones.
pub fn nearest(tables: &[Table]) -> Expected {
    let events = sorted(tables[1].column("t"));
    let readings = tables[0].column("t");
    let distances: Vec<i64> = readings
        .par_iter()
        .filter_map(|&t| {
            let next = below(&events, t);
            let before = next.checked_sub(1).map(|last| t - events[last]);
            let after = events.get(next).map(|event| event - t);
            let least = before.into_iter().chain(after).min();
            least.filter(|&distance| distance <= 50)
        })
        .collect();
    totalled(&distances)
}

/// The number of trades with a quote of their key before them or at the same time, and the sum of the last ones' prices.
pub fn as_of(tables: &[Table]) -> Expected {
    let moments = |table: &Table| std::iter::zip(table.column("k"), table.column("t"));
    let (trades, quotes) = (&tables[0], &tables[1]);
    let mut priced: Vec<_> = std::iter::zip(moments(quotes), quotes.column("price")).collect();
    priced.par_sort_unstable();
    let moments: Vec<(i64, i64)> = moments(trades).collect();
    let prices: Vec<i64> = moments
        .par_iter()
        .filter_map(|trade| {
            let later = priced.partition_point(|(quote, _)| quote <= trade);
            let (quote, price) = priced[later.checked_sub(1)?];
            (quote.0 == trade.0).then_some(price)
        })
        .collect();
    totalled(&prices)
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

/// A row for each value.
fn totalled(values: &[i64]) -> Expected {
    Expected {
        rows: values.len() as u64,
        sum: Some(values.iter().sum()),
    }
}

fn sorted(mut values: Vec<i64>) -> Vec<i64> {
    values.par_sort_unstable();
    values
}

/// The number of sorted values < `bound`.
pub fn below(values: &[i64], bound: i64) -> usize {
    values.partition_point(|&value| value < bound)
}

/// The number of sorted values ≤ `bound`.
pub fn up_to(values: &[i64], bound: i64) -> usize {
    values.partition_point(|&value| value <= bound)
}

/// The number of sorted values > `bound`.
fn above(values: &[i64], bound: i64) -> u64 {
    (values.len() - up_to(values, bound)) as u64
}
