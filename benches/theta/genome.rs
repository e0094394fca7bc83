//! The expected results of the genome cases. Contigs are laid one behind the other on one line, on which no interval of
//! one reaches the next: an overlap on the line is one of equal contigs.

use rayon::prelude::*;

use super::oracle::{below, up_to};
use super::points::less_and_greater;
use super::support::answer::Expected;
use super::support::table::Table;

/// `SUM(a.id + b.id)` over all overlaps.
pub fn overlaps(tables: &[Table]) -> Expected {
    let ids = tables[0].column("id");
    let overlaps = Overlaps::all(tables, "id").into_iter();
    let sums = overlaps
        .zip(ids)
        .map(|(of, id)| of.count as i64 * id + of.sum);
    Expected {
        rows: 1,
        sum: Some(sums.sum()),
    }
}

/// The number of overlaps.
pub fn rows(tables: &[Table]) -> Expected {
    let overlaps = Overlaps::all(tables, "id");
    Expected {
        rows: overlaps.iter().map(|of| of.count).sum(),
        sum: None,
    }
}

/// The number of intervals of `a` with overlaps, and of these overlaps in all.
pub fn counts(tables: &[Table]) -> Expected {
    grouped(tables, |of| of.count as i64)
}

/// The number of intervals of `a` with overlaps, and the sum of `b.score` over all overlaps.
pub fn sums(tables: &[Table]) -> Expected {
    grouped(tables, |of| of.sum)
}

fn grouped(tables: &[Table], value: impl Fn(&Overlaps) -> i64) -> Expected {
    let overlaps = Overlaps::all(tables, "score");
    Expected {
        rows: overlaps.iter().filter(|of| of.count > 0).count() as u64,
        sum: Some(overlaps.iter().map(value).sum()),
    }
}

/// The number of pairs in which the interval of `b` is inside that of `a`.
pub fn contained(tables: &[Table]) -> Expected {
    let [a, b] = on_one_line(tables);
    // Of whole numbers a strict comparison with the next one is one that allows equality.
    let a = a.into_iter().map(|(lo, hi)| (lo - 1, hi + 1));
    let b = b.into_iter().map(|(lo, hi)| (lo, hi, 1));
    Expected {
        rows: 1,
        sum: Some(less_and_greater(a, b)),
    }
}

/// The intervals of `b` that overlap one of `a`.
struct Overlaps {
    count: u64,
    /// Of a column of `b`.
    sum: i64,
}

impl Overlaps {
    /// For each interval of `a`: all of `b` that begin in time, minus those that end too early.
    fn all(tables: &[Table], weight: &str) -> Vec<Self> {
        let [a, b] = on_one_line(tables);
        let weights = tables[1].column(weight);
        let begins = Bounds::new(b.iter().map(|(lo, _)| *lo), &weights);
        let ends = Bounds::new(b.iter().map(|(_, hi)| *hi), &weights);
        let overlaps = a.into_par_iter().map(|(lo, hi)| {
            let begun = up_to(&begins.ascending, hi);
            let ended = below(&ends.ascending, lo);
            Self {
                count: (begun - ended) as u64,
                sum: begins.totals[begun] - ends.totals[ended],
            }
        });
        overlaps.collect()
    }
}

/// The begins or the ends of intervals.
struct Bounds {
    ascending: Vec<i64>,
    /// The weights of the first intervals in this order, added up: of none at first, of all at last.
    totals: Vec<i64>,
}

impl Bounds {
    fn new(bounds: impl Iterator<Item = i64>, weights: &[i64]) -> Self {
        let mut weighted: Vec<(i64, i64)> = bounds.zip(weights.iter().copied()).collect();
        weighted.par_sort_unstable();
        let mut totals = Vec::with_capacity(weighted.len() + 1);
        let mut total = 0_i64;
        totals.push(total);
        for &(_, weight) in &weighted {
            total += weight;
            totals.push(total);
        }
        Self {
            ascending: weighted.into_iter().map(|(bound, _)| bound).collect(),
            totals,
        }
    }
}

/// Begins and ends of the intervals of both tables, from the first contig's beginning on.
fn on_one_line(tables: &[Table]) -> [Vec<(i64, i64)>; 2] {
    let ends = tables.iter().flat_map(|table| table.column("hi"));
    let contig_length = ends.max().map_or(0, |last| last + 1);
    let on_line = |table: &Table| -> Vec<(i64, i64)> {
        let contigs = table.texts("chrom").iter().flatten();
        let contigs = contigs.map(|name| {
            let number = name
                .strip_prefix("chr")
                .and_then(|of| of.parse::<i64>().ok());
            let number = number.unwrap_or_else(|| panic!("{name} is no contig"));
            number * contig_length
        });
        let bounds = std::iter::zip(table.column("lo"), table.column("hi"));
        let placed = contigs.zip(bounds);
        placed
            .map(|(contig, (lo, hi))| (contig + lo, contig + hi))
            .collect()
    };
    [on_line(&tables[0]), on_line(&tables[1])]
}
