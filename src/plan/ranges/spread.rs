//! [`Spread`]: how many rows have values between which others, as the statistics of files say, and ranges of about as many rows each.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;

use crate::functions::ranges::Ranges;
use crate::plan::ranges::extent::{Scanned, ends_of, scanned};

type Expr = Arc<dyn PhysicalExpr>;
type Plan = Arc<dyn ExecutionPlan>;

/// Rows of a file. Nothing is known of how its values are spread between the least and the greatest one: evenly.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    ends: [f64; 2],
    rows: f64,
}

impl Spread {
    /// Rows with a value below this one.
    fn below(self, value: f64) -> f64 {
        let [least, greatest] = self.ends;
        match value > least {
            false => 0.0,
            true if value >= greatest => self.rows,
            true => self.rows * ((value - least) / (greatest - least)),
        }
    }
}

/// The rows of each file below a plan by the values of an expression; none where those of a file are unknown. Filters count for nothing.
pub(crate) fn spreads(expr: &Expr, plan: &Plan) -> Vec<Spread> {
    let Some(Scanned { expr, config, .. }) = scanned(expr, plan) else {
        return vec![];
    };
    let mut seen = HashSet::new();
    let files = config.file_groups.iter().flat_map(|group| group.files());
    let files = files.filter(|file| seen.insert(&file.object_meta.location));
    let spreads: Option<Vec<Spread>> = files
        .map(|file| of_file(&expr, config, file.statistics.as_deref()?))
        .collect();
    spreads.unwrap_or_default()
}

fn of_file(expr: &Expr, config: &FileScanConfig, known: &Statistics) -> Option<Spread> {
    let table = config.file_source().table_schema().table_schema().clone();
    let rows = *known.num_rows.get_value()?;
    let [one, other] = ends_of(expr, &table, known)?;
    Some(Spread {
        ends: [one.min(other), one.max(other)],
        rows: rows as f64,
    })
}

/// The rows of the fullest range.
fn fullest(ranges: &Ranges, spreads: &[Spread]) -> f64 {
    let below = |value: f64| spreads.iter().map(|spread| spread.below(value)).sum();
    let bounds = ranges.bounds();
    let mut last = 0.0;
    let mut most: f64 = 0.0;
    for reached in bounds
        .iter()
        .map(|bound| below(*bound))
        .chain([all(spreads)])
    {
        most = most.max(reached - last);
        last = reached;
    }
    most
}

fn all(spreads: &[Spread]) -> f64 {
    spreads.iter().map(|spread| spread.rows).sum()
}

/// How often the rows of an average range the fullest one may have.
const MOST_CROWDED: f64 = 2.0;

/// Ranges that stand for `even` ones where these are crowded: at least `least_count`, none of them narrower than `narrowest`, and the fullest one
/// with fewer rows.
pub(crate) fn uncrowded(
    even: &Ranges,
    spreads: &[Spread],
    least_count: usize,
    narrowest: f64,
) -> Option<Ranges> {
    let count = even.bounds().len() + 1;
    let fullest_even = fullest(even, spreads);
    if spreads.is_empty() || fullest_even <= MOST_CROWDED * all(spreads) / count as f64 {
        return None;
    }
    let mut bounds: Vec<f64> = vec![];
    for bound in quantiles(spreads, count) {
        let is_wide = |last: &f64| bound > *last && bound - last >= narrowest;
        if bound.is_finite() && bounds.last().is_none_or(is_wide) {
            bounds.push(bound);
        }
    }
    let ranges = Ranges::Between(bounds.into());
    let are_enough = ranges.bounds().len() + 1 >= least_count;
    (are_enough && fullest(&ranges, spreads) < fullest_even).then_some(ranges)
}

/// The values that divide rows in `count` parts of as many each, in order; some may be the same.
fn quantiles(spreads: &[Spread], count: usize) -> Vec<f64> {
    // Where the rows of a file begin and end: how many there are for each unit from there on, or at one value.
    let mut steps: Vec<(f64, f64, f64)> = vec![];
    for &Spread { ends, rows } in spreads {
        let [least, greatest] = ends;
        match greatest > least {
            true => {
                let density = rows / (greatest - least);
                steps.extend([(least, density, 0.0), (greatest, -density, 0.0)]);
            }
            false => steps.push((least, 0.0, rows)),
        }
    }
    steps.sort_by(|one, other| one.0.total_cmp(&other.0));
    let rows = all(spreads);
    let mut wanted = (1..count)
        .map(|i| rows * i as f64 / count as f64)
        .peekable();
    let mut found = vec![];
    let (mut at, mut below, mut density) = (f64::NEG_INFINITY, 0.0, 0.0_f64);
    for (step, more, rows) in steps {
        // Sums of floats that come to nothing leave a little.
        let reached = match density > 0.0 && step > at {
            true => below + density * (step - at),
            false => below,
        };
        while let Some(wanted) = wanted.next_if(|wanted| *wanted <= reached && reached > below) {
            found.push(at + (wanted - below) / density);
        }
        (at, below, density) = (step, reached + rows, density + more);
        while wanted.next_if(|wanted| *wanted <= below).is_some() {
            found.push(at);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(least: f64, greatest: f64, rows: f64) -> Spread {
        Spread {
            ends: [least, greatest],
            rows,
        }
    }

    fn even(least: f64, greatest: f64, count: i64) -> Ranges {
        Ranges::Even {
            least,
            width: (greatest - least) / count as f64,
            count,
        }
    }

    #[test]
    fn bounds_are_close_where_rows_are_many() {
        // Nine of ten rows in a tenth of the values.
        let files = [spread(0.0, 100.0, 100.0), spread(40.0, 50.0, 900.0)];
        let bounds = quantiles(&files, 10);
        assert_eq!(bounds.len(), 9);
        assert!(bounds.is_sorted());
        let inside = bounds.iter().filter(|bound| (40.0..=50.0).contains(*bound));
        assert_eq!(inside.count(), 9, "{bounds:?}");
        let even = even(0.0, 100.0, 10);
        assert!((fullest(&even, &files) - 910.0).abs() < 1e-6);
        let ranges = uncrowded(&even, &files, 4, 0.5).unwrap();
        assert!(fullest(&ranges, &files) < 101.0, "{ranges:?}");
        // Wide intervals leave fewer ranges, or too few.
        let wide = uncrowded(&even, &files, 4, 3.0).unwrap();
        assert_eq!(wide.bounds().len(), 3, "{wide:?}");
        assert!(uncrowded(&even, &files, 5, 3.0).is_none());
    }

    #[test]
    fn fewer_ranges_are_no_better() {
        // The crowd is as wide as an interval: its bound would be beside it.
        let files = [
            spread(0.0, 1e6, 1001.0),
            spread(499_995.0, 500_005.0, 20_000.0),
        ];
        let even = even(0.0, 1e6, 64);
        for least_count in [1, 4] {
            let ranges = uncrowded(&even, &files, least_count, 200.0);
            assert!(ranges.is_none(), "{ranges:?}");
        }
    }

    #[test]
    fn what_is_even_stays_so() {
        let files = [spread(0.0, 50.0, 10.0), spread(50.0, 100.0, 15.0)];
        assert!(uncrowded(&even(0.0, 100.0, 8), &files, 4, 0.1).is_none());
        assert!(uncrowded(&even(0.0, 100.0, 8), &[], 4, 0.1).is_none());
        // One value that all rows have.
        let same = [spread(7.0, 7.0, 100.0), spread(0.0, 100.0, 1.0)];
        let ranges = uncrowded(&even(0.0, 100.0, 8), &same, 4, 0.1);
        assert!(ranges.is_none_or(|ranges| ranges.bounds().is_sorted()));
        assert_eq!(quantiles(&[spread(7.0, 7.0, 100.0)], 4), [7.0; 3]);
    }
}
