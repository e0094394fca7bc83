//! The cases of the theta bench: a query, its tables, its ascending sizes, and the expected result.

use super::datasets;
use super::oracle;
use super::ranges;
use super::support::answer::Expected;
use super::support::quantity::short;
use super::support::table::Table;

/// One query.
pub struct Case {
    pub name: &'static str,
    pub sql: &'static str,
    /// The kind of the tables: cases with the same tables share their exported files.
    pub data: &'static str,
    pub dataset: fn(&Size) -> Vec<Table>,
    pub oracle: fn(&[Table]) -> Expected,
    /// The result column whose sum the oracle knows.
    pub sum: Option<usize>,
    /// Sizes ascend within a ladder; each ladder has its own selectivity.
    pub ladders: Vec<Vec<Size>>,
    /// The number of distinct equality keys: one pair in that many has equal keys. 1 without a key.
    pub keys: fn(&Size) -> usize,
    /// Whether comparing every pair is worth a line.
    pub brute_force: bool,
    /// Whether a single inequality is the condition, which a piecewise merge join needs.
    pub one_inequality: bool,
}

impl Case {
    /// The number of pairs that a nested loop tests, or a hash join if there is an equality key.
    pub fn pairs(&self, size: &Size) -> u64 {
        size.left as u64 * size.right as u64 / (self.keys)(size) as u64
    }

    /// The text that `--filter` matches: `sum/50Kx45K/0.5`, `employees/1M`.
    pub fn cell_name(&self, size: &Size) -> String {
        format!("{}/{}", self.name, size.parts("/"))
    }

    /// The beginning of the exported files' names: `relations-50Kx45K-0.5`, `employees-1M`.
    pub fn export_name(&self, size: &Size) -> String {
        format!("{}-{}", self.data, size.parts("-"))
    }
}

/// The sizes of one cell.
#[derive(Clone, Debug)]
pub struct Size {
    pub left: usize,
    pub right: usize,
    /// The selectivity that the tables are generated for, if it is a parameter.
    pub selectivity: Option<f64>,
    /// Whether `--quick` includes it.
    pub quick: bool,
    /// Whether only `--large` includes it.
    pub large: bool,
}

impl Size {
    /// `500Kx450K`, or `1M` for two inputs of one size.
    pub fn label(&self) -> String {
        if self.left == self.right {
            short(self.left as f64)
        } else {
            format!("{}x{}", short(self.left as f64), short(self.right as f64))
        }
    }

    /// The sizes and the selectivity.
    pub fn parts(&self, separator: &str) -> String {
        match self.selectivity {
            Some(selectivity) => format!("{}{separator}{selectivity}", self.label()),
            None => self.label(),
        }
    }
}

/// |R| and |S| of [T] table II. Its lower half is that of table III.
pub const GRID: [(usize, usize); 12] = [
    (500, 50),
    (500, 250),
    (500, 450),
    (5_000, 500),
    (5_000, 2_500),
    (5_000, 4_500),
    (50_000, 5_000),
    (50_000, 25_000),
    (50_000, 45_000),
    (500_000, 50_000),
    (500_000, 250_000),
    (500_000, 450_000),
];

/// |R| and |S| of [T] table IV, after a smaller size that their time is predicted from.
pub const OUTPUT_GRID: [(usize, usize); 4] = [
    (5_000, 4_500),
    (50_000, 5_000),
    (30_000, 30_000),
    (50_000, 25_000),
];

/// Sizes of the fused sum that take seconds to generate: two long sides, and a long side that is streamed past a short
/// one.
const LONG_GRID: [(usize, usize); 4] = [
    (10_000_000, 10_000_000),
    (100_000_000, 100_000_000),
    (1_000_000, 100_000_000),
    (1_000_000, 400_000_000),
];

/// Inputs of more rows are measured with `--large` only.
const LARGE: usize = 1_000_000;

/// All cases, in the order of the report.
pub fn all() -> Vec<Case> {
    let mut all = inequalities();
    all.extend(ranges::all());
    all
}

/// Inequalities of [T] and of the inequality-join papers, bands, and overlaps of short intervals.
fn inequalities() -> Vec<Case> {
    vec![
        Case {
            name: "sum",
            sql: "SELECT SUM(S.x) FROM R JOIN S ON R.a > S.a",
            data: "relations",
            dataset: |size| {
                datasets::relations(size.left, size.right, size.selectivity.unwrap_or(0.5))
            },
            oracle: oracle::sum,
            sum: Some(0),
            ladders: vec![
                grid(&GRID, 0.5, 250_000_000),
                grid(&LONG_GRID, 0.5, 0),
                grid(&GRID[5..], 0.1, 30_000_000),
                grid(&GRID[5..], 0.9, 30_000_000),
            ],
            keys: |_| 1,
            brute_force: true,
            one_inequality: true,
        },
        Case {
            name: "rows",
            sql: "SELECT R.a, S.a, S.x FROM R JOIN S ON R.a > S.a",
            data: "relations",
            dataset: |size| {
                datasets::relations(size.left, size.right, size.selectivity.unwrap_or(0.5))
            },
            oracle: oracle::rows,
            sum: None,
            ladders: vec![
                grid(&OUTPUT_GRID, 0.5, 30_000_000),
                grid(&OUTPUT_GRID, 0.9, 30_000_000),
            ],
            keys: |_| 1,
            brute_force: true,
            one_inequality: true,
        },
        Case {
            name: "employees",
            sql: "SELECT r.id, s.id FROM employees r JOIN employees s ON r.salary < s.salary AND r.tax > s.tax",
            data: "employees",
            dataset: |size| datasets::employees(size.left),
            oracle: oracle::employees,
            sum: None,
            ladders: vec![squares(&[10_000, 30_000, 100_000, 1_000_000, 10_000_000])],
            keys: |_| 1,
            brute_force: true,
            one_inequality: false,
        },
        Case {
            name: "dominance-count",
            sql: "SELECT COUNT(*) FROM r JOIN s ON r.a < s.a AND r.b > s.b",
            data: "independent",
            dataset: |size| datasets::independent(size.left),
            oracle: oracle::dominance,
            sum: Some(0),
            ladders: vec![squares(&[
                10_000,
                30_000,
                100_000,
                1_000_000,
                10_000_000,
                100_000_000,
            ])],
            keys: |_| 1,
            brute_force: true,
            one_inequality: false,
        },
        Case {
            name: "mixed",
            sql: "SELECT COUNT(*) FROM r JOIN s ON r.a * s.b + r.c > s.d",
            data: "products",
            dataset: |size| datasets::products(size.left),
            oracle: oracle::mixed,
            sum: Some(0),
            ladders: vec![squares(&[3_000, 10_000, 30_000, 100_000])],
            keys: |_| 1,
            brute_force: false,
            one_inequality: false,
        },
        Case {
            name: "band-count",
            sql: "SELECT r.id, COUNT(*) FROM readings r JOIN events e ON e.t BETWEEN r.t - 50 AND r.t + 50 GROUP BY r.id",
            data: "band",
            dataset: |size| datasets::band(size.left),
            oracle: oracle::band_count,
            sum: Some(1),
            ladders: vec![squares(&[10_000, 30_000, 100_000, 1_000_000, 10_000_000])],
            keys: |_| 1,
            brute_force: false,
            one_inequality: false,
        },
        Case {
            name: "band-rows",
            sql: "SELECT r.id, e.id FROM readings r JOIN events e ON e.t BETWEEN r.t - 50 AND r.t + 50",
            data: "band",
            dataset: |size| datasets::band(size.left),
            oracle: oracle::band_rows,
            sum: None,
            ladders: vec![squares(&[10_000, 30_000, 100_000, 1_000_000, 10_000_000])],
            keys: |_| 1,
            brute_force: false,
            one_inequality: false,
        },
        Case {
            name: "overlap",
            sql: "SELECT a.id, b.id FROM a JOIN b ON a.lo <= b.hi AND b.lo <= a.hi",
            data: "overlap",
            dataset: |size| datasets::intervals(size.left, 1),
            oracle: oracle::overlap,
            sum: None,
            ladders: vec![squares(&[10_000, 30_000, 100_000, 1_000_000, 10_000_000])],
            keys: |_| 1,
            brute_force: false,
            one_inequality: false,
        },
        Case {
            name: "overlap-key",
            sql: "SELECT a.id, b.id FROM a JOIN b ON a.k = b.k AND a.lo <= b.hi AND b.lo <= a.hi",
            data: "overlap-key",
            dataset: |size| datasets::intervals(size.left, datasets::KEYS),
            oracle: oracle::overlap,
            sum: None,
            ladders: vec![squares(&[30_000, 100_000, 300_000, 1_000_000])],
            keys: |_| datasets::KEYS,
            brute_force: false,
            one_inequality: false,
        },
        Case {
            name: "overlap-count",
            sql: "SELECT a.id, COUNT(*) FROM a JOIN b ON a.k = b.k AND a.lo <= b.hi AND b.lo <= a.hi GROUP BY a.id",
            data: "overlap-key",
            dataset: |size| datasets::intervals(size.left, datasets::KEYS),
            oracle: oracle::overlap_count,
            sum: Some(1),
            ladders: vec![squares(&[30_000, 100_000, 300_000, 1_000_000, 10_000_000])],
            keys: |_| datasets::KEYS,
            brute_force: false,
            one_inequality: false,
        },
    ]
}

/// A ladder of one selectivity; `--quick` includes sizes up to `quick_pairs`.
pub fn grid(sizes: &[(usize, usize)], selectivity: f64, quick_pairs: usize) -> Vec<Size> {
    sizes
        .iter()
        .map(|&(left, right)| Size {
            left,
            right,
            selectivity: Some(selectivity),
            quick: left * right <= quick_pairs,
            large: left.max(right) > LARGE,
        })
        .collect()
}

/// A ladder of inputs of equal size; `--quick` includes sizes up to 100,000 rows, where the nested loop is
/// extrapolated.
pub fn squares(sizes: &[usize]) -> Vec<Size> {
    let sizes: Vec<_> = sizes.iter().map(|&rows| (rows, rows)).collect();
    rectangles(&sizes)
}

/// The same of inputs of two sizes.
pub fn rectangles(sizes: &[(usize, usize)]) -> Vec<Size> {
    sizes
        .iter()
        .map(|&(left, right)| Size {
            left,
            right,
            selectivity: None,
            quick: left.max(right) <= 100_000,
            large: left.max(right) > LARGE,
        })
        .collect()
}
